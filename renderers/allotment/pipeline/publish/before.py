"""What was published to all clusters before, by `<cluster>/<path>`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from allotment.accounts.capacity import Claim
from allotment.adapters.git.branch import Branch
from allotment.declared.inventory import blob_id
from allotment.declared.things import INSTANCE
from allotment.manifests import paths
from allotment.manifests.folders import folder_of, markers
from allotment.manifests.published import claim_of
from allotment.manifests.templates import with_template_of

Blobs = dict[str, str]  # blob by `<cluster>/<path>`
Made = dict[str, tuple[str, bytes | None]]  # blob by `<cluster>/<path>`, and the bytes where it wasn't published so


class Before:
    """The rendered branches as we left them; only what is asked for is read."""

    def __init__(self, branches: Mapping[str, Branch]) -> None:
        self.branches = branches

    @cached_property
    def tenants(self) -> Mapping[str, Blobs]:
        """The files of each tenant."""
        files_by_tenant: dict[str, Blobs] = defaultdict(dict)
        for cluster, branch in self.branches.items():
            for path, blob in branch.files.items():
                if spot := paths.spot_of(path):
                    files_by_tenant[spot.tenant][f"{cluster}/{path}"] = blob
        return dict(files_by_tenant)

    def blob(self, path: str) -> str | None:
        """Return the blob of a file; None where it wasn't published."""
        cluster, _, inner = path.partition("/")
        return self.branches[cluster].files.get(inner)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        cluster, _, inner = path.partition("/")
        return self.branches[cluster].read(inner)

    def made(self, files: Iterable[tuple[str, bytes]]) -> Made:
        """Return the blob of each file that is rendered now, and its bytes where it wasn't published so. Of an
        instance that runs, the pod template stays as it was published where no pod needs another."""
        changed_blobs: Made = {}
        retained_folders = set[str]()
        for path, data in files:
            blob = blob_id(data)
            if self.blob(path) not in (None, blob) and _is_instance(path):
                then = with_template_of(data, self.read(path))
                if then != data:
                    data, blob = then, blob_id(then)  # noqa: PLW2901  # what is published of it
                    retained_folders.add(folder_of(path))
            changed_blobs[path] = (blob, None if self.blob(path) == blob else data)
        for folder in retained_folders:
            path, marker = self._marker(folder, changed_blobs)
            blob = blob_id(marker)
            changed_blobs[path] = (blob, None if self.blob(path) == blob else marker)
        return changed_blobs

    @staticmethod
    def _marker(folder: str, changed_blobs: Made) -> tuple[str, bytes]:
        """Return a tenant's folder's marker, by `<cluster>/<path>`, that says what is beside it."""
        cluster, _, inner = folder.partition("/")
        blobs = {path.partition("/")[2]: blob for path, (blob, _) in changed_blobs.items() if folder_of(path) == folder}
        ((path, data),) = markers(cluster, [inner], blobs)
        return f"{cluster}/{path}", data

    def claims(self, tenant: str) -> Iterator[Claim]:
        """Yield what a tenant's instances were published with."""
        for path in sorted(self.tenants.get(tenant, ())):
            cluster, _, inner = path.partition("/")
            spot = paths.spot_of(inner)
            if spot is not None and spot.kind == "instance" and (claim := claim_of(cluster, tenant, self.read(path))):
                yield claim

    def letters(self, cluster: str) -> set[str]:
        """Return the letters that have a shard in a cluster."""
        return {letter for path in self.branches[cluster].files if (letter := paths.letter_of(path))}


def _is_instance(path: str) -> bool:
    spot = paths.spot_of(path.partition("/")[2])
    return spot is not None and spot.kind == INSTANCE.word


def leaving(path: str) -> str:
    """Return where a storage's or snapshot's file lies while it leaves."""
    return f"{path.removesuffix(paths.ENDING)}{paths.LEAVING}{paths.ENDING}"
