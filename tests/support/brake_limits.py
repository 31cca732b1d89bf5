"""The limits of the brake, and the removal of instances that reaches them."""

from __future__ import annotations

from pathlib import Path

from tests.support.published import Place


def brake(place: Place, percent: int = 30, objects: int = 10, *approved: str) -> None:
    file = place.root / "platform/platform.yaml"
    text, _, after = file.read_text().partition("  brake:")
    after = after[after.index("  images:") :]
    plans = "".join(f'      - "{checksum}"\n' for checksum in approved)
    file.write_text(
        text
        + f"  brake:\n    maxDeletedPercent: {percent}\n    minObjects: {objects}\n"
        + (f"    approvedPlans:\n{plans}" if approved else "")
        + after
    )


GROUPS = [f"tenants/uni-lab/instances/group-{letter}.yaml" for letter in "abcd"]


def remove(place: Place, paths: list[str]) -> dict[Path, str]:
    files = {place.root / path: (place.root / path).read_text() for path in paths}
    for file in files:
        file.unlink()
    return files


def put_back(files: dict[Path, str]) -> None:
    for file, text in files.items():
        file.write_text(text)
