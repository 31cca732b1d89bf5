"""The programs that fill a volume: what a preparation's pod runs, with Python's standard library alone.

They are data to the rest of Allotment: a ConfigMap of the tenant's namespace holds the modules that a Job needs, so that what
ran lies there for as long as the Job stands (`manifests/tenant/programs.py`). `ending` has the exit statuses, which a status reads
as reasons.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

# Program → the modules that it runs.
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
    """Return the modules of some programs as files of a ConfigMap, by name."""
    names = {"__init__": None, **{name: None for program in programs for name in MODULES[program]}}
    here = files(__package__)
    return {
        f"{name}.py": "" if name == "__init__" else (here / f"{name}.py").read_text("utf-8") for name in sorted(names)
    }
