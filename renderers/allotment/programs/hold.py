"""Holds a volume's lock beside a program that isn't ours, and takes the marker away before that one begins.

It runs as a sidecar: `ready` appears once the lock is held, and the kubelet ends it after the last container. Where the volume
is complete by then, or another preparation's, `ready` never appears, and that program never begins.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import suppress

from . import volume


def hold(root: str, job: str, ready: str) -> None:
    """Hold the lock until the process is asked to end. Raises Failed: ALREADY_COMPLETE, SUPERSEDED, LOCKED."""
    with suppress(FileNotFoundError):
        os.unlink(ready)  # of a run before this one, which held the lock then
    with volume.held(root):
        volume.expect_due(root, job)
        volume.begin(root, job)
        with open(ready, "w", encoding="utf-8"):
            pass
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


def main() -> None:
    """Run the program."""
    arguments = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("volume", "job", "ready"):
        arguments.add_argument(f"--{name}", required=True)
    found = arguments.parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    volume.run(lambda: hold(found.volume, found.job, found.ready))
    sys.exit(0)


if __name__ == "__main__":
    main()
