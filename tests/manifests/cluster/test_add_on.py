"""An add-on is installed from what its file pins, by a project that takes nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.conftest import PROJECT, Allot, edit, errors

from allotment.manifests.yaml_text import load

SCHEMAS = PROJECT / "tests/schemas"
KARPENTER = "platform/add-ons/karpenter.yaml"
OWN = """apiVersion: allotment.dev/v1alpha1
kind: AddOn
metadata:
  name: own
spec:
  {source}
  namespace: own-system
"""


def rendered(allot: Allot, root: Path) -> dict[str, Any]:
    """Return the objects of add-ons, by cluster and name of file, each a project and an Application."""
    out = root.parent / "out"
    result = allot("render", "--repo", root, "--out", out)
    assert result.code == 0, result
    return {
        f"{path.parts[-4]}/{path.name.partition('.')[0]}": load(path.read_bytes())
        for path in sorted(out.glob("*/control/add-ons/*.yaml"))
    }


def application(allot: Allot, root: Path, source: str) -> dict[str, Any]:
    (root / "platform/add-ons/own.yaml").write_text(OWN.format(source=source))
    spec: dict[str, Any] = rendered(allot, root)["eu-1/own"][1]["spec"]
    return spec


def test_only_its_clusters_have_it(sample: Path, allot: Allot) -> None:
    manifests = rendered(allot, sample)
    assert "us-1/karpenter" in manifests and "eu-1/karpenter" not in manifests
    assert {"eu-1/cert-manager", "us-1/cert-manager"} <= manifests.keys()


def test_a_chart_is_installed_as_it_is_pinned_with_its_values(sample: Path, allot: Allot) -> None:
    project, argo_application = rendered(allot, sample)["eu-1/cert-manager"]
    assert argo_application["metadata"]["name"] == project["metadata"]["name"] == "allotment--add-on-cert-manager--eu-1"
    assert argo_application["spec"]["source"] == {
        "repoURL": "https://charts.jetstack.io",
        "targetRevision": "v1.21.2",
        "chart": "cert-manager",
        "helm": {
            "releaseName": "cert-manager",
            "valuesObject": argo_application["spec"]["source"]["helm"]["valuesObject"],
        },
    }
    assert argo_application["spec"]["source"]["helm"]["valuesObject"]["crds"] == {"enabled": True, "keep": True}
    assert argo_application["spec"]["destination"] == {"name": "eu-1", "namespace": "cert-manager"}
    assert argo_application["spec"]["project"] == project["metadata"]["name"]


def test_its_project_takes_one_source_and_lets_it_bring_what_is_named(sample: Path, allot: Allot) -> None:
    spec = rendered(allot, sample)["us-1/karpenter"][0]["spec"]
    assert spec["sourceRepos"] == ["oci://public.ecr.aws/karpenter/karpenter"]
    assert [destination["namespace"] for destination in spec["destinations"]] == ["karpenter", "kube-system"]
    assert spec["clusterResourceWhitelist"] == [
        {"group": "apiextensions.k8s.io", "kind": "CustomResourceDefinition"},
        {"group": "rbac.authorization.k8s.io", "kind": "ClusterRole"},
        {"group": "rbac.authorization.k8s.io", "kind": "ClusterRoleBinding"},
    ]


def test_a_chart_of_a_registry_is_pulled_by_its_digest_where_one_is_declared(sample: Path, allot: Allot) -> None:
    chart = "chart: {repoURL: 'oci://registry.example/charts/', name: own, version: 1.2.3%s}"
    image = "oci://registry.example/charts/own"
    assert application(allot, sample, chart % "")["source"] == {
        "repoURL": image,
        "targetRevision": "1.2.3",
        "path": ".",
        "helm": {"releaseName": "own"},
    }
    digest = f"sha256:{'0f' * 32}"
    assert application(allot, sample, chart % f", digest: {digest}")["source"]["targetRevision"] == digest


def test_manifests_are_read_at_their_commit(sample: Path, allot: Allot) -> None:
    commit = "4e1b7a626891a215949ab42a6957a0ef1e1a25e6"
    source = f"manifests: {{repoURL: 'https://github.com/rook/rook', path: deploy/examples, revision: {commit}}}"
    spec = application(allot, sample, source)
    url = "https://github.com/rook/rook"
    assert spec["source"] == {"repoURL": url, "targetRevision": commit, "path": "deploy/examples"}


def test_its_wave_orders_it_among_add_ons_and_its_project_comes_first(sample: Path, allot: Allot) -> None:
    waves = {
        (name, manifest["kind"]): int(manifest["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"])
        for name, objects in rendered(allot, sample).items()
        if not name.endswith("marker")
        for manifest in objects
    }
    projects = {wave for (_, kind), wave in waves.items() if kind == "AppProject"}
    assert projects == {-1}
    assert waves["eu-1/cert-manager", "Application"] >= 0


def test_every_object_fits_its_schema_and_nothing_goes_with_an_application(sample: Path, allot: Allot) -> None:
    for name, objects in rendered(allot, sample).items():
        for manifest in objects if not name.endswith("marker") else ():
            schema = json.loads((SCHEMAS / f"argoproj.io_v1alpha1_{manifest['kind']}.json").read_text())["schema"]
            jsonschema.Draft202012Validator(schema).validate(manifest)
            assert "finalizers" not in manifest["metadata"]
            assert manifest["metadata"]["annotations"]["argocd.argoproj.io/sync-options"] == "Delete=false"


def test_without_any_the_folder_stays_so_that_argo_cd_prunes_what_was_there(sample: Path, allot: Allot) -> None:
    for path in (sample / "platform/add-ons").glob("*.yaml"):
        path.unlink()
    assert set(rendered(allot, sample)) == {"eu-1/allotment--marker", "us-1/allotment--marker"}


@pytest.mark.parametrize("name", ["eu-1", "us-1"])
def test_its_values_stay_as_they_are_written(name: str, sample: Path, allot: Allot) -> None:
    values = "  values:\n    args:\n      - --b\n      - --a\n    zebra: 1\n    apple: '08'\n    on-top: \"yes\"\n    none: {}\n"
    chart = "chart: {repoURL: 'https://charts.example', name: own, version: 1.2.3}"
    (sample / "platform/add-ons/own.yaml").write_text(OWN.format(source=chart) + values)
    assert allot("fmt", "--repo", sample).code == 0
    written = (sample / "platform/add-ons/own.yaml").read_text()
    assert written.index("--b") < written.index("--a") < written.index("zebra") < written.index("apple")
    source = rendered(allot, sample)[f"{name}/own"][1]["spec"]["source"]
    assert source["helm"]["valuesObject"] == {
        "args": ["--b", "--a"],
        "zebra": 1,
        "apple": "08",
        "on-top": "yes",
        "none": {},
    }


def test_a_cluster_that_nobody_declares_is_a_problem(sample: Path, allot: Allot) -> None:
    edit(sample, KARPENTER, "- us-1", "- us-9")
    result = allot("validate", "--repo", sample, "--no-memory")
    assert any("no Cluster is named 'us-9'" in line for line in errors(result))


def test_its_namespace_is_made_for_it_since_no_project_may_make_any(sample: Path, allot: Allot) -> None:
    manifests = rendered(allot, sample)
    kinds = [
        manifest["kind"] for objects in manifests.values() for manifest in objects if manifest["kind"] == "AppProject"
    ]
    assert kinds
    for objects in manifests.values():
        allowed = objects[0].get("spec", {}).get("clusterResourceWhitelist", [])
        assert {"group": "", "kind": "Namespace"} not in allowed
    spaces = load((sample.parent / "out/us-1/platform/add-ons/namespaces.rendered.yaml").read_bytes())
    assert {"cert-manager", "karpenter"} <= {namespace["metadata"]["name"] for namespace in spaces}
    assert not {"kube-system", "nvidia-device-plugin"} & {namespace["metadata"]["name"] for namespace in spaces}
    assert {namespace["metadata"]["annotations"]["argocd.argoproj.io/sync-options"] for namespace in spaces} == {
        "Prune=false,Delete=false"
    }


def test_no_name_of_an_add_on_is_one_of_the_platforms_own(sample: Path, allot: Allot) -> None:
    """Its Application would be another's: every part of the platform is tried as a name."""
    rendered(allot, sample)
    parts = {
        manifest["metadata"]["name"].removeprefix("allotment--").removesuffix("--eu-1")
        for manifest in load((sample.parent / "out/eu-1/control/platform.rendered.yaml").read_bytes())
        if manifest["kind"] == "Application"
    }
    assert "stock" in parts
    tried = {form for part in parts for form in (part, part.removeprefix("add-on-"), part.removeprefix("add-ons-"))}
    for name in tried:
        (sample / f"platform/add-ons/{name}.yaml").write_text(
            OWN.replace("name: own", f"name: {name}").format(
                source="chart: {repoURL: https://charts.example, name: own, version: 1.0.0}"
            )
        )
    named = [
        manifest["metadata"]["name"]
        for part in rendered(allot, sample).values()
        for manifest in part
        if manifest["kind"] == "Application"
    ]
    assert not set(named) & {f"allotment--{part}--eu-1" for part in parts}
