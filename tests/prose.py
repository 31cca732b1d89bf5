"""`python -m tests.prose`: reports sentences that a reader has to read twice, and fails if a file has too many of them.

The patterns are signs, not rules: rewrite the sentence, do not replace the word. A comment `prose: REASON` on the line above, or
on the first line of the sentence, excepts it: `# prose: REASON` in Python, `<!-- prose: REASON -->` in Markdown.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.conftest import PROJECT

SIGNS = {
    "clause as subject": re.compile(
        r"(?:^|(?<=[.!?;:] ))(?:Who|What|Whose|Whoever|Whatever|Which)\b(?=[^?]{5,}?[.!:;])(?![^.!]*\?)"
    ),
    "clause as noun": re.compile(r"(?<![.?!;:] )(?<!^)\b(?:what|whose|who|whoever|whatever)\b(?! (?:if|else|to)\b)"),
    "pronoun": re.compile(
        r"\bones\b|\bone(?=[,.;:)]|$| (?:that|which|whose|who|is|was|has|had|can|may|must|by|in|at|on|after|before|there|it)\b)"
    ),
    "private word": re.compile(
        r"\b(?:told|tells|taken for|looked at|let go|goes on|going on|begins? anew|anew|mend(?:s|ed)?|beneath|stays as it|of ours"
        r"|somebody else's|nobody's|comes of|is there already|it is said)\b",
        re.IGNORECASE,
    ),
}
MAX_RATE = 2.0  # signs per 1,000 words of a file
MIN_SIGNS = 2  # that any file may have, however short
# Generated, or part of a hash that must not change.
EXEMPT = ("docs/reference/", "renderers/allotment/programs/", "tests/")
_EXCEPTION = re.compile(r"prose: \w")
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_ITEM = re.compile(r"\s*(?:[-*]|\d+\.) ")
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
MIN_WORDS = 5  # of a text in code that counts as prose


class Passage(NamedTuple):
    """A paragraph, docstring, comment or message, and the line where it begins."""

    line: int
    text: str


class Sign(NamedTuple):
    """A sentence to rewrite: its file and line, the sign, and the words around it."""

    path: str
    line: int
    name: str
    words: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name}: …{self.words}…"


def read_markdown(text: str) -> Iterator[Passage]:
    """Yield the paragraphs and list items of a page, without code, headings and link targets."""
    lines, is_fenced = [], False
    for line in text.splitlines():
        is_fence = line.lstrip().startswith("```")
        is_fenced ^= is_fence
        is_prose = not (is_fence or is_fenced or line.startswith(("    ", "\t", "#", "<!--")))
        lines.append(_LINK.sub(r"\1", _CODE.sub("X", line)).replace("|", " / ") if is_prose else "")
    begin = None
    for number, line in enumerate([*lines, ""], 1):
        if begin is not None and (_ITEM.match(line) or not line.strip()):
            yield Passage(begin, "\n".join(lines[begin - 1 : number - 1]))
            begin = None
        if line.strip() and begin is None:
            begin = number


def read_python(text: str) -> Iterator[Passage]:
    """Yield the comments, docstrings and longer messages of a module."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield Passage(token.start[0], token.string.lstrip("# "))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) >= MIN_WORDS:
            yield Passage(node.lineno, _CODE.sub("X", node.value))


def find_signs(path: str, text: str) -> tuple[list[Sign], int]:
    """Return the signs of a file that no exception covers, and its number of words."""
    lines, signs, words = text.splitlines(), [], 0
    for passage in read_markdown(text) if path.endswith(".md") else read_python(text):
        flat = " ".join(passage.text.split())
        words += len(_WORD.findall(flat))
        if any(_EXCEPTION.search(line) for line in lines[max(0, passage.line - 2) : passage.line]):
            continue
        for name, pattern in SIGNS.items():
            for match in pattern.finditer(flat):
                around = flat[max(0, match.start() - 40) : match.end() + 50]
                signs.append(Sign(path, passage.line, name, around))
    return signs, words


def main() -> int:
    """Print the signs of each file that has too many, and return 1 if there is such a file."""
    tracked = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    excess = 0
    for path in tracked.splitlines():
        if path.startswith(EXEMPT) or not path.endswith((".md", ".py")):
            continue
        signs, words = find_signs(path, Path(PROJECT, path).read_text(encoding="utf-8"))
        limit = max(MIN_SIGNS, int(words * MAX_RATE / 1000))
        if len(signs) > limit:
            excess += 1
            print(*signs, f"{path}: {len(signs)} sentences to rewrite, at most {limit}; see tests/prose.py", sep="\n")
    return 1 if excess else 0


if __name__ == "__main__":
    sys.exit(main())
