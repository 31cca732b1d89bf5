"""A report of a bug of ours: what ran, on what, and where it failed; never a declaration's text."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import traceback

from allotment import VERSION


def write_report() -> str:
    """Write the current exception to a file and return the file's path."""
    lines = [
        f"allotment {VERSION}, Python {sys.version.split()[0]}, {platform.system()} {platform.machine()}",
        f"command: {' '.join(sys.argv[1:2])}",
        "",
        traceback.format_exc(),
    ]
    handle, path = tempfile.mkstemp(prefix="allot-report-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    return path
