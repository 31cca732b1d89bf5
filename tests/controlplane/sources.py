"""Files of other projects' Go modules, in exactly the version and with the checksum that is named, kept in the cache."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.controlplane import programs


class Source(NamedTuple):
    """A module's version, the checksum of its content as Go writes it, and files of it."""

    version: str
    checksum: str
    files: Mapping[str, str] | tuple[str, ...]  # with a name of their own here, where two modules' have the same


def home(what: str, sources: Mapping[str, Source]) -> Path:
    """Return the folder of the cache for exactly these sources."""
    return programs.CACHE / f"{what}-{hashlib.sha256(repr(sources).encode()).hexdigest()[:12]}"


def build(what: str, sources: Mapping[str, Source]) -> None:
    """Fetch the files into the cache, if they aren't there. Raises NotBuilt when one can't be had or isn't what was pinned."""
    if home(what, sources).exists():
        return
    print(f"{what} of {len(sources)} modules …", flush=True)
    with programs.create_atomically(home(what, sources)) as target:
        for module, source in sources.items():
            folder = programs.module_folder(f"{module}@{source.version}", checksum=source.checksum)
            names = (
                source.files if isinstance(source.files, Mapping) else {path: Path(path).name for path in source.files}
            )
            for file, name in names.items():
                shutil.copyfile(folder / file, target / name)
