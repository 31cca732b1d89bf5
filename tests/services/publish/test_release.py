"""The trees of all clusters, put together tenant by tenant: the golden ones, and only what differs has bytes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.conftest import PROJECT
from tests.services.publish.written import before, check_and_render, of_files

from allotment.adapters.folder_source import FolderSource
from allotment.declared.inventory import compute_blob_id
from allotment.preparation.runtime_state import unknown_state
from allotment.services.check.repository_check import RepositoryCheck
from allotment.services.publish.published_trees import PublishedTrees
from allotment.services.publish.release import ClusterTrees
from allotment.services.publish.renderer import ClusterRenderer
from allotment.services.publish.tenant_transition import TenantTransition

CheckedSample = tuple[RepositoryCheck, dict[str, dict[str, bytes]]]  # the check, and the files of each tenant
GOLDEN = PROJECT / "tests/manifests/golden"
LEFT = "eu-1/tenants/solo-ada/storage/models--leaving.rendered.yaml"
NOTHING = TenantTransition([], {}, {}, [], [])


@pytest.fixture(scope="module")
def checked_sample() -> CheckedSample:
    """Return the sample, checked and rendered as nobody knows anything of its preparations."""
    return check_and_render(FolderSource(PROJECT), unknown_state)


@pytest.fixture(scope="module")
def published() -> dict[str, bytes]:
    """Return the sample's whole trees, by `<cluster>/<path>`."""
    return {path.relative_to(GOLDEN).as_posix(): path.read_bytes() for path in sorted(GOLDEN.rglob("*.yaml"))}


def together(
    checked_sample: CheckedSample,
    was: PublishedTrees,
    retained_files: Mapping[str, bytes],
    transition: TenantTransition = NOTHING,
) -> ClusterTrees:
    """Return the trees of all tenants; solo-ada's are kept where there is anything to keep, or settle so."""
    repository_check, rendered = checked_sample
    trees = ClusterTrees(ClusterRenderer(repository_check.catalog), was)
    for tenant, files in rendered.items():
        if tenant == "solo-ada" and retained_files:
            trees.add_retained_files(retained_files)
        else:
            trees.add_tenant(of_files(files, was), transition if tenant == "solo-ada" else NOTHING)
    trees.add_cluster_files(
        [claim for part in repository_check.tally_entries.values() for claim in part.claims],
        repository_check.list_letters,
    )
    trees.add_markers()
    return trees


def blobs(files: Mapping[str, bytes]) -> dict[str, str]:
    return {path: compute_blob_id(data) for path, data in files.items()}


def of_all(trees: ClusterTrees) -> dict[str, str]:
    return {f"{cluster}/{path}": blob for cluster, files in trees.files.items() for path, blob in files.items()}


def test_the_first_trees_are_the_golden_ones_with_all_their_bytes(
    checked_sample: CheckedSample, published: dict[str, bytes]
) -> None:
    trees = together(checked_sample, before({}), {})
    assert of_all(trees) == blobs(published)
    written = {f"{cluster}/{path}": data for cluster, files in trees.data.items() for path, data in files.items()}
    assert written == published


def test_where_all_is_published_so_nothing_has_bytes(
    checked_sample: CheckedSample, published: dict[str, bytes]
) -> None:
    trees = together(checked_sample, before(published), {})
    assert of_all(trees) == blobs(published)
    assert trees.data == {"eu-1": {}, "us-1": {}}


def test_a_kept_file_changes_the_marker_beside_it_and_nothing_else(
    checked_sample: CheckedSample, published: dict[str, bytes]
) -> None:
    path = "eu-1/tenants/solo-ada/compute/webui.rendered.yaml"
    files = {file_path: data for file_path, data in published.items() if file_path in checked_sample[1]["solo-ada"]}
    retained_files = {**files, path: files[path].replace(b"replicas: 1", b"replicas: 0", 1)}
    trees = together(checked_sample, before(published), retained_files)
    changed = {file_path for file_path, blob in of_all(trees).items() if blobs(published).get(file_path) != blob}
    assert changed == {path, "eu-1/tenants/solo-ada/compute/allotment--marker.rendered.yaml"}
    assert {f"eu-1/{file_path}" for file_path in trees.data["eu-1"]} == changed
    assert trees.data["us-1"] == {}


def test_the_release_adds_retained_files_of_a_removed_resource(
    checked_sample: CheckedSample, published: dict[str, bytes]
) -> None:
    models = published["eu-1/tenants/solo-ada/storage/models.rendered.yaml"].split(b"\n---\n")[0] + b"\n"
    trees = together(checked_sample, before(published), {}, NOTHING._replace(retained={LEFT: models}))
    added = of_all(trees).keys() - published.keys()
    assert added == {LEFT}
    assert trees.data["eu-1"][LEFT.removeprefix("eu-1/")] == models


def test_the_release_excludes_retained_files_of_another_tenant(
    checked_sample: CheckedSample, published: dict[str, bytes]
) -> None:
    theirs = published["eu-1/tenants/film-house/storage/loras.rendered.yaml"]
    trees = together(checked_sample, before(published), {}, NOTHING._replace(retained={LEFT: theirs}))
    assert of_all(trees) == blobs(published)
