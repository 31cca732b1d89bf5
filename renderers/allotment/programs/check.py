"""Ends a preparation at once where its volume is complete already.

It runs first in the pod of a program that isn't ours: the sidecar that holds the lock after it can't end the pod, since one
that ends is started again. So it is this one, too, that finds out whether the volume has room for what we note on it.
"""

from __future__ import annotations

import argparse

from . import volume


def check(root: str, job: str) -> None:
    """Note that this Job begins, if it is to. Raises Failed: ALREADY_COMPLETE, SUPERSEDED, LOCKED."""
    with volume.held(root):
        volume.expect_due(root, job)
        volume.remember(root, job)


def main() -> None:
    """Run the program."""
    arguments = argparse.ArgumentParser(allow_abbrev=False)
    arguments.add_argument("--volume", required=True)
    arguments.add_argument("--job", required=True)
    found = arguments.parse_args()
    volume.run(lambda: check(found.volume, found.job))


if __name__ == "__main__":
    main()
