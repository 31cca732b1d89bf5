"""Pod templates: nothing that a pod doesn't need, and none that changes what runs by an upgrade of ours."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.conftest import edit
from tests.services.publish.written import check_and_render, render_files

from allotment.adapters.folder_source import FolderSource
from allotment.manifests.pod_template_pin import with_pod_template_of

WEBUI = "eu-1/tenants/solo-ada/compute/webui.rendered.yaml"
INSTANCE = b"        allotment.dev/instance: webui\n"
LABEL = b"        allotment.dev/plan: starter\n"


def rendered(sample: Path) -> bytes:
    return render_files(FolderSource(sample))[WEBUI]


def labelled(data: bytes, label: bytes = LABEL) -> bytes:
    """Return an instance's file as it was published once."""
    assert data.count(INSTANCE) == 1
    return data.replace(INSTANCE, INSTANCE + label)


def template(data: bytes) -> dict[str, object]:
    pod_template: dict[str, object] = next(yaml.safe_load_all(data))["spec"]["template"]
    return pod_template


def test_a_pod_has_the_labels_that_something_selects_it_by_and_the_bill_s(sample: Path) -> None:
    labels = {
        label
        for files in check_and_render(FolderSource(sample))[1].values()
        for path, data in files.items()
        if "/compute/" in path
        for manifest in yaml.safe_load_all(data)
        if manifest["kind"] == "Deployment"
        for label in manifest["spec"]["template"]["metadata"]["labels"]
    }
    assert {label_name for label_name in labels if not label_name.startswith("bill.allotment.dev/")} == {
        "allotment.dev/instance",  # Service and Deployment
        "allotment.dev/tenant",  # who may share a GPU
        "app.kubernetes.io/managed-by",  # what the reporter watches
    }
    assert {next(iter(pod_template["metadata"])) for pod_template in [template(rendered(sample))]} == {"labels"}  # type: ignore[call-overload]  # it is there


def test_a_change_of_the_plan_leaves_the_pod_template_and_reaches_what_is_the_tenant_s(sample: Path) -> None:
    before = render_files(FolderSource(sample))
    edit(sample, "tenants/solo-ada/tenant.yaml", "plan: starter", "plan: enterprise")
    after = render_files(FolderSource(sample))
    assert {path: data for path, data in before.items() if "/compute/" in path or "/storage/" in path} == {
        path: data for path, data in after.items() if "/compute/" in path or "/storage/" in path
    }
    argo = "eu-1/control/argo/s/solo-ada.rendered.yaml"
    assert {manifest["metadata"]["labels"]["allotment.dev/plan"] for manifest in yaml.safe_load_all(after[argo])} == {
        "enterprise"
    }


def test_an_instance_that_runs_keeps_the_label_of_its_published_template(sample: Path) -> None:
    now = rendered(sample)
    assert with_pod_template_of(now, labelled(now)) == labelled(now)
    newer = now.replace(b"allotment.dev/units", b"allotment.dev/others")
    assert newer != now
    assert with_pod_template_of(newer, labelled(now)) == labelled(newer)


@pytest.mark.parametrize("old", [b"replicas: 0", b"replicas: 1"])
@pytest.mark.parametrize("new", [b"replicas: 0", b"replicas: 1"])
def test_an_instance_that_does_not_run_loses_the_old_label(sample: Path, old: bytes, new: bytes) -> None:
    data = rendered(sample)
    before, now = labelled(data).replace(b"replicas: 1", old, 1), data.replace(b"replicas: 1", new, 1)
    runs = old == new == b"replicas: 1"
    assert with_pod_template_of(now, before) == (labelled(now) if runs else now)


def test_an_instance_that_restarts_anyway_loses_the_old_label(sample: Path) -> None:
    data = rendered(sample)
    image = template(data)["spec"]["containers"][0]["image"]  # type: ignore[index]  # as above
    now = data.replace(image.encode(), image.encode().replace(b"sha256:", b"sha256:00")[:-2])
    assert now != data
    assert with_pod_template_of(now, labelled(data)) == now


@pytest.mark.parametrize(
    "label",
    [
        b'        allotment.dev/plan: "a: b"\n',
        b"        allotment.dev/plans: starter\n",
        b"        a.example/plan: starter\n",
        LABEL + LABEL,
    ],
)
def test_no_other_label_is_kept(sample: Path, label: bytes) -> None:
    now = rendered(sample)
    assert with_pod_template_of(now, labelled(now, label)) == now


def test_a_file_without_a_pod_template_is_as_it_is() -> None:
    assert with_pod_template_of(b"kind: x\n", b"kind: y\n") == b"kind: x\n"
