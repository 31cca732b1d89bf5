"""Writes blobs while a caller produces them: one `git fast-import` stores all of them in one pack."""

from __future__ import annotations

import contextlib
from typing import Any

from allotment.adapters.git.repository import Repository
from allotment.problems import OperationRefused

_MAX_OUTPUT = 800  # characters of Git's output


class BlobWriter:
    """Writes blobs to a repository. Git runs from the first `write` to `close` or `abort`.

    Nothing references the blobs until a commit does. Git's maintenance removes blobs that stay without a reference.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._process: Any = None

    def write(self, data: bytes) -> None:
        """Write a blob. It can be read after `close`. Raises OperationRefused if Git fails."""
        if self._process is None:
            self._process = self._repository.git.start_import()
        try:
            self._process.stdin.write(b"blob\ndata %d\n%s\n" % (len(data), data))
        except BrokenPipeError:
            self._end()

    def close(self) -> None:
        """Store the blobs. Raises OperationRefused if Git fails. Does nothing if no blob was written."""
        if self._process is not None:
            with contextlib.suppress(BrokenPipeError):  # `_end` raises with Git's message
                self._process.stdin.write(b"done\n")
                self._process.stdin.close()
            self._end()

    def abort(self) -> None:
        """End Git without storing the blobs."""
        if self._process is not None:
            started, self._process = self._process, None
            started.proc.kill()
            started.proc.communicate()

    def _end(self) -> None:
        """Wait for the end of Git. Raises OperationRefused if Git has failed."""
        # The variable `started` must exist until Git ends: GitPython kills Git when Python finalizes the object.
        started, self._process = self._process, None
        errors = started.proc.stderr.read().decode("utf-8", "replace")
        if started.proc.wait():
            raise OperationRefused(f"Git stored no blobs: {errors[-_MAX_OUTPUT:]}")
