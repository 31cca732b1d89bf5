"""The rendered sample: golden, the same bytes whatever the circumstances, and fit for every schema. Cases 25, 26 and 30."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.conftest import DAY, PROJECT, Allot, edit, golden
from tests.support.rendered_tree import KUBERNETES, misfits, rendered, sample_tree

from allotment.declared.inventory import compute_blob_id
from allotment.manifests.layout import CLUSTER_MANIFESTS
from allotment.manifests.yaml_text import load

__all__ = ["sample_tree"]  # a fixture

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.process
def test_the_tree_is_the_golden_one(sample_tree: dict[str, bytes]) -> None:
    if os.environ.get("GOLDEN") == "write":
        shutil.rmtree(GOLDEN, ignore_errors=True)
    for path, data in sample_tree.items():
        golden(GOLDEN / path, data.decode())
    assert {path.relative_to(GOLDEN).as_posix() for path in GOLDEN.rglob("*.yaml")} == sample_tree.keys()


def test_every_object_fits_its_schema(sample_tree: dict[str, bytes]) -> None:
    checked = set()
    for path, data in sample_tree.items():
        for manifest in load(data):
            assert misfits(manifest) == [], path
            checked.add(manifest["kind"])
    assert checked >= {
        *(
            "AppProject",
            "Application",
            "ConfigMap",
            "Deployment",
            "EC2NodeClass",
            "EnvoyExtensionPolicy",
            "HTTPRoute",
            "Job",
            "LimitRange",
            "Namespace",
            "NetworkPolicy",
        ),
        *(
            "NodePool",
            "ObjectBucketClaim",
            "PersistentVolumeClaim",
            "PriorityClass",
            "ReferenceGrant",
            "ResourceQuota",
            "SecurityPolicy",
            "Service",
            "VolumeSnapshot",
        ),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    }


def applications(tree: dict[str, bytes], cluster: str) -> Iterator[dict[str, Any]]:
    """Yield every Application that a cluster's tree and what is applied once declare."""
    objects = [
        manifest for path, data in tree.items() if path.startswith(f"{cluster}/control/") for manifest in load(data)
    ]
    once = list(yaml.safe_load_all((PROJECT / "argo/bootstrap.yaml").read_text(encoding="utf-8")))
    for manifest in [*once, *objects]:
        if is_ours(manifest) and manifest["metadata"]["name"].count(f"--{cluster}"):
            yield manifest


def is_ours(manifest: dict[str, Any]) -> bool:
    """Return whether an object is an Application that reads our branches; an add-on's reads what somebody else publishes."""
    return manifest["kind"] == "Application" and "allotment.dev/add-on" not in manifest["metadata"].get("labels", {})


def read_by(application: dict[str, Any], files: Iterable[str]) -> set[str]:
    """Return the files that Argo CD takes for an Application: of its folder, of folders below where it says so."""
    source = application["spec"]["source"]
    folder = f"{source['path']}/"
    deep = source.get("directory", {}).get("recurse", False)
    return {path for path in files if path.startswith(folder) and (deep or "/" not in path.removeprefix(folder))}


@pytest.mark.parametrize("cluster", ["eu-1", "us-1"])
def test_every_file_is_read_by_exactly_one_application(cluster: str, sample_tree: dict[str, bytes]) -> None:
    files = {path.removeprefix(f"{cluster}/") for path in sample_tree if path.startswith(f"{cluster}/")}
    readers: dict[str, list[str]] = {path: [] for path in files}
    for application in applications(sample_tree, cluster):
        read_paths = read_by(application, files)
        assert read_paths, f"{application['metadata']['name']} reads nothing"
        for path in read_paths:
            readers[path].append(application["metadata"]["name"])
    assert len(files) > 30
    assert {path: names for path, names in readers.items() if len(names) != 1} == {}


def test_a_broken_object_does_not_fit(sample_tree: dict[str, bytes]) -> None:
    deployment = load(sample_tree["eu-1/tenants/solo-ada/compute/webui.rendered.yaml"])[0]
    deployment["spec"]["template"]["spec"]["hostUser"] = False
    assert len(misfits(deployment)) == 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, KUBERNETES, strict=True)


