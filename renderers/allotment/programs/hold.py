"""Holds a volume's lock beside a program that isn't ours, and takes the marker away before that one begins.

It runs as a sidecar: `ready` appears once the lock is held, and the kubelet ends it after the last container.
"""

from __future__ import annotations

import argparse
import signal
import sys

from . import volume


def hold(root: str, ready: str) -> None:
    """Hold the lock until the process is asked to end."""
    with volume.held(root):
        volume.begin(root)
        with open(ready, "w", encoding="utf-8"):
            pass
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


def main() -> None:
    """Run the program."""
    arguments = argparse.ArgumentParser(allow_abbrev=False)
    arguments.add_argument("--volume", required=True)
    arguments.add_argument("--ready", required=True)
    found = arguments.parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    volume.run(lambda: hold(found.volume, found.ready))
    sys.exit(0)


if __name__ == "__main__":
    main()
