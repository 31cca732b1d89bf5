"""What was published to all clusters before, by `<cluster>/<path>`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from allotment.accounts.capacity import Claim
from allotment.adapters.git.branch import Branch
from allotment.declared.inventory import blob_id
from allotment.manifests import paths
from allotment.manifests.published import claim_of

Blobs = dict[str, str]  # blob by `<cluster>/<path>`
Made = dict[str, tuple[str, bytes | None]]  # blob by `<cluster>/<path>`, and the bytes where it wasn't published so


class Before:
    """The rendered branches as we left them; only what is asked for is read."""

    def __init__(self, branches: Mapping[str, Branch]) -> None:
        self.branches = branches

    @cached_property
    def tenants(self) -> Mapping[str, Blobs]:
        """The files of each tenant."""
        found: dict[str, Blobs] = defaultdict(dict)
        for cluster, branch in self.branches.items():
            for path, blob in branch.files.items():
                if spot := paths.spot_of(path):
                    found[spot.tenant][f"{cluster}/{path}"] = blob
        return dict(found)

    def blob(self, path: str) -> str | None:
        """Return the blob of a file; None where it wasn't published."""
        cluster, _, inner = path.partition("/")
        return self.branches[cluster].files.get(inner)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        cluster, _, inner = path.partition("/")
        return self.branches[cluster].read(inner)

    def made(self, files: Iterable[tuple[str, bytes]]) -> Made:
        """Return the blob of each file that is rendered now, and its bytes where it wasn't published so."""
        found: Made = {}
        for path, data in files:
            blob = blob_id(data)
            found[path] = (blob, None if self.blob(path) == blob else data)
        return found

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


def leaving(path: str) -> str:
    """Return where a storage's or snapshot's file lies while it leaves."""
    return f"{path.removesuffix(paths.ENDING)}{paths.LEAVING}{paths.ENDING}"
