"""Turns an unexpected exception that one tenant or cluster causes into the rejection of that tenant or cluster."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Literal

from allotment.problems import AllotmentError, IsolationBroken
from allotment.services.check.cpu_budget import Rejection

RULE = "internal-error"
ISOLATION_RULE = "isolation"
_PACKAGE_ROOT = Path(__file__).parents[2]


def build_rejection(error: Exception, owner: Literal["tenant", "cluster"] = "tenant") -> Rejection:
    """Return the rejection of a tenant or a cluster after `error` was raised while it was read, checked or rendered.

    If `error` is a bug, the rejection has the trace of the error, and a message that names the place in the program and
    repeats nothing that the tenant wrote. If `error` does not concern a single tenant, raises `error`: an OSError is a
    fault of the machine, and an AllotmentError concerns several tenants, unless the isolation gate raised it. `owner` names
    the kind of owner: `tenant` or `cluster`.
    """
    if isinstance(error, IsolationBroken):
        message = (
            f"the isolation gate rejects its manifests because of a bug in Allotment: report this message: {error}"
        )
        return Rejection(message, ISOLATION_RULE)
    if isinstance(error, AllotmentError | OSError):
        raise error
    message = (
        f"Allotment failed on this {owner}: {type(error).__name__} in {_locate_error(error)}. This is a bug in Allotment:"
        f" report {'it with the trace' if owner == 'tenant' else 'this message'}. The {owner} keeps its last published manifests until the bug is fixed or the"
        " declaration that causes it is changed"
    )
    return Rejection(message, RULE, "".join(traceback.format_exception(error)))


def _locate_error(error: Exception) -> str:
    """Return the innermost line of this program in the error's traceback, as `file.py:line`.

    Returns "a library" if the traceback has no line of this program.
    """
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if _PACKAGE_ROOT in Path(frame.filename).parents
    ]
    if not frames:
        return "a library"
    return f"{Path(frames[-1].filename).relative_to(_PACKAGE_ROOT).as_posix()}:{frames[-1].lineno}"
