"""What somebody edits or adds by hand in a tenant's namespace: the status, the log and the metrics say so, by name."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from tests.support import live
from tests.support.edited_objects import COMPARED, NAMESPACE, OURS, POLICY, SPACE, Object, manifest, whole
from tests.support.published import git
from tests.support.reported import BRANCH, CLUSTER, Bed

from allotment.adapters.backoff import NO_BACKOFF
from allotment.adapters.git.repository import Repository
from allotment.adapters.metrics import metrics_text
from allotment.branches.status_branches import CLUSTER as CLUSTER_FILE
from allotment.branches.status_branches import SUMMARY
from allotment.manifests.paths import argo_file, namespace_file, resource_file
from allotment.manifests.yaml_text import dump
from allotment.observed.status import Condition, parse_cluster_status
from allotment.services.reporter import published_objects, reporter

TEMPLATE = {"metadata": {"labels": OURS}, "spec": {"containers": [{"name": "main", "image": "registry.example/x:1"}]}}
DEPLOYMENT = manifest(
    "Deployment", "webui", {"replicas": 1, "template": TEMPLATE}, **{"allotment.dev/instance": "webui"}
)
INSTANCE = resource_file(live.TENANT, "compute", "webui")
SPEC = "spec.template.spec"


class Edited(Bed):
    """A reporter that sees whole objects too. The Application of the platform has applied the last publish."""

    platform_sync, platform_revision = "Synced", ""

    def run(self, *objects: Object, seconds: int = 1) -> None:
        """See these objects, and the instance with its Application as they always are; then report."""
        kinds = whole(*objects)
        for kind, watched in COMPARED.items():
            self.store.replace(watched, [live_object for name, live_object in kinds if name == kind])
        application, platform = live.application(), live.application("platform", sync=self.platform_sync)
        del platform["metadata"]["labels"]["allotment.dev/tenant"]
        application["status"]["sync"]["revision"] = self.commit
        platform["status"]["sync"]["revision"] = self.platform_revision or self.commit
        self.report(live.deployment(), application, platform, seconds=seconds)

    def publish_all(self, *compute: Object) -> None:
        files = {
            INSTANCE: dump(compute),
            namespace_file(live.TENANT): dump([NAMESPACE, POLICY]),
        }
        self.commit = self.publish(files=files)

    def conditions(self) -> dict[str, Condition]:
        """Return what is said of edits: of the instance and of the tenant."""
        status = self.status()
        conditions = [*status.conditions, *(each for instance in status.instances for each in instance.conditions)]
        return {
            condition.type: condition for condition in conditions if condition.type in ("AsPublished", "OnlyPublished")
        }

    def counted(self) -> tuple[str, str]:
        lines = metrics_text(self.counts).decode().splitlines()
        names = (f'allotment_{what}_objects{{cluster="{CLUSTER}"}} ' for what in ("edited", "foreign"))
        first, second = (
            next((line.removeprefix(name) for line in lines if line.startswith(name)), "") for name in names
        )
        return first, second


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Edited:
    """Return a reporter that looks at the branch at every turn; a Deployment and a NetworkPolicy are as published."""
    monkeypatch.setattr(published_objects, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(published_objects, "FETCH_SECONDS", 0.0)
    monkeypatch.setattr(reporter, "BACKOFF", NO_BACKOFF)
    Repository.open_or_create(tmp_path / "remote.git")
    test_bed = Edited(tmp_path / "data", tmp_path / "remote.git")
    with (test_bed.remote / "config").open("a", encoding="utf-8") as settings:
        settings.write("[user]\n\tname = publisher\n\temail = publisher@northlight.example\n")
    test_bed.publish_all(DEPLOYMENT)
    test_bed.run(DEPLOYMENT, POLICY, NAMESPACE)
    return test_bed


def edited(deployment: Object) -> Object:
    edited_deployment = copy.deepcopy(deployment)
    edited_deployment["spec"]["template"]["spec"]["containers"].append(
        {"name": "miner", "image": "registry.example/y:1"}
    )
    return edited_deployment


def test_the_reporter_ignores_objects_that_match_the_published_manifests(bed: Edited) -> None:
    bed.run(DEPLOYMENT, POLICY, NAMESPACE, seconds=1000)
    assert (bed.conditions(), bed.warnings(), bed.counted()) == ({}, [], ("0.0", "0.0"))


def test_an_added_container_is_said_by_name_once_and_until_it_is_gone(bed: Edited) -> None:
    bed.run(edited(DEPLOYMENT), POLICY, NAMESPACE)
    assert bed.conditions() == {}
    bed.run(edited(DEPLOYMENT), POLICY, NAMESPACE, seconds=30)
    words = f"Deployment webui was edited by hand: {SPEC}.containers[miner] isn't published"
    undo = "kubectl -n t-solo-ada edit deployment webui"
    expected = Condition("AsPublished", "False", "EditedByHand", f"{words} (undo: {undo})", live.AT.format(2))
    assert bed.conditions() == {"AsPublished": expected}
    (instance,) = bed.status().instances
    assert expected.message in instance.message
    bed.run(edited(DEPLOYMENT), POLICY, NAMESPACE, seconds=30)
    assert (bed.warnings(), bed.counted()) == ([f"{words}; undo: {undo}"], ("1.0", "0.0"))
    bed.run(DEPLOYMENT, POLICY, NAMESPACE)
    assert (bed.conditions(), bed.counted()) == ({}, ("0.0", "0.0"))


def test_nothing_is_said_before_argo_cd_has_synced_what_is_published(bed: Edited) -> None:
    """A container that a newer publish removes stays until Argo CD has applied that."""
    synced = bed.commit
    bed.publish_all({**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": 2}})
    newer, bed.commit = bed.commit, synced
    bed.run(DEPLOYMENT, POLICY, NAMESPACE)
    bed.run(DEPLOYMENT, POLICY, NAMESPACE, seconds=1000)
    assert bed.conditions() == {}
    bed.commit = newer
    bed.run(DEPLOYMENT, POLICY, NAMESPACE)
    bed.run(DEPLOYMENT, POLICY, NAMESPACE, seconds=30)
    assert "spec.replicas isn't as published" in bed.conditions()["AsPublished"].message


def test_a_reporter_that_begins_again_says_the_same(bed: Edited, tmp_path: Path) -> None:
    for seconds in (1, 30):
        bed.run(edited(DEPLOYMENT), POLICY, NAMESPACE, seconds=seconds)
    before = bed.conditions()
    later = Edited(tmp_path / "later", bed.remote)
    later.clock, later.commit = bed.clock, bed.commit
    later.run(edited(DEPLOYMENT), POLICY, NAMESPACE)
    assert later.conditions() == before


def test_an_edited_policy_is_the_tenants(bed: Edited) -> None:
    policy = {**POLICY, "spec": {**POLICY["spec"], "ingress": [{}]}}
    bed.run(DEPLOYMENT, policy, NAMESPACE)
    bed.run(DEPLOYMENT, policy, NAMESPACE, seconds=300)
    (condition,) = bed.status().conditions
    assert condition.message == (
        "NetworkPolicy deny-all was edited by hand: spec.ingress isn't published"
        " (undo: kubectl -n t-solo-ada edit networkpolicy deny-all)"
    )


@pytest.mark.parametrize(("labels", "seconds"), [({}, 30), (OURS, 300)])
def test_a_foreign_policy_is_the_tenants(labels: dict[str, str], seconds: int, bed: Edited) -> None:
    metadata = {"name": "open", "namespace": SPACE, "labels": labels, "creationTimestamp": bed.now()}
    foreign = {"kind": "NetworkPolicy", "metadata": metadata, "spec": {}}
    bed.run(DEPLOYMENT, POLICY, NAMESPACE, foreign)
    bed.run(DEPLOYMENT, POLICY, NAMESPACE, foreign, seconds=seconds - (1 if labels else 2))
    assert bed.conditions() == {}
    bed.run(DEPLOYMENT, POLICY, NAMESPACE, foreign)
    words = "NetworkPolicy open isn't published (undo: kubectl -n t-solo-ada delete networkpolicy open)"
    assert [(condition.reason, condition.message) for condition in bed.status().conditions] == [
        ("ForeignObject", words)
    ]
    assert bed.counted() == ("0.0", "1.0")
    bed.run(DEPLOYMENT, POLICY, NAMESPACE)
    assert bed.status().conditions == ()


def test_a_foreign_login_policy_is_the_tenants(bed: Edited) -> None:
    spec = {"authorization": {"defaultAction": "Allow"}}
    foreign = {"kind": "SecurityPolicy", "metadata": {"name": "open", "namespace": SPACE}, "spec": spec}
    bed.run(DEPLOYMENT, POLICY, NAMESPACE, foreign)
    bed.run(DEPLOYMENT, POLICY, NAMESPACE, foreign, seconds=40)
    words = "SecurityPolicy open isn't published (undo: kubectl -n t-solo-ada delete securitypolicy open)"
    assert [condition.message for condition in bed.status().conditions] == [words]


def test_a_foreign_volume_is_the_tenants_and_its_data_comes_before_its_end(bed: Edited) -> None:
    foreign = {"kind": "PersistentVolumeClaim", "metadata": {"name": "hoard", "namespace": SPACE}, "spec": {}}
    bed.run(DEPLOYMENT, POLICY, NAMESPACE, foreign)
    bed.run(DEPLOYMENT, POLICY, NAMESPACE, foreign, seconds=40)
    words = (
        "PersistentVolumeClaim hoard isn't published (undo: copy its data, then"
        " kubectl -n t-solo-ada delete persistentvolumeclaim hoard)"
    )
    assert [condition.message for condition in bed.status().conditions] == [words]


def test_a_volume_that_belongs_to_a_pod_is_not_foreign(bed: Edited) -> None:
    owners = [{"uid": "pod"}]
    metadata = {"name": "webui-scratch", "namespace": SPACE, "ownerReferences": owners}
    scratch = {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {}}
    for seconds in (1, 1000):
        bed.run(DEPLOYMENT, POLICY, NAMESPACE, scratch, seconds=seconds)
    assert bed.conditions() == {}


def test_a_removed_volume_of_ours_is_not_foreign(bed: Edited) -> None:
    """`observed.removed` says of it that it is still there."""
    labels = {**OURS, "allotment.dev/storage": "models"}
    removed = {"kind": "PersistentVolumeClaim", "metadata": {"name": "models", "namespace": SPACE, "labels": labels}}
    for seconds in (1, 1000):
        bed.run(DEPLOYMENT, POLICY, NAMESPACE, {**removed, "spec": {}}, seconds=seconds)
    assert bed.conditions() == {}


def test_the_reporter_ignores_objects_of_a_controller(bed: Edited) -> None:
    owners = [{"uid": "x"}]
    service = {"kind": "Service", "metadata": {"name": "x", "namespace": SPACE, "ownerReferences": owners}, "spec": {}}
    bed.run(DEPLOYMENT, POLICY, NAMESPACE, service)
    bed.run(DEPLOYMENT, POLICY, NAMESPACE, service, seconds=1000)
    assert bed.conditions() == {}


def test_the_reporter_preserves_edit_conditions_while_the_remote_is_away(bed: Edited) -> None:
    for seconds in (1, 30):
        bed.run(edited(DEPLOYMENT), POLICY, NAMESPACE, seconds=seconds)
    before = bed.conditions()
    hidden = bed.remote.rename(bed.remote.with_name("away.git"))
    bed.run(edited(DEPLOYMENT), POLICY, NAMESPACE)
    hidden.rename(bed.remote)
    bed.reporter.tick()
    assert bed.conditions() == before


def test_a_namespace_that_only_has_a_tenants_name_is_no_tenant(bed: Edited) -> None:
    stray = {"kind": "NetworkPolicy", "metadata": {"name": "x", "namespace": "t-stray", "labels": {}}, "spec": {}}
    commits = bed.commits()
    for _ in range(3):
        bed.run(DEPLOYMENT, POLICY, NAMESPACE, stray, seconds=40)
    assert bed.commits() == commits


def test_an_object_that_is_added_while_the_branch_is_read_is_named_although_nothing_else_happens(bed: Edited) -> None:
    created = f"2026-11-21T10:00:{bed.clock + 1:02}Z"
    metadata = {"name": "open", "namespace": SPACE, "creationTimestamp": created}
    bed.run(DEPLOYMENT, POLICY, NAMESPACE, {"kind": "NetworkPolicy", "metadata": metadata, "spec": {}})
    assert bed.now() == created, "the second in which the reporter reads the branch"
    for seconds, is_named in ((29, False), (1, True)):
        bed.clock += seconds
        bed.reporter.tick()
        assert ("OnlyPublished" in bed.conditions()) == is_named
    assert bed.conditions()["OnlyPublished"].last_transition_time == created


def manifest_of(kind: str, name: str, spec: Object, namespace: str = "", **labels: str) -> Object:
    metadata: Object = {"name": name, "labels": {"app.kubernetes.io/managed-by": "allotment", **labels}}
    return {"kind": kind, "metadata": metadata | ({"namespace": namespace} if namespace else {}), "spec": spec}


TENANT_LABEL = {"allotment.dev/tenant": live.TENANT}
ADMISSION = manifest_of("ValidatingAdmissionPolicy", "allotment-tenant-secrets", {"failurePolicy": "Fail"})
BINDING = manifest_of("ValidatingAdmissionPolicyBinding", "allotment-tenant-secrets", {"validationActions": ["Deny"]})
OVERLAY = manifest_of("NodeOverlay", "h100", {"capacity": {"nvidia.com/gpu": "8"}})
ROOT = manifest_of("Application", "allotment--namespaces-s--eu-1", {"project": "platform"}, "argocd")
GATEWAY_ROUTE = manifest_of("HTTPRoute", "allot-portal", {"hostnames": ["portal.eu-1.example"]}, "edge")
PLATFORM_OBJECTS = ADMISSION, BINDING, OVERLAY, ROOT, GATEWAY_ROUTE
PROJECT_OBJECT = manifest_of("AppProject", "solo-ada--eu-1", {"sourceRepos": []}, "argocd", **TENANT_LABEL)


@pytest.fixture
def platform_bed(bed: Edited) -> Edited:
    """Return a reporter of a cluster where also the objects of the platform are as published."""
    files = {
        INSTANCE: dump([DEPLOYMENT]),
        namespace_file(live.TENANT): dump([NAMESPACE, POLICY]),
        argo_file(live.TENANT): dump([PROJECT_OBJECT]),
        "platform/cluster/admission.rendered.yaml": dump([ADMISSION, BINDING]),
        "platform/cluster/portal.rendered.yaml": dump([GATEWAY_ROUTE]),
        "platform/node-pools/h100.rendered.yaml": dump([OVERLAY]),
        "control/tenants-s.rendered.yaml": dump([ROOT]),
    }
    bed.commit = bed.publish(files=files)
    bed.run(DEPLOYMENT, POLICY, NAMESPACE, PROJECT_OBJECT, *PLATFORM_OBJECTS)
    return bed


def read_platform_conditions(bed: Edited) -> tuple[Condition, ...]:
    text = git(bed.remote, "show", f"{BRANCH}:{CLUSTER_FILE}") + "\n"
    return parse_cluster_status(text.encode()).conditions


@pytest.mark.parametrize(
    ("platform_object", "field", "value", "undo"),
    [
        (ADMISSION, "matchConditions", [{"name": "x", "expression": "false"}], "edit validatingadmissionpolicy"),
        (BINDING, "matchResources", {"namespaceSelector": {}}, "edit validatingadmissionpolicybinding"),
        (OVERLAY, "weight", 10, "edit nodeoverlay"),
        (ROOT, "ignoreDifferences", [{"kind": "NetworkPolicy"}], "-n argocd edit application"),
        (GATEWAY_ROUTE, "rules", [{}], "-n edge edit httproute"),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) and "kind" in value else "",
)
def test_an_addition_to_an_object_of_the_platform_is_named(
    platform_object: Object, field: str, value: object, undo: str, platform_bed: Edited
) -> None:
    weakened = {**platform_object, "spec": {**platform_object["spec"], field: value}}
    others = [each for each in PLATFORM_OBJECTS if each is not platform_object]
    seen = (DEPLOYMENT, POLICY, NAMESPACE, PROJECT_OBJECT, weakened, *others)
    platform_bed.run(*seen)
    platform_bed.run(*seen, seconds=29)
    assert read_platform_conditions(platform_bed) == ()
    platform_bed.run(*seen, seconds=1)
    (condition,) = read_platform_conditions(platform_bed)
    name = platform_object["metadata"]["name"]
    assert (condition.type, condition.status, condition.reason) == ("AsPublished", "False", "EditedByHand")
    assert f"{name} was edited by hand: spec.{field} isn't published (undo: kubectl {undo} {name})" in condition.message
    assert f"| eu\\-1 | platform | {platform_object['kind']} " in git(
        platform_bed.remote, "show", f"{BRANCH}:{SUMMARY}"
    )
    assert (len(platform_bed.warnings()), platform_bed.counted()) == (1, ("1.0", "0.0"))
    platform_bed.run(DEPLOYMENT, POLICY, NAMESPACE, PROJECT_OBJECT, *PLATFORM_OBJECTS)
    assert (read_platform_conditions(platform_bed), platform_bed.counted()) == ((), ("0.0", "0.0"))


def test_a_reporter_that_begins_again_keeps_the_time_of_a_platform_edit(platform_bed: Edited, tmp_path: Path) -> None:
    weakened = {**ADMISSION, "spec": {**ADMISSION["spec"], "matchConditions": [{"expression": "false"}]}}
    for seconds in (1, 30):
        platform_bed.run(DEPLOYMENT, POLICY, NAMESPACE, weakened, seconds=seconds)
    before = read_platform_conditions(platform_bed)
    later = Edited(tmp_path / "later", platform_bed.remote)
    later.clock, later.commit = platform_bed.clock, platform_bed.commit
    later.run(DEPLOYMENT, POLICY, NAMESPACE, weakened)
    assert before
    assert read_platform_conditions(later) == before


@pytest.mark.parametrize("reason", ["not synced", "an older commit"])
def test_a_platform_edit_lasts_longer_before_argo_cd_has_applied_the_publish(reason: str, platform_bed: Edited) -> None:
    weakened = {**ADMISSION, "spec": {**ADMISSION["spec"], "matchConditions": [{"expression": "false"}]}}
    files = {"platform/cluster/admission.rendered.yaml": dump([ADMISSION, BINDING, ROOT])}
    platform_bed.platform_revision = platform_bed.commit
    if reason == "not synced":
        platform_bed.platform_sync = "OutOfSync"
    else:
        platform_bed.commit = platform_bed.publish(files=files)
    for seconds in (1, 299):
        platform_bed.run(DEPLOYMENT, POLICY, NAMESPACE, weakened, BINDING, seconds=seconds)
    assert read_platform_conditions(platform_bed) == ()
    platform_bed.run(DEPLOYMENT, POLICY, NAMESPACE, weakened, BINDING, seconds=1)
    assert [each.reason for each in read_platform_conditions(platform_bed)] == ["EditedByHand"]


def test_an_addition_to_a_tenants_project_is_the_tenants(platform_bed: Edited) -> None:
    project = {**PROJECT_OBJECT, "spec": {**PROJECT_OBJECT["spec"], "orphanedResources": {}}}
    for seconds in (1, 300):
        platform_bed.run(DEPLOYMENT, POLICY, NAMESPACE, project, *PLATFORM_OBJECTS, seconds=seconds)
    (condition,) = platform_bed.status().conditions
    assert condition.message == (
        "AppProject argocd/solo-ada--eu-1 was edited by hand: spec.orphanedResources isn't published"
        " (undo: kubectl -n argocd edit appproject solo-ada--eu-1)"
    )
    assert read_platform_conditions(platform_bed) == ()


def test_a_foreign_role_binding_is_named(platform_bed: Edited) -> None:
    binding = {
        "kind": "RoleBinding",
        "metadata": {"name": "open", "namespace": SPACE, "creationTimestamp": live.AT.format(1)},
        "roleRef": {"kind": "ClusterRole", "name": "admin"},
    }
    for seconds in (1, 30):
        platform_bed.run(DEPLOYMENT, POLICY, NAMESPACE, binding, PROJECT_OBJECT, *PLATFORM_OBJECTS, seconds=seconds)
    assert platform_bed.conditions()["OnlyPublished"].message == (
        "RoleBinding open isn't published (undo: kubectl -n t-solo-ada delete rolebinding open)"
    )


def test_an_object_of_the_platform_without_a_manifest_is_not_foreign(platform_bed: Edited) -> None:
    """Administrators and other programs have objects of their own there."""
    own = manifest_of("ValidatingAdmissionPolicy", "own", {"failurePolicy": "Ignore"})
    unlabelled = manifest_of("AppProject", "default", {"sourceRepos": ["*"]}, "argocd")
    del unlabelled["metadata"]["labels"]
    for seconds in (1, 1000):
        seen = (DEPLOYMENT, POLICY, NAMESPACE, own, unlabelled, PROJECT_OBJECT, *PLATFORM_OBJECTS)
        platform_bed.run(*seen, seconds=seconds)
    assert (read_platform_conditions(platform_bed), platform_bed.counted()) == ((), ("0.0", "0.0"))


def test_a_reported_edit_of_the_platform_shortens_the_delay_of_no_other(platform_bed: Edited) -> None:
    weakened = {**ADMISSION, "spec": {**ADMISSION["spec"], "matchConditions": [{"expression": "false"}]}}
    heavy = {**OVERLAY, "spec": {**OVERLAY["spec"], "weight": 10}}
    for seconds in (1, 30):
        platform_bed.run(DEPLOYMENT, POLICY, NAMESPACE, weakened, OVERLAY, seconds=seconds)
    platform_bed.run(DEPLOYMENT, POLICY, NAMESPACE, weakened, heavy)
    (condition,) = read_platform_conditions(platform_bed)
    assert ("ValidatingAdmissionPolicy" in condition.message, "NodeOverlay" in condition.message) == (True, False)
    platform_bed.run(DEPLOYMENT, POLICY, NAMESPACE, weakened, heavy, seconds=30)
    (condition,) = read_platform_conditions(platform_bed)
    assert "NodeOverlay h100 was edited by hand" in condition.message


def test_a_reported_edit_stays_reported_while_argo_cd_applies_a_publish(platform_bed: Edited) -> None:
    weakened = {**ADMISSION, "spec": {**ADMISSION["spec"], "matchConditions": [{"expression": "false"}]}}
    for seconds in (1, 30):
        platform_bed.run(DEPLOYMENT, POLICY, NAMESPACE, weakened, seconds=seconds)
    before = read_platform_conditions(platform_bed)
    platform_bed.platform_sync = "OutOfSync"
    platform_bed.run(DEPLOYMENT, POLICY, NAMESPACE, weakened)
    assert read_platform_conditions(platform_bed) == before != ()


def test_an_edit_of_the_platform_that_is_merged_is_no_edit(platform_bed: Edited) -> None:
    weakened = {**ADMISSION, "spec": {**ADMISSION["spec"], "matchConditions": [{"expression": "false"}]}}
    platform_bed.platform_sync = "OutOfSync"
    for seconds in (1, 300):
        platform_bed.run(DEPLOYMENT, POLICY, NAMESPACE, weakened, seconds=seconds)
    assert read_platform_conditions(platform_bed) != ()
    platform_bed.publish(files={"platform/cluster/admission.rendered.yaml": dump([weakened, BINDING])})
    platform_bed.reporter.tick()
    assert read_platform_conditions(platform_bed) == ()


@pytest.mark.parametrize(("name", "argument"), [("x; curl evil", "'x; curl evil'"), ("--all", "-- --all")])
def test_the_command_that_deletes_a_foreign_object_quotes_its_name(
    name: str, argument: str, platform_bed: Edited
) -> None:
    binding = {
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": SPACE, "creationTimestamp": live.AT.format(1)},
    }
    for seconds in (1, 30):
        platform_bed.run(DEPLOYMENT, POLICY, NAMESPACE, binding, seconds=seconds)
    assert f"delete rolebinding {argument})" in platform_bed.conditions()["OnlyPublished"].message


def test_the_notifications_of_argo_cd_are_no_edit(platform_bed: Edited) -> None:
    notified = copy.deepcopy(ROOT)
    notified["metadata"].setdefault("annotations", {})["notified.notifications.argoproj.io"] = "{}"
    for seconds in (1, 1000):
        platform_bed.run(DEPLOYMENT, POLICY, NAMESPACE, notified, ADMISSION, seconds=seconds)
    assert read_platform_conditions(platform_bed) == ()
