"""The trees of all clusters, put together tenant by tenant: the golden ones, and only what differs has bytes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.conftest import PROJECT
from tests.pipeline.publish.written import before, checked, of_files

from allotment.adapters.folder import FolderSource
from allotment.declared.inventory import blob_id
from allotment.pipeline.check.survey import Survey
from allotment.pipeline.publish.assembly import ClusterTrees
from allotment.pipeline.publish.before import Before
from allotment.pipeline.publish.settled import Settled
from allotment.readiness.standing import nothing_known

GOLDEN = PROJECT / "tests/manifests/golden"
LEFT = "eu-1/tenants/solo-ada/storage/models--leaving.rendered.yaml"
NOTHING = Settled([], {}, {}, [], [])


@pytest.fixture(scope="module")
def found() -> Survey:
    """Return the sample, checked and rendered as nobody knows anything of its preparations."""
    return checked(FolderSource(PROJECT), nothing_known)


@pytest.fixture(scope="module")
def published() -> dict[str, bytes]:
    """Return the sample's whole trees, by `<cluster>/<path>`."""
    return {path.relative_to(GOLDEN).as_posix(): path.read_bytes() for path in sorted(GOLDEN.rglob("*.yaml"))}


def together(found: Survey, was: Before, kept: Mapping[str, bytes], settled: Settled = NOTHING) -> ClusterTrees:
    """Return the trees of all tenants; solo-ada's are kept where there is anything to keep, or settle so."""
    trees = ClusterTrees(found.offers, was)
    for tenant, files in found.made.items():
        if tenant == "solo-ada" and kept:
            trees.take_kept(kept)
        else:
            trees.take_tenant(of_files(files or {}, was), settled if tenant == "solo-ada" else NOTHING)
    trees.take_clusters([claim for part in found.parts.values() for claim in part.claims], found.letters)
    trees.take_markers()
    return trees


def blobs(files: Mapping[str, bytes]) -> dict[str, str]:
    return {path: blob_id(data) for path, data in files.items()}


def of_all(trees: ClusterTrees) -> dict[str, str]:
    return {f"{cluster}/{path}": blob for cluster, files in trees.files.items() for path, blob in files.items()}


def test_the_first_trees_are_the_golden_ones_with_all_their_bytes(found: Survey, published: dict[str, bytes]) -> None:
    trees = together(found, before({}), {})
    assert of_all(trees) == blobs(published)
    written = {f"{cluster}/{path}": data for cluster, files in trees.data.items() for path, data in files.items()}
    assert written == published


def test_where_all_is_published_so_nothing_has_bytes(found: Survey, published: dict[str, bytes]) -> None:
    trees = together(found, before(published), {})
    assert of_all(trees) == blobs(published)
    assert trees.data == {"eu-1": {}, "us-1": {}}


def test_a_kept_file_changes_the_marker_beside_it_and_nothing_else(found: Survey, published: dict[str, bytes]) -> None:
    path = "eu-1/tenants/solo-ada/compute/webui.rendered.yaml"
    files = {one: data for one, data in published.items() if one in found.made["solo-ada"]}
    kept = {**files, path: files[path].replace(b"replicas: 1", b"replicas: 0", 1)}
    trees = together(found, before(published), kept)
    changed = {one for one, blob in of_all(trees).items() if blobs(published).get(one) != blob}
    assert changed == {path, "eu-1/tenants/solo-ada/compute/allotment--marker.rendered.yaml"}
    assert {f"eu-1/{one}" for one in trees.data["eu-1"]} == changed
    assert trees.data["us-1"] == {}


def test_what_stays_of_what_is_gone_lies_beside_the_rest(found: Survey, published: dict[str, bytes]) -> None:
    models = published["eu-1/tenants/solo-ada/storage/models.rendered.yaml"].split(b"\n---\n")[0] + b"\n"
    trees = together(found, before(published), {}, NOTHING._replace(stays={LEFT: models}))
    added = of_all(trees).keys() - published.keys()
    assert added == {LEFT}
    assert trees.data["eu-1"][LEFT.removeprefix("eu-1/")] == models


def test_what_is_somebody_elses_does_not_come_along(found: Survey, published: dict[str, bytes]) -> None:
    theirs = published["eu-1/tenants/film-house/storage/loras.rendered.yaml"]
    trees = together(found, before(published), {}, NOTHING._replace(stays={LEFT: theirs}))
    assert of_all(trees) == blobs(published)
