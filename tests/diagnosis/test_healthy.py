"""A cluster that is as it is declared has nothing wrong; what may not be read, or doesn't exist, is said and hides nothing else."""

from __future__ import annotations

import pytest
import yaml
from tests.conftest import PROJECT
from tests.diagnosis.healthy import Bed

from allotment.diagnosis import apis, cluster_snapshot


@pytest.mark.parametrize("name", ["eu-1", "us-1"])
def test_a_cluster_that_is_as_declared_has_nothing_wrong(name: str) -> None:
    assert Bed(name).report_lines() == []


def test_the_report_lists_passed_checks_with_their_numbers() -> None:
    finding_lines = Bed().report_lines("ok")
    assert "ok [nodes] NodePool l4-ts4: 3 nodes, tainted and ready" in finding_lines
    assert (
        "ok [nodes] NodePool l4-ts4: cpu 46 and memory 190Gi are left for pods on its smallest node,"
        " and node.cpu is 46 and node.memory 190Gi" in finding_lines
    )
    assert (
        "ok [device-plugin] NodePool l4-ts4: 3 nodes as declared, each with nvidia.com/gpu.shared: 16" in finding_lines
    )
    assert "ok [gateway] Certificate in Secret edge/edge: is valid until 2027-01-21" in finding_lines


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (
            cluster_snapshot.NODES,
            "error [nodes] nodes: can't be checked: the permission for list of nodes is missing -> grant it: docs/operate/doctor.md shows the role",
        ),
        (
            cluster_snapshot.APPLICATIONS,
            "error [argocd] applications.argoproj.io: can't be checked: the permission for list of applications.argoproj.io in"
            " namespace argocd where Argo CD runs is missing -> grant it: docs/operate/doctor.md shows the role",
        ),
        (
            cluster_snapshot.PLUGIN_CONFIG,
            "error [device-plugin] configmaps allotment: can't be checked: the permission for get of configmaps allotment in"
            " namespace nvidia-device-plugin is missing -> grant it: docs/operate/doctor.md shows the role",
        ),
    ],
)
def test_the_report_marks_an_unreadable_resource_as_an_error(kind: cluster_snapshot.ResourceQuery, line: str) -> None:
    bed = Bed()
    bed.refused[kind] = 403
    assert line in bed.report_lines("error")


def test_credentials_that_the_server_does_not_know_are_no_missing_permission() -> None:
    bed = Bed()
    bed.refused[cluster_snapshot.NODES] = 401
    lines = {line.partition("] ")[2] for line in bed.report_lines("error")}
    assert lines == {
        "nodes: can't be checked: the API server doesn't know these credentials: log in again, or name another context -> try"
        " again, then check the state of the API server"
    }


@pytest.mark.parametrize("kind", cluster_snapshot.ALL_QUERIES)
@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_nothing_that_is_read_is_passed_over(kind: cluster_snapshot.ResourceQuery, status: int) -> None:
    karpenters = (
        cluster_snapshot.KARPENTER_NODE_POOLS,
        cluster_snapshot.NODE_OVERLAYS,
        cluster_snapshot.KARPENTER_DEPLOYMENTS,
    )
    bed = Bed("us-1" if kind in karpenters else "eu-1")
    fine = bed.diagnosed()
    bed.refused[kind] = status
    if kind == cluster_snapshot.RESOURCE_SLICES:
        assert bed.report_lines() == [], "no pool is of DRA"
    elif kind == cluster_snapshot.KARPENTER_DEPLOYMENTS:
        assert bed.report_lines() == [], "the overlays say already that the gate is on"
    elif kind.name == "argocd-rbac-cm" and status == 404:
        assert bed.report_lines() == [], "what Argo CD takes without it is what we write"
    elif kind == cluster_snapshot.CERTIFICATES and status == 404:
        assert [line.split(":")[0] for line in bed.report_lines()] == [
            "skipped [gateway] Certificate in Secret edge/edge"
        ]
    elif kind == cluster_snapshot.NODE_OVERLAYS and status == 404:
        assert bed.report_lines() == [
            "skipped [karpenter] feature gate NodeOverlay: no NodeOverlay has a status, and no Deployment with the label app.kubernetes.io/name=karpenter shows the setting"
        ]
    else:
        assert bed.report_lines()
    lost = {diagnosis.topic for diagnosis in set(fine) - set(bed.diagnosed())}
    assert len(lost) <= 2, "what could be read is checked all the same"
    assert (status == 404) or all(
        line.startswith("error ") for line in bed.report_lines("error", "skipped") if kind.resource in line
    )


def test_the_role_has_what_is_read_and_no_more() -> None:
    objects = list(yaml.safe_load_all((PROJECT / "argo/doctor.yaml").read_text(encoding="utf-8")))
    granted = set()
    for role in objects:
        assert role["kind"] in ("ClusterRole", "Role")
        for rule in role["rules"]:
            (group,), verbs = rule["apiGroups"], tuple(rule["verbs"])
            assert verbs in (("get",), ("list",))
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", [""]):
                    granted.add((verbs[0], group, resource, role["metadata"].get("namespace", ""), name))
    wanted = set()
    for kind in (*cluster_snapshot.ALL_QUERIES, *cluster_snapshot.WHOLE_OBJECT_QUERIES):
        wanted.add(("get" if kind.name else "list", kind.group, kind.resource, kind.namespace, kind.name))
    assert granted == wanted
    assert not any(resource == "secrets" for _, _, resource, _, _ in granted)


def test_every_api_of_what_is_rendered_is_asked_for() -> None:
    """The golden tree has everything that the sample renders; what Kubernetes has had for long is left out."""
    old = {"v1", "apps/v1", "batch/v1", "networking.k8s.io/v1", "policy/v1", "rbac.authorization.k8s.io/v1"}
    old |= {"scheduling.k8s.io/v1"}
    for name in ("eu-1", "us-1"):
        api_versions = set()
        for file in (PROJECT / "tests/manifests/golden").rglob("*.yaml"):
            if name in file.parts:
                for text in file.read_text(encoding="utf-8").split("\n"):
                    if text.startswith("apiVersion: "):
                        api_versions.add(text.removeprefix("apiVersion: "))
        bed = Bed(name)
        assert api_versions - old <= {
            needed_api.api for needed_api in apis.list_required_apis(bed.catalog, bed.cluster)
        }, name
        assert api_versions
