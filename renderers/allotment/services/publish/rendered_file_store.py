"""Stores the bytes of rendered files while tenants are rendered, so that a publish of all tenants needs little memory."""

from __future__ import annotations

from types import TracebackType

from allotment.adapters.git.commits import BlobWriter
from allotment.adapters.git.repository import Repository
from allotment.services.publish.published_trees import RenderedBlobs

MEMORY_BYTES = 8 << 20  # few changed tenants need no process that writes blobs


class RenderedFileStore:
    """The results of the renderer by tenant (`artifacts`).

    The bytes of the first tenants are held in memory: `artifacts` has them. If the bytes of a tenant exceed the rest of
    `memory_bytes`, by default MEMORY_BYTES, they are written to the repository as blobs. Without a repository, as in a
    dry run, all bytes are held in memory. Use the store as a context manager around each rendering; the blobs can be
    read after it. After an error, the store is useless, because its blobs are discarded.
    """

    def __init__(self, repository: Repository | None = None, memory_bytes: int | None = None) -> None:
        self.artifacts: dict[str, RenderedBlobs | None] = {}
        self._repository = repository
        self._writer = BlobWriter(repository) if repository is not None else None
        self._free_bytes = MEMORY_BYTES if memory_bytes is None else memory_bytes

    def __enter__(self) -> RenderedFileStore:
        """Return the store itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Store the blobs, or discard them after an error. Raises OperationRefused if Git fails."""
        if self._writer is not None:
            if kind is None:
                self._writer.close()
            else:
                self._writer.abort()

    def put(self, tenant: str, artifact: RenderedBlobs | None) -> RenderedBlobs | None:
        """Store the result of the renderer for a tenant; None if the tenant was not rendered.

        Return the result with the bytes that are held in memory.
        """
        files = artifact or {}
        size = sum(len(data) for _, data in files.values() if data is not None)
        if self._writer is not None and size > self._free_bytes:
            for _, data in files.values():
                if data is not None:
                    self._writer.write(data)
            artifact = {path: (blob, None) for path, (blob, _) in files.items()}
        else:
            self._free_bytes -= size
        self.artifacts[tenant] = artifact
        return artifact

    def read_blob(self, blob: str) -> bytes:
        """Return the bytes of a blob in the repository. Raises OperationRefused if it is missing."""
        if self._repository is None:
            raise LookupError(f"no repository has the blob {blob}")
        return self._repository.read(blob)