@pytest.mark.process
@pytest.mark.parametrize(
    "circumstances",
    [
        {"PYTHONHASHSEED": "1"},
        {"PYTHONHASHSEED": "4242", "TZ": "Pacific/Kiritimati"},
        {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0"},
        {"LC_ALL": "tr_TR.UTF-8", "TZ": "America/Los_Angeles"},
    ],
    ids=str,
)
def test_the_same_bytes_whatever_the_circumstances(
    circumstances: dict[str, str], sample_tree: dict[str, bytes], tmp_path: Path
) -> None:
    run = [
        sys.executable,
        "-m",
        "allotment",
        "render",
        "--repo",
        str(PROJECT),
        "--out",
        str(tmp_path / "out"),
        "--as-of",
        DAY,
    ]
    subprocess.run(run, check=True, capture_output=True, env={**os.environ, **circumstances}, cwd=tmp_path)
    second_tree = {
        path.relative_to(tmp_path / "out").as_posix(): path.read_bytes() for path in (tmp_path / "out").rglob("*.yaml")
    }
    assert second_tree == sample_tree


def test_the_same_bytes_from_a_copy_in_another_order(
    sample: Path, allot: Allot, tmp_path: Path, sample_tree: dict[str, bytes]
) -> None:
    for path in sorted(sample.rglob("*.yaml"), reverse=True):
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)
    assert rendered(allot, sample, tmp_path / "out") == sample_tree


def test_a_tenant_does_not_depend_on_others(
    sample: Path, allot: Allot, tmp_path: Path, sample_tree: dict[str, bytes]
) -> None:
    for gone in ("studio-kite", "uni-lab", "ml-orbit", "acme-robotics"):
        shutil.rmtree(sample / "tenants" / gone)
    edit(sample, "clusters/eu-1/stocks/l4-whole-kite.yaml", "tenant: studio-kite", "tenant: solo-ada")
    left = rendered(allot, sample, tmp_path / "out")
    for path, data in left.items():
        if "film-house" in path or "solo-ada" in path:
            assert data == sample_tree[path], path


