"""The fenced blocks of the documentation, each with what says how to run it.

The comment ``<!-- needs: torch -->`` on the line before a fence says that a block runs only where PyTorch is. A block
of the language ``text`` right after a Python block is what that one prints.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_BLOCK = re.compile(
    r"(?:^<!-- needs: (?P<needs>\w+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    """A fenced block."""

    page: Path
    line: int
    language: str
    needs: str | None
    text: str
    prints: str | None = None

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks_of(page: Path) -> Iterator[Block]:
    """Give a page's blocks in order; what a block prints belongs to it."""
    source = page.read_text(encoding="utf-8")
    before: Block | None = None
    end = 0
    for match in _BLOCK.finditer(source):
        line = source.count("\n", 0, match.start("text")) + 1
        block = Block(page, line, match["language"], match["needs"], match["text"])
        adjacent = not source[end : match.start()].strip()
        end = match.end()
        if before is not None and before.language == "python" and block.language == "text" and adjacent:
            before = before._replace(prints=block.text)
            continue
        if before is not None:
            yield before
        before = block
    if before is not None:
        yield before


def samples(framework: str | None = None) -> list[Block]:
    """Give the Python blocks that need no framework, or this one."""
    blocks = [block for page in PAGES for block in blocks_of(page)]
    return [block for block in blocks if block.language == "python" and block.needs == framework]


def check_sample(block: Block) -> None:
    """Run a block in this process, and see that it prints what it is said to print."""
    # Errors name the page, and the line in it.
    code = compile("\n" * (block.line - 1) + block.text, str(block.page), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(code, {"__name__": "__main__"})
    if block.prints is not None:
        assert output.getvalue() == block.prints
