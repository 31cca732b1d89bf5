"""What a tenant is rendered to: remembered by its blobs, rendered again where its bytes are needed or its units are fewer."""

from __future__ import annotations

from pathlib import Path

import yaml
from tests.conftest import edit
from tests.services.publish.written import before, check_and_render, of_files, render_files

from allotment.adapters.folder_source import FolderSource
from allotment.declared.inventory import compute_blob_id
from allotment.manifests.argo_folders import render_markers
from allotment.services.publish.rendered_tenant import RenderedTenant, Rerenderer, find_tenants_missing_bytes

WEBUI = "eu-1/tenants/solo-ada/compute/webui.rendered.yaml"


def test_bytes_are_needed_of_what_is_published_otherwise(sample: Path) -> None:
    files = render_files(FolderSource(sample))
    was, other = before(files), before(files | {WEBUI: b"kind: x\n"})
    assert of_files(files, was).data == {}
    assert of_files(files, other).data == {WEBUI: files[WEBUI]}
    remembered = {"solo-ada": RenderedTenant(of_files(files, was).blobs, {}, ())}
    assert find_tenants_missing_bytes(remembered, was) == []
    assert find_tenants_missing_bytes(remembered, other) == ["solo-ada"]
    assert find_tenants_missing_bytes({"solo-ada": of_files(files, other)}, other) == []


def test_render_tenants_renders_an_instance_with_its_reduced_units(sample: Path) -> None:
    source = FolderSource(sample)
    repository_check, rendered_tenants = check_and_render(source)
    files = rendered_tenants["solo-ada"]
    was = before(files)
    rerendered = Rerenderer(source, repository_check, was, 1).render_tenants(["solo-ada"], {("solo-ada", "webui"): 0})
    assert rerendered.rejected_tenants == {}
    rendered_tenant = rerendered.rendered_tenants["solo-ada"]
    assert yaml.safe_load(files[WEBUI].split(b"\n---\n")[0])["spec"]["replicas"] == 1
    assert next(yaml.safe_load_all(rendered_tenant.data[WEBUI]))["spec"]["replicas"] == 0
    assert [claim.rendered for claim in rendered_tenant.claims if claim.instance == "webui"] == [0]
    assert rendered_tenant.blobs.keys() == files.keys()


LABEL = b"        allotment.dev/plan: starter\n"
INSTANCE = b"        allotment.dev/instance: webui\n"
MARKER = "eu-1/tenants/solo-ada/compute/allotment--marker.rendered.yaml"


def as_once(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return files as they were published while pods had the label of the plan."""
    then = files | {WEBUI: files[WEBUI].replace(INSTANCE, INSTANCE + LABEL)}
    assert then[WEBUI] != files[WEBUI]
    blobs = {path[5:]: compute_blob_id(data) for path, data in then.items() if "/compute/" in path and path != MARKER}
    ((path, marker),) = render_markers("eu-1", [MARKER[5:].rpartition("/")[0]], blobs)
    assert f"eu-1/{path}" == MARKER
    return then | {MARKER: marker}


def test_an_upgrade_publishes_nothing_of_what_runs_with_a_label_that_no_pod_needs(sample: Path) -> None:
    files = render_files(FolderSource(sample))
    was = before(as_once(files))
    assert of_files(files, was).data == {}
    assert find_tenants_missing_bytes({"solo-ada": of_files(files, was)}, was) == []


def test_the_marker_tells_of_what_is_published(sample: Path) -> None:
    source = FolderSource(sample)
    files = render_files(source)
    was = before(as_once(files))
    edit(sample, "tenants/solo-ada/instances/webui.yaml", "spec:\n", "spec:\n  displayName: Mine\n")
    now = render_files(source)
    data = of_files(now, was).data
    assert LABEL in data[WEBUI]
    assert data[MARKER] == as_once(now)[MARKER]
    assert data.keys() == {WEBUI, MARKER}
