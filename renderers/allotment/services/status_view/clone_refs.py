"""Finds the commits and refs from which a clone reads the declared, the published and the reported state."""

from __future__ import annotations

from collections import defaultdict

from allotment.branches.declarations_clone import DeclarationsClone
from allotment.branches.platform_settings import ORIGIN, read_reporter_keys
from allotment.branches.rendered_branches import SOURCE_REF, published_ref
from allotment.branches.retention_ref import RETAINED
from allotment.branches.status_branches import reported_ref
from allotment.manifests.names import rendered_branch, status_branch


class CloneRefs:
    """The declared commit, the URLs of the branches, and the keys of the reporters, as one clone sees them."""

    def __init__(self, clone: DeclarationsClone) -> None:
        """Fetch the declared commit. Raises OperationRefused if origin doesn't answer."""
        self.clone = clone
        self.declared_commit = clone.fetch_declared_commit()
        self.branch_urls = clone.resolve_urls(self.declared_commit)
        source = self.declared_commit.source
        self.reporter_keys = read_reporter_keys(source, source.list_folders("clusters"))

    def read_refs(self) -> dict[str, str]:
        """Return the targets of the refs that affect the view. Fetches nothing.

        Raises OperationRefused if a remote doesn't answer.
        """
        clusters = sorted(self.reporter_keys)
        refs_by_url = defaultdict[str, list[str]](list)
        if self.declared_commit.branch:
            refs_by_url[ORIGIN].append(f"refs/heads/{self.declared_commit.branch}")
        refs_by_url[self.branch_urls.status] += [
            ref(name) for name in clusters for ref in (status_branch, reported_ref)
        ]
        published = [ref(name) for name in clusters for ref in (rendered_branch, published_ref)]
        refs_by_url[self.branch_urls.rendered] += [SOURCE_REF, RETAINED, *published]
        tips = dict[str, str]()
        for url, names in refs_by_url.items():
            if self.clone.has_remote(url):
                tips |= self.clone.remote(url).look(*names)
        return tips
