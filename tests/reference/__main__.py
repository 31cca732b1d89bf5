"""`python -m tests.reference [--check]`: writes docs/reference and the picture in CONTRIBUTING.md, or says what is stale."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.reference import commands, kinds, layout, output, rules

REFERENCE = Path(__file__).resolve().parents[2] / "docs/reference"


def generated() -> dict[str, str]:
    """Return the text of every page by its path below docs/reference."""
    return {path: text for module in (kinds, rules, commands, output) for path, text in module.pages()}


def stale(folder: Path) -> list[str]:
    """Return the pages of a folder that are missing, different, or of nothing any more, sorted."""
    wanted = {path: text.encode() for path, text in generated().items()}
    existing_pages = {
        str(page_file.relative_to(folder)): page_file.read_bytes()
        for page_file in folder.rglob("*")
        if page_file.is_file()
    }
    return sorted(
        path for path in wanted.keys() | existing_pages.keys() if wanted.get(path) != existing_pages.get(path)
    )


def write(folder: Path) -> None:
    """Write every page, and delete what is none."""
    wanted = generated()
    for path in stale(folder):
        if path not in wanted:
            (folder / path).unlink()
            continue
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(wanted[path].encode())


def main(arguments: list[str]) -> int:
    """Write, or with --check say what is stale and return 1."""
    checks = arguments == ["--check"]
    stale_paths = [f"docs/reference/{path}" for path in stale(REFERENCE)]
    text = layout.CONTRIBUTING.read_text(encoding="utf-8")
    new_text = layout.with_picture(text)
    if text != new_text:
        stale_paths.append("CONTRIBUTING.md")
    if not checks:
        write(REFERENCE)
        layout.CONTRIBUTING.write_text(new_text, encoding="utf-8")
    for path in stale_paths:
        print(f"{path}: {'stale: run `make golden`' if checks else 'written'}")
    return 1 if stale_paths and checks else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
