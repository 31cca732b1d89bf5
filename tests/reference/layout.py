"""Writes the picture of the layout in CONTRIBUTING.md from the import contracts and the docstrings of the packages."""

from __future__ import annotations

import ast
import textwrap
import tomllib
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
CONTRIBUTING = PROJECT / "CONTRIBUTING.md"
BEGIN = "<!-- The picture of the layout: `make golden` writes it from the import contracts of pyproject.toml. -->\n"
END = "<!-- The end of the picture. -->\n"
WIDTH, LEFT_WIDTH = 122, 22


def picture() -> str:
    """Return the packages and modules in the order of the data, one layer above another, as an indented block."""
    tools = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    layers = {
        _parent(contract): contract["layers"]
        for contract in tools["importlinter"]["contracts"]
        if contract["type"] == "layers"
    }
    return "".join(f"    {line}".rstrip() + "\n" for line in _lines("allotment", layers, ""))


def with_picture(text: str) -> str:
    """Return the text of CONTRIBUTING.md with the present picture. Raises ValueError if the text lacks its place."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"CONTRIBUTING.md lacks the line {BEGIN if not begin else END}")
    return f"{before}{BEGIN}\n{picture()}\n{END}{after}"


def _parent(contract: dict[str, Any]) -> str:
    return str(contract["layers"][0].partition(" ")[0].rpartition(".")[0])


def _lines(package: str, layers: dict[str, list[str]], indent: str) -> list[str]:
    lines: list[str] = []
    for layer in reversed(layers[package]):
        for name in sorted(layer.split(" | ")):
            folder = PROJECT / "renderers" / name.replace(".", "/")
            file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
            title = indent + folder.name + ("/" if folder.is_dir() else ".py")
            lines += textwrap.wrap(
                _first_sentence(file),
                WIDTH - 4,
                initial_indent=f"{title:{LEFT_WIDTH}} ",
                subsequent_indent=" " * (LEFT_WIDTH + 1),
            )
            if name in layers:
                lines += _lines(name, layers, f"{indent}  ")
    return lines


def _first_sentence(file: Path) -> str:
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    assert docstring, file
    return " ".join(docstring.partition("\n\n")[0].split()).partition(". ")[0].rstrip(".")
