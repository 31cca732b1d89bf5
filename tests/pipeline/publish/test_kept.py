"""Who is kept: the reason is a problem with its place, and what was published of it passes the gate or is left out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.conftest import edit
from tests.pipeline.publish.written import before, checked

from allotment.adapters.folder import FolderSource
from allotment.changes.volumes import Users
from allotment.manifests.retained_instance import waiting_words, with_published_deployment
from allotment.manifests.text import dump, load
from allotment.pipeline.publish.kept import PlatformInvalid, invalid, kept_files, may_not_settle
from allotment.pipeline.publish.known import NOTHING
from allotment.pipeline.publish.settled import Watched, settle
from allotment.pipeline.render import gate_of

WEBUI, MODELS = "tenants/solo-ada/instances/webui.yaml", "tenants/solo-ada/storages/models.yaml"
WATCHED = Watched(NOTHING, {}, 60, lambda *_: Users(), lambda *_: "")


def test_nobody_is_kept_whose_declarations_are_right(sample: Path) -> None:
    assert invalid(checked(FolderSource(sample))) == {}


def test_a_tenant_with_an_error_is_kept_and_one_with_a_warning_is_not(sample: Path) -> None:
    edit(sample, WEBUI, "gpuSpec: l4-quarter", "gpuSpec: l4-fifth")
    edit(sample, "platform/specs/l4-quarter.yaml", "spec:\n", "spec:\n  lifecycle: Deprecated\n")
    found = checked(FolderSource(sample))
    assert any(one.warning for one in found.problems), "somebody is warned"
    kept = invalid(found)
    assert list(kept) == ["solo-ada"]
    assert [(one.path, one.field, one.rule) for one in kept["solo-ada"].problems] == [
        (WEBUI, "spec.gpuSpec", "reference")
    ]


def test_a_file_astray_in_a_tenants_folder_keeps_that_tenant(sample: Path) -> None:
    (sample / "tenants/solo-ada/notes.txt").write_text("x")
    assert list(invalid(checked(FolderSource(sample)))) == ["solo-ada"]


def test_what_the_platform_declares_stops_all(sample: Path) -> None:
    edit(sample, "platform/specs/l4-quarter.yaml", "gpu:\n", "gpus:\n")
    with pytest.raises(PlatformInvalid) as raised:
        invalid(checked(FolderSource(sample)))
    assert {one.path for one in raised.value.problems} == {"platform/specs/l4-quarter.yaml"}


def test_a_volume_that_may_not_go_keeps_its_tenant(sample: Path) -> None:
    files = checked(FolderSource(sample)).made["solo-ada"]
    (sample / MODELS).unlink()
    one = settle("solo-ada", True, None, before(files), WATCHED)
    kept = may_not_settle(
        {"solo-ada": one, "uni-lab": settle("uni-lab", True, None, before({}), WATCHED)}, FolderSource(sample)
    )
    assert list(kept) == ["solo-ada"]
    assert {one.path for one in kept["solo-ada"].problems} == {MODELS, MODELS.replace("models", "styles")}
    assert {one.rule for one in kept["solo-ada"].problems} == {"deletion"}


def test_what_was_published_of_one_who_is_kept_stays_byte_for_byte(sample: Path) -> None:
    found = checked(FolderSource(sample))
    files = found.made["solo-ada"]
    assert len(files) > 3
    assert kept_files("solo-ada", before(files), gate_of(found.offers)) == (files, [])


def test_a_tenant_of_two_clusters_is_reported_once(sample: Path) -> None:
    files = checked(FolderSource(sample)).made["ml-orbit"]
    assert {path.partition("/")[0] for path in files} == {"eu-1", "us-1"}
    shutil.rmtree(sample / "tenants/ml-orbit")
    kept = may_not_settle({"ml-orbit": settle("ml-orbit", False, None, before(files), WATCHED)}, FolderSource(sample))
    paths = [problem.path for problem in kept["ml-orbit"].problems]
    assert "tenants/ml-orbit/tenant.yaml" in paths
    assert len(paths) == len(set(paths)) == 5


def test_an_instance_of_a_kept_tenant_waits_for_no_unit(sample: Path) -> None:
    found = checked(FolderSource(sample))
    files = found.made["solo-ada"]
    path = "eu-1/tenants/solo-ada/compute/webui.rendered.yaml"
    waits = with_published_deployment(files[path], files[path], "keeps 1 unit")
    assert waiting_words(waits) == "keeps 1 unit"
    assert kept_files("solo-ada", before({**files, path: waits}), gate_of(found.offers)) == (files, [])


def test_what_no_longer_fits_its_cluster_is_left_out_and_said(sample: Path) -> None:
    files = checked(FolderSource(sample)).made["solo-ada"]
    edit(sample, "clusters/eu-1/cluster.yaml", "domain: eu-1.", "domain: eu-9.")
    offers = checked(FolderSource(sample)).offers
    left, problems = kept_files("solo-ada", before(files), gate_of(offers))
    assert {one.rule for one in problems} == {"isolation"}
    gone = [path for path in files if b"\nkind: HTTPRoute\n" in files[path]]
    assert len(gone) == 2
    assert {one.path for one in problems} == set(gone)
    assert all(b"\nkind: HTTPRoute\n" not in left[path] for path in gone)
    assert all(b"\nkind: Deployment\n" in left[path] for path in gone)


def test_who_is_kept_is_protected_from_drained_nodes_too(sample: Path) -> None:
    """An earlier version of ours published it without; whoever stays invalid would keep a cluster's nodes as they are."""
    files = checked(FolderSource(sample)).made["solo-ada"]
    (path,) = [path for path in files if "/control/namespaces/" in path and path.endswith("solo-ada.rendered.yaml")]
    objects = [one for one in load(files[path]) if one["kind"] != "PodDisruptionBudget"]
    gate = gate_of(checked(FolderSource(sample)).offers)
    kept, problems = kept_files("solo-ada", before({**files, path: dump(objects)}), gate)
    assert problems == []
    *others, budget = load(kept[path])
    assert others == objects
    assert (budget["metadata"]["name"], budget["spec"]["maxUnavailable"]) == ("instances", 0)
    gate.check(path, kept[path], published=True)
    assert kept_files("solo-ada", before(kept), gate)[0][path] == kept[path]
