"""Provides temporary folders that are always removed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Yield an empty folder. Remove it afterwards, even if an interrupt arrives during the removal."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        except KeyboardInterrupt:
            shutil.rmtree(folder, ignore_errors=True)
            raise
