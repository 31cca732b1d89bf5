"""Who is kept: the reason is a problem with its place, and what was published of it passes the gate or is left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import edit
from tests.services.publish.written import before, check_and_render, checked, render_files

from allotment.adapters.folder_source import FolderSource
from allotment.lifecycle.retained_instance import read_wait_message, with_published_deployment
from allotment.lifecycle.volume_transitions import StorageUsers
from allotment.manifests.yaml_text import dump, load
from allotment.services.publish.observed_state import EMPTY_STATE
from allotment.services.publish.renderer import build_gate
from allotment.services.publish.tenant_retention import (
    PlatformInvalid,
    find_invalid_tenants,
    read_retained_files,
)
from allotment.services.publish.tenant_transition import TransitionContext

WEBUI, MODELS = "tenants/solo-ada/instances/webui.yaml", "tenants/solo-ada/storages/models.yaml"
WATCHED = TransitionContext(EMPTY_STATE, 60, lambda *_: StorageUsers(), lambda *_: "")


def test_nobody_is_kept_whose_declarations_are_right(sample: Path) -> None:
    assert find_invalid_tenants(checked(FolderSource(sample))) == {}


def test_a_tenant_with_an_error_is_kept_and_one_with_a_warning_is_not(sample: Path) -> None:
    edit(sample, WEBUI, "gpuSpec: l4-quarter", "gpuSpec: l4-fifth")
    edit(sample, "platform/specs/l4-quarter.yaml", "spec:\n", "spec:\n  lifecycle: Deprecated\n")
    repository_check = checked(FolderSource(sample))
    assert any(problem.warning for problem in repository_check.problems), "somebody is warned"
    retained_tenants = find_invalid_tenants(repository_check)
    assert list(retained_tenants) == ["solo-ada"]
    assert [(problem.path, problem.field, problem.rule) for problem in retained_tenants["solo-ada"].problems] == [
        (WEBUI, "spec.gpuSpec", "reference")
    ]


def test_a_file_astray_in_a_tenants_folder_keeps_that_tenant(sample: Path) -> None:
    (sample / "tenants/solo-ada/notes.txt").write_text("x")
    assert list(find_invalid_tenants(checked(FolderSource(sample)))) == ["solo-ada"]


def test_find_invalid_tenants_raises_an_error_for_an_invalid_platform(sample: Path) -> None:
    edit(sample, "platform/specs/l4-quarter.yaml", "gpu:\n", "gpus:\n")
    with pytest.raises(PlatformInvalid) as raised:
        find_invalid_tenants(checked(FolderSource(sample)))
    assert {problem.path for problem in raised.value.problems} == {"platform/specs/l4-quarter.yaml"}


def test_read_retained_files_returns_valid_published_files_unchanged(sample: Path) -> None:
    repository_check, rendered_tenants = check_and_render(FolderSource(sample))
    files = rendered_tenants["solo-ada"]
    assert len(files) > 3
    assert read_retained_files("solo-ada", before(files), build_gate(repository_check.catalog)) == (files, [])


def test_an_instance_of_a_kept_tenant_waits_for_no_unit(sample: Path) -> None:
    repository_check, rendered_tenants = check_and_render(FolderSource(sample))
    files = rendered_tenants["solo-ada"]
    path = "eu-1/tenants/solo-ada/compute/webui.rendered.yaml"
    waits = with_published_deployment(files[path], files[path], "keeps 1 unit")
    assert read_wait_message(waits) == "keeps 1 unit"
    assert read_retained_files("solo-ada", before({**files, path: waits}), build_gate(repository_check.catalog)) == (
        files,
        [],
    )


def test_an_instance_that_waits_for_a_unit_restarts_for_the_secrets_of_its_new_declaration(sample: Path) -> None:
    files = render_files(FolderSource(sample))
    published = files["eu-1/tenants/solo-ada/compute/webui.rendered.yaml"]
    deployment, *others = load(published)
    reload = {"secret.reloader.stakater.com/reload": "huggingface--secret"}
    deployment["metadata"]["annotations"].update(reload)
    rendered = dump([deployment, *others])
    restarting = with_published_deployment(published, rendered, "keeps 1 unit")
    assert reload.items() <= load(restarting)[0]["metadata"]["annotations"].items()
    keeping = with_published_deployment(rendered, published, "keeps 1 unit")
    assert reload.keys().isdisjoint(load(keeping)[0]["metadata"]["annotations"])


def test_read_retained_files_omits_and_reports_routes_of_an_old_domain(sample: Path) -> None:
    files = render_files(FolderSource(sample))
    edit(sample, "clusters/eu-1/cluster.yaml", "domain: eu-1.", "domain: eu-9.")
    catalog = checked(FolderSource(sample)).catalog
    left, problems = read_retained_files("solo-ada", before(files), build_gate(catalog))
    assert {problem.rule for problem in problems} == {"isolation"}
    gone = [path for path in files if b"\nkind: HTTPRoute\n" in files[path]]
    assert len(gone) == 2
    assert {problem.path for problem in problems} == set(gone)
    assert all(b"\nkind: HTTPRoute\n" not in left[path] for path in gone)
    assert all(b"\nkind: Deployment\n" in left[path] for path in gone)


def test_read_retained_files_adds_a_missing_disruption_budget(sample: Path) -> None:
    """An earlier version of ours published it without; whoever stays invalid would keep a cluster's nodes as they are."""
    files = render_files(FolderSource(sample))
    (path,) = [path for path in files if "/control/namespaces/" in path and path.endswith("solo-ada.rendered.yaml")]
    objects = [manifest for manifest in load(files[path]) if manifest["kind"] != "PodDisruptionBudget"]
    gate = build_gate(checked(FolderSource(sample)).catalog)
    retained_files, problems = read_retained_files("solo-ada", before({**files, path: dump(objects)}), gate)
    assert problems == []
    *others, budget = load(retained_files[path])
    assert others == objects
    assert (budget["metadata"]["name"], budget["spec"]["maxUnavailable"]) == ("instances", 0)
    gate.check(path, retained_files[path], published=True)
    assert read_retained_files("solo-ada", before(retained_files), gate)[0][path] == retained_files[path]
