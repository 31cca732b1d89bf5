"""The words that a shell completes for a command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def completed(words: str, root: Path, shell: str = "bash") -> list[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "_ALLOT_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    program = [sys.executable, "-P", "-m", "allotment"]
    done = subprocess.run(program, cwd=root, env=environment, capture_output=True, text=True, check=True)
    return [line.split(",")[-1] for line in done.stdout.splitlines() if line]
