"""The programs that fill a volume. The pod of a preparation runs them with Python's standard library alone.

To the rest of Allotment they are data. A ConfigMap in the tenant's namespace holds the modules of a Job, and stays for
as long as the Job exists (`manifests/tenant/programs.py`). `ending` defines the exit statuses, which a status shows as
reasons.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

# Program → its modules.
MODULES: dict[str, tuple[str, ...]] = {
    "check": ("ending", "volume", "check"),
    "hold": ("ending", "volume", "hold"),
    "seal": ("ending", "volume", "seal"),
    "copy_folder": ("ending", "volume", "copy_folder"),
    "copy_shared": ("ending", "volume", "download", "copy_shared"),
    "fetch_url": ("ending", "volume", "download", "addresses", "ranges", "fetch_url"),
    "fetch_s3": ("ending", "volume", "download", "addresses", "ranges", "signature", "fetch_s3"),
}


@lru_cache
def texts(*programs: str) -> dict[str, str]:
    """Return the modules of `programs` as files of a ConfigMap, by name."""
    names = {"__init__": None, **{name: None for program in programs for name in MODULES[program]}}
    here = files(__package__)
    return {
        f"{name}.py": "" if name == "__init__" else (here / f"{name}.py").read_text("utf-8") for name in sorted(names)
    }
