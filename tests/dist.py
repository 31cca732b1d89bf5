"""What a release is made of: a wheel and an sdist, checked against the tag and the changelog, and an image where one can
be built."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from allotment import VERSION

PROJECT = Path(__file__).resolve().parent.parent
BUILDERS = ("buildah", "podman", "docker")


def wrong(tags: list[str], changelog: str) -> str | None:
    """Return why a commit with these tags isn't this version; None where nothing speaks against it."""
    versions = [tag for tag in tags if tag.startswith("v")]
    if versions and f"v{VERSION}" not in versions:
        return f"the tag {versions[0]} names this commit, and renderers/allotment/__init__.py says {VERSION}"
    heading = next((line for line in changelog.splitlines() if line.startswith("## ")), "")
    if not heading.startswith(f"## {VERSION} "):
        return f"CHANGELOG.md begins with {heading!r}, and renderers/allotment/__init__.py says {VERSION}"
    if versions and "unreleased" in heading:
        return f"the tag v{VERSION} names this commit, and CHANGELOG.md still calls it unreleased: write the day"
    return None


def build(folder: Path) -> list[Path]:
    """Write the wheel and the sdist, and return their paths."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--target", "wheel"]
    subprocess.run([*command, "--directory", str(folder)], cwd=PROJECT, check=True, capture_output=True)
    return sorted(folder.iterdir())


def works(builder: str) -> bool:
    """Return whether a builder of images is here, and whatever it needs runs."""
    return (
        shutil.which(builder) is not None
        and subprocess.run([builder, "info"], capture_output=True, check=False).returncode == 0
    )


def main(folder: Path) -> None:
    """Build, and say what was built; exit 1 where the version is in doubt."""
    tags = subprocess.run(
        ["git", "tag", "--points-at", "HEAD"], cwd=PROJECT, check=True, capture_output=True, text=True
    ).stdout.split()
    if words := wrong(tags, (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")):
        sys.exit(f"dist: {words}")
    for path in build(folder):
        print(f"{path}  sha256={hashlib.sha256(path.read_bytes()).hexdigest()}")
    builder = next((name for name in BUILDERS if works(name)), None)
    image = f"allotment:{VERSION}"
    if builder is None:
        print(f"the image {image}: skipped, none of {', '.join(BUILDERS)} works here")
    else:
        subprocess.run([builder, "build", "--file", "Containerfile", "--tag", image, "."], cwd=PROJECT, check=True)
        print(f"the image {image}: built by {builder}; push it, and its digest is what names it")
    if f"v{VERSION}" not in tags:
        print(f"not a release: no tag v{VERSION} names this commit")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
