"""Attention of one new position over what a trajectory has read, in Triton's dialect."""

import triton
import triton.language as tl


@triton.jit
def attend_last(
    q, keys, values, position, out, scale, size, width: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)  # one head of one sequence
    e = tl.arange(0, WIDTH)
    x = tl.load(q + row * width + e, mask=e < width, other=0.0).to(tl.float32) * scale
    last = tl.load(position)
    top = -float("inf")
    total = 0.0
    mixed = tl.zeros((WIDTH,), tl.float32)
    for start in range(0, last + 1, BLOCK):
        n = start + tl.arange(0, BLOCK)
        at = (row * size + n)[:, None] * width + e[None, :]
        inside = (n <= last)[:, None] & (e < width)[None, :]
        k = tl.load(keys + at, mask=inside, other=0.0).to(tl.float32)
        z = tl.where(n <= last, tl.sum(k * x[None, :], 1), float("-inf"))
        larger = tl.maximum(top, tl.max(z, 0))
        p = tl.exp(z - larger)
        shrunk = tl.exp(top - larger)
        v = tl.load(values + at, mask=inside, other=0.0).to(tl.float32)
        mixed = mixed * shrunk + tl.sum(p[:, None] * v, 0)
        total = total * shrunk + tl.sum(p, 0)
        top = larger
    tl.store(out + row * width + e, (mixed / total).to(out.dtype.element_ty), mask=e < width)
