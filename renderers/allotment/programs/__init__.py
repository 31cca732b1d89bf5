"""The programs that fill the volume of a storage.

A Job of Kubernetes runs these programs in the cluster. Its pod has only Python with the standard library, so the
programs import nothing else of Allotment. Allotment itself never runs them: it renders their source code into a
ConfigMap in the tenant's namespace, which stays as long as the Job exists (`manifests/tenant/programs.py`). `ending`
defines the exit statuses of the programs. The status of the storage shows each exit status as a reason.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

# The modules that each program consists of.
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
    """Return the files of a ConfigMap for some programs: the source code of their modules, by file name."""
    names = {"__init__": None, **{name: None for program in programs for name in MODULES[program]}}
    here = files(__package__)
    return {
        f"{name}.py": "" if name == "__init__" else (here / f"{name}.py").read_text("utf-8") for name in sorted(names)
    }
