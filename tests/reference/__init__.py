"""docs/reference: pages that the program writes of itself, from its models, rules and commands.

`python -m tests.reference` writes them, `--check` says which are stale; `make golden` and `make check` call it.
"""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"([\\*_<\[|])")


def prose(text: str) -> str:
    """Return words of the program as Markdown: what stands in backticks is code, and nothing else means anything."""
    parts = " ".join(text.split()).split("`")
    return "`".join(_SPECIAL.sub(r"\\\1", part) if at % 2 == 0 else part for at, part in enumerate(parts))


def paragraphs(text: str) -> str:
    """Return a docstring's paragraphs as Markdown."""
    return "\n\n".join(prose(paragraph) for paragraph in text.strip().split("\n\n") if paragraph.strip())
