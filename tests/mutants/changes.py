"""What is changed: operators, numbers, signs, branches, arguments that change places, functions left out."""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OTHER = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.Mod: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
EDGE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "argmax": "argmin", "mean": "sum", "floor": "ceil"}
DROPPED = {"square", "sqrt", "rsqrt", "log", "exp", "exp_", "clamp", "cumsum", "log_ndtr", "ndtri", "masked_fill"}
DROPPED |= {"detach", "softmax", "flip"}


@dataclass(frozen=True)
class Mutant:
    path: str  # below src/candi
    function: str  # qualified name; empty where it is no function, or one whose answers are kept
    line: int
    old: str
    new: str
    source: str  # of the whole file

    @property
    def key(self) -> str:
        """As `judged.txt` has it, whatever the lines above it do."""
        return f"{self.path} | {self.old} | {self.new}"

    def __str__(self) -> str:
        return f"{self.path}:{self.line}\n  - {self.old}\n  + {self.new}"


def _with(node: ast.AST, **values: Any) -> Any:
    twin = copy.copy(node)
    for name, value in values.items():
        setattr(twin, name, value)
    return twin


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """What could stand in the place of an expression."""
    match node:
        case ast.BinOp() | ast.BoolOp() if type(node.op) in OTHER:
            yield _with(node, op=OTHER[type(node.op)]())
        case ast.Compare(ops=[op]):
            tables = (OTHER,) if "uniform(" in ast.unparse(node) else (OTHER, EDGE)  # no such number is met exactly
            yield from (_with(node, ops=[table[type(op)]()]) for table in tables if type(op) in table)
        case ast.UnaryOp(operand=operand) if not isinstance(operand, ast.Constant):
            yield operand
        case ast.Constant(value=bool() as value):
            yield _with(node, value=not value)
        case ast.Constant(value=int() | float() as value):
            yield _with(node, value=value * 2 if isinstance(value, float) and value else value + 1)
        case ast.IfExp():
            yield _with(node, body=node.orelse, orelse=node.body)
        case ast.Call(func=ast.Attribute(value=owner, attr=name) as function, args=args):
            if name in DROPPED:  # torch.exp(x) or x.exp()
                yield args[0] if args and ast.unparse(owner) in ("torch", "torch.special", "F") else owner
            if name in NAMES:
                yield _with(node, func=_with(function, attr=NAMES[name]))
            if name == "where" and len(args) == 2:  # x.where(a, y)
                yield _with(node, func=_with(function, value=args[1]), args=[args[0], owner])
        case ast.Call(func=ast.Name(id=name) as function) if name in NAMES:
            yield _with(node, func=_with(function, id=NAMES[name]))
    if isinstance(node, ast.Call):
        args, free = node.args, getattr(node.func, "attr", "") in ("where", "lerp")
        for i in range(len(args) - 1):
            alike = type(args[i]) is type(args[i + 1]) is not ast.Constant
            if (free or alike) and ast.unparse(args[i]) != ast.unparse(args[i + 1]):
                yield _with(node, args=[*args[:i], args[i + 1], args[i], *args[i + 2 :]])


def _is_axis(node: ast.AST, child: ast.AST) -> bool:
    """Another axis or index is another shape, which the checks of types see."""
    if isinstance(child, ast.keyword):
        return child.arg in ("dim", "keepdim", "dtype", "device")
    minus_one = isinstance(child, ast.UnaryOp) and ast.unparse(child) == "-1"
    return (minus_one and isinstance(node, ast.Call)) or (isinstance(node, ast.Subscript) and child is node.slice)


def mutants(root: Path, path: str) -> Iterator[Mutant]:
    """Of one file; messages, types, and defaults of settings stay as they are."""
    source = (root / path).read_bytes()
    lines = source.splitlines(keepends=True)

    def mutant(node: Any, other: ast.AST, names: tuple[str, ...] | None) -> Mutant:
        before, after = lines[node.lineno - 1][: node.col_offset], lines[node.end_lineno - 1][node.end_col_offset :]
        old, new = (
            b"".join(lines[node.lineno - 1 : node.end_lineno]),
            before + f"({ast.unparse(other)})".encode() + after,
        )
        made = b"".join([*lines[: node.lineno - 1], new, *lines[node.end_lineno :]]).decode()
        shown = (" ".join(text.decode().split()) for text in (old, new))
        return Mutant(path, ".".join(names or ()), node.lineno, *shown, made)

    def visit(node: ast.AST, names: tuple[str, ...] | None, inside: bool) -> Iterator[Mutant]:
        """`names` of what the node is in: None where answers are kept, so that only the first caller is seen."""
        match node:
            case ast.FunctionDef(name=name, body=body):
                kept = names is None or any("cache" in ast.unparse(one) for one in node.decorator_list)
                own = None if kept else (*names, *["<locals>"] * inside, name)
                for child in body:
                    yield from visit(child, own, True)
            case ast.ClassDef(name=name, body=body):
                for child in body:
                    yield from visit(child, (*(names or ()), name), False)
            case ast.AnnAssign(value=value, annotation=kind):
                if value is not None and (inside or not names or "ClassVar" in ast.unparse(kind)):
                    yield from visit(value, names, inside)
            case ast.Raise() | ast.Assert() | ast.If(body=[ast.Raise()]) | ast.Expr(value=ast.Constant()):
                pass
            case _:
                if isinstance(node, ast.If):
                    yield mutant(node.test, ast.UnaryOp(ast.Not(), node.test), names if inside else None)
                for other in changes(node):
                    yield mutant(node, other, names if inside else None)
                for child in ast.iter_child_nodes(node):
                    if not _is_axis(node, child):
                        yield from visit(child, names, inside)

    yield from visit(ast.parse(source), (), False)
