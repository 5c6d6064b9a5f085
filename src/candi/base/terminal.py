"""What may be sent to a terminal: text, and no commands."""

import io
import sys

_SHOWN = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"}
_SHOWN |= {0x7F: "\u2421"} | {code: f"\\x{code:02x}" for code in range(0x80, 0xA0)}
_ESCAPED = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}


def visible(text: str) -> str:
    """Control characters as signs that are seen: a sample must not move the cursor, or do worse."""
    return text.translate(_SHOWN)


def visible_json(text: str) -> str:
    """The same of JSON, which stays what it was: those that its writer leaves as they are, as it spells the others."""
    return text.translate(_ESCAPED)


def print_anything() -> None:
    """What the encoding of a terminal or file cannot hold is spelled out (\\u2241), and no error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
