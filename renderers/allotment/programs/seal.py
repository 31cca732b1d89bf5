"""Marks a volume as complete: the last step after a program that isn't ours, and the only one after a driver's own clone."""

from __future__ import annotations

import argparse

from . import volume


def main() -> None:
    """Run the program. With --alone it holds the lock itself, and nothing else has written."""
    arguments = argparse.ArgumentParser(allow_abbrev=False)
    arguments.add_argument("--volume", required=True)
    arguments.add_argument("--job", required=True)
    arguments.add_argument("--alone", action="store_true")
    found = arguments.parse_args()
    if found.alone:
        volume.run(lambda: volume.fill(found.volume, found.job, lambda: None))
    else:
        volume.run(lambda: volume.complete(found.volume, found.job))


if __name__ == "__main__":
    main()
