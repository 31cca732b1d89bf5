"""The cache of published files: each version is read once, and the number of entries is limited."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.services.publish.written import Written, render_files

from allotment.adapters.folder_source import FolderSource
from allotment.manifests import paths
from allotment.problems import OperationRefused
from allotment.services.publish.published_file_cache import PublishedFileCache

WEBUI, MODELS = (
    paths.resource_file("solo-ada", "compute", "webui"),
    paths.resource_file("solo-ada", "storage", "models"),
)


class CountingBranch(Written):
    """A branch that counts the files that are read."""

    reads = 0

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        self.reads += 1
        return super().read(path)

    def read_all(self, paths: Sequence[str]) -> list[bytes]:
        """Return the bytes of files."""
        return [self.read(path) for path in paths]


@pytest.fixture
def branch(sample: Path) -> CountingBranch:
    files = render_files(FolderSource(sample))
    return CountingBranch("eu-1", {path.removeprefix("eu-1/"): data for path, data in files.items()})


def read(cache: PublishedFileCache, branch: CountingBranch) -> int:
    """Read a claim, a predecessor and the Jobs of a storage; return the number of files that were read."""
    before = branch.reads
    claim = cache.read_claim(branch, "eu-1", "solo-ada", "webui")
    assert claim is not None
    assert claim.instance == "webui"
    assert cache.read_predecessor(branch, MODELS) == ""
    assert cache.read_prepared_jobs(branch, [MODELS]).keys() == {MODELS}
    return branch.reads - before


def test_each_version_of_a_file_is_read_once(branch: CountingBranch) -> None:
    cache = PublishedFileCache()
    assert [read(cache, branch), read(cache, branch)] == [3, 0]
    assert read(PublishedFileCache(), branch) == 3
    assert cache.read_claim(branch, "eu-1", "solo-ada", "nothing") is None


def test_a_full_cache_forgets_its_entries(branch: CountingBranch) -> None:
    cache = PublishedFileCache(max_entries=1)
    for cluster in ("eu-1", "us-1", "eu-1"):
        cache.read_claim(branch, cluster, "solo-ada", "webui")
    assert branch.reads == 3


@pytest.mark.parametrize("data", [b"# comment\nkind: Deployment\n", b"kind: Deployment\r\n", b"{}", b"\xff\n"])
def test_a_file_in_another_form_is_named(data: bytes) -> None:
    branch = Written("eu-1", {WEBUI: data, MODELS: data})
    for read, path in (
        (lambda cache: cache.read_claim(branch, "eu-1", "solo-ada", "webui"), WEBUI),
        (lambda cache: cache.read_predecessor(branch, MODELS), MODELS),
    ):
        with pytest.raises(OperationRefused, match=f"^{path} in rendered/eu-1 is a file that Allotment does not write"):
            read(PublishedFileCache())