def test_a_tenants_text_stays_text(sample: Path, allot: Allot, tmp_path: Path) -> None:
    hostile = "x\\n---\\nkind: ClusterRoleBinding\\n{{ .Values }} ${HOME} $(id) \\u202e \U0001f680"
    edit(sample, "tenants/studio-kite/instances/webui.yaml", "value: dark", f'value: "{hostile}"')
    tree = rendered(allot, sample, tmp_path / "out")
    objects = load(tree["eu-1/tenants/studio-kite/compute/webui.rendered.yaml"])
    assert [manifest["kind"] for manifest in objects] == ["Deployment", "Service", "HTTPRoute", "SecurityPolicy"]
    env = {
        variable["name"]: variable["value"]
        for variable in objects[0]["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    # `$$` is the kubelet's escape for `$`: the container sees the text as it was declared.
    assert (
        env["UI_THEME"].replace("$$", "$")
        == "x\n---\nkind: ClusterRoleBinding\n{{ .Values }} ${HOME} $(id) \u202e \U0001f680"
    )


def deployment(tree: dict[str, bytes], path: str) -> dict[str, object]:
    return load(tree[path])[0]


def test_an_instance_waits_for_its_storage_without_a_gpu(sample_tree: dict[str, bytes]) -> None:
    waiting = deployment(sample_tree, "eu-1/tenants/studio-kite/compute/webui.rendered.yaml")
    assert waiting["spec"]["replicas"] == 0
    declared = (PROJECT / "tenants/studio-kite/instances/webui.yaml").read_bytes()
    assert waiting["metadata"]["annotations"] == {
        "allotment.dev/declared-blob": compute_blob_id(declared),
        "allotment.dev/units": "1",
        "allotment.dev/waits-for": "preparation of storage model-cache",
        "allotment.dev/waits-reason": "StorageUnprepared",
    }
    ready = deployment(sample_tree, "eu-1/tenants/studio-kite/compute/comfy.rendered.yaml")
    assert ready["spec"]["replicas"] == 1


@pytest.mark.parametrize("lifecycle", ["Suspended", "Retired"])
def test_a_tenant_that_does_not_run_has_no_replicas(lifecycle: str, sample: Path, allot: Allot, tmp_path: Path) -> None:
    edit(sample, "tenants/studio-kite/tenant.yaml", "plan: team", f"plan: team\n  lifecycle: {lifecycle}")
    tree = rendered(allot, sample, tmp_path / "out")
    for path in tree:
        if "/tenants/studio-kite/" in path and not path.endswith("marker.yaml"):
            assert [
                manifest["spec"]["replicas"] for manifest in load(tree[path]) if manifest["kind"] == "Deployment"
            ] in ([0], []), path
    assert deployment(tree, "eu-1/platform/stock/l4-whole-kite.rendered.yaml")["spec"]["replicas"] == 2


def test_a_revoked_version_runs_no_more(sample: Path, allot: Allot, tmp_path: Path) -> None:
    edit(sample, "platform/apps/comfyui.yaml", '- version: "0.6.0"\n', '- version: "0.6.0"\n      lifecycle: Revoked\n')
    comfy = deployment(
        rendered(allot, sample, tmp_path / "out"), "eu-1/tenants/studio-kite/compute/comfy.rendered.yaml"
    )
    assert comfy["spec"]["replicas"] == 0
    assert comfy["metadata"]["annotations"]["allotment.dev/waits-for"] == "version 0.6.0 is revoked"


def test_an_attempt_is_no_part_of_the_inputs_hash(
    sample: Path, allot: Allot, tmp_path: Path, sample_tree: dict[str, bytes]
) -> None:
    edit(sample, "tenants/uni-lab/storages/course.yaml", "  prepare:\n", "  prepare:\n    attempt: 2\n")
    path = "eu-1/tenants/uni-lab/storage/course.rendered.yaml"
    old, new = (load(tree[path])[1]["metadata"] for tree in (sample_tree, rendered(allot, sample, tmp_path / "out")))
    assert old["annotations"]["allotment.dev/input-hash"] == new["annotations"]["allotment.dev/input-hash"]
    assert (old["name"].rsplit("-", 1)[0], old["name"][-2:], new["name"][-2:]) == (
        new["name"].rsplit("-", 1)[0],
        "-1",
        "-2",
    )


def test_every_folder_that_argo_cd_reads_has_a_marker(sample_tree: dict[str, bytes]) -> None:
    folders = {
        manifest["spec"]["source"]["path"]
        for path, data in sample_tree.items()
        for manifest in load(data)
        if is_ours(manifest) and path.startswith("eu-1/")
    }
    for folder in folders - {"platform/cluster"}:
        assert f"eu-1/{folder}/allotment--marker.rendered.yaml" in sample_tree, folder


def test_no_file_has_a_name_that_a_tool_knows_whatever_anything_is_named(
    sample: Path, allot: Allot, tmp_path: Path
) -> None:
    """Argo CD hands a folder to Kustomize for the name of one file in it; no other of these names may reach it either."""
    old, new = sample / "tenants/solo-ada", sample / "tenants/kustomization"
    shutil.move(old, new)
    for path, name in (
        (new / "instances/webui.yaml", "webui"),
        (new / "storages/models.yaml", "models"),
        (sample / "clusters/us-1/node-pools/h100.yaml", "h100"),
    ):
        path.write_text(path.read_text().replace(f"name: {name}\n", "name: kustomization\n"))
        path.rename(path.with_name("kustomization.yaml"))
    for path in sample.rglob("*.yaml"):
        text = path.read_text()
        for name in ("solo-ada", "models", "h100"):
            text = text.replace(f": {name}\n", ": kustomization\n")
        path.write_text(text)
    tree = rendered(allot, sample, tmp_path / "out")
    named = {path for path in tree if "kustomization" in path.rpartition("/")[2]}
    assert {path.rpartition("/")[0] for path in named} == {
        "eu-1/control/argo/k",
        "eu-1/control/namespaces/k",
        "eu-1/tenants/kustomization/compute",
        "eu-1/tenants/kustomization/storage",
        "us-1/platform/node-pools",
    }
    assert all(re.fullmatch(r"[a-z0-9-]+\.rendered\.yaml", path.rpartition("/")[2]) for path in tree), tree.keys()
    sources = [manifest["spec"]["source"] for data in tree.values() for manifest in load(data) if is_ours(manifest)]
    assert {source["directory"]["include"] for source in sources} == {"*.rendered.yaml"}


@pytest.mark.process
def test_python_still_has_its_own_platform_module() -> None:
    run = subprocess.run(
        [sys.executable, "-c", "import platform; print(platform.system())"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip()
    assert datetime.date.fromisoformat(DAY)


def test_no_two_kinds_of_a_cluster_share_the_names_of_their_files() -> None:
    places = [(rendered.folder, rendered.suffix) for rendered in CLUSTER_MANIFESTS.values()]
    assert len(set(places)) == len(places) > 2
    assert all(suffix.startswith("--") for folder, suffix in places if folder == "platform/cluster")
