"""Edits in a cluster by hand, and forged commits on its branches. Each behaves as those of `abuse.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from random import Random

from allotment.adapters.git.commits import CommitMessage, write_commit
from allotment.adapters.git.repository import Repository
from allotment.branches.status_branches import CLUSTER as STOCKS
from allotment.manifests.names import rendered_branch
from allotment.observed.status import ClusterStatus, Instance, TenantStatus, dump_status, parse_cluster_status
from tests.e2e.abuse import PUBLISHED, VICTIMS, Harm, allot, log_event, uid
from tests.e2e.cloud import Cloud
from tests.support.cloud_objects import deployment, missing, sync_messages
from tests.support.cloud_status import BRANCH, OURS, file, instance, status
from tests.support.manual_edits import (
    NEVER_MATCHES,
    SECONDS,
    add_by_hand,
    open_policy,
    open_role_binding,
    read_edit_conditions,
)
from tests.support.published import git
from tests.support.waiting import eventually

QUIET = "studio-kite"  # a tenant that no hand edit touches
# An edit of the platform is named after half a minute, or after 5 minutes while publishes follow each other.
PLATFORM_SECONDS = 420
BINDING = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: evil
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: cluster-admin
subjects:
  - apiGroup: rbac.authorization.k8s.io
    kind: Group
    name: system:authenticated
"""


def forge(cloud: Cloud, changes: Mapping[str, bytes | None], refs: Sequence[str], parent: str) -> str:
    """Push a commit of somebody else to refs; return the commit."""
    git(cloud.root, "fetch", "-q", cloud.url, *refs)
    message = CommitMessage("Publish eu-1: 1 changed", b"Eve <eve@evil.example> 1 +0000")
    commit = write_commit(Repository(cloud.root), [parent] if parent else [], changes, message)
    git(cloud.root, "push", "-q", "--force", cloud.url, *(f"{commit}:{ref}" for ref in refs))
    return commit


def is_applied(cloud: Cloud) -> bool:
    """Return whether the forged ClusterRoleBinding is in the cluster."""
    client = cloud.clusters["eu-1"].client
    return not missing(client, "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "evil")


@contextmanager
def edit_by_hand(cloud: Cloud, chance: Random) -> Harm:
    client, (tenant, name) = cloud.clusters["eu-1"].client, chance.choice(VICTIMS)
    space = f"t-{tenant}"
    fields = add_by_hand(client, name, space)
    client.apply(open_policy(space))
    yield False

    def named() -> bool:
        edits = read_edit_conditions(cloud)
        assert set(edits) == {f"{tenant}/{name} AsPublished", f"{tenant}/ OnlyPublished"}, edits
        message = edits[f"{tenant}/{name} AsPublished"].message
        assert all(f"{field} isn't published" in message for field in fields), message
        return edits[f"{tenant}/ OnlyPublished"].message.startswith("NetworkPolicy open isn't published")

    eventually(named, "the edits to be named", SECONDS, pause=0.5)
    client.delete("networking.k8s.io/v1", "NetworkPolicy", "open", space)
    client.delete("apps/v1", "Deployment", name, space)
    eventually(lambda: read_edit_conditions(cloud) == {}, "nothing to differ any more", SECONDS, pause=0.5)


@contextmanager
def bind_by_hand(cloud: Cloud, chance: Random) -> Harm:
    """Add a RoleBinding and an open NetworkPolicy to the namespace of a tenant to whom nothing else happens."""
    client, space = cloud.clusters["eu-1"].client, f"t-{QUIET}"
    client.apply(open_role_binding(space))
    client.apply(open_policy(space))
    yield False

    def named() -> bool:
        edits = read_edit_conditions(cloud)
        assert set(edits) == {f"{QUIET}/ OnlyPublished"}, edits
        message = edits[f"{QUIET}/ OnlyPublished"].message
        return all(f"{each} open isn't published" in message for each in ("NetworkPolicy", "RoleBinding"))

    eventually(named, "the objects to be named", SECONDS, pause=0.5)
    doctor = allot(cloud, "doctor", "--cluster", "eu-1", "--kubeconfig", str(client.kubeconfig))
    assert all(f"{each} {space}/open" in doctor.stdout for each in ("NetworkPolicy", "RoleBinding")), doctor.stdout
    client.delete("networking.k8s.io/v1", "NetworkPolicy", "open", space)
    client.delete("rbac.authorization.k8s.io/v1", "RoleBinding", "open", space)
    eventually(lambda: read_edit_conditions(cloud) == {}, "nothing to differ any more", SECONDS, pause=0.5)


@contextmanager
def weaken_platform(cloud: Cloud, chance: Random) -> Harm:
    """Let an admission policy permit everything, as Argo CD does not see it."""
    policy = ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "allotment-tenant-pods")
    client = cloud.clusters["eu-1"].client
    client.patch(*policy, {"spec": {"matchConditions": NEVER_MATCHES}})
    yield False
    words = f"{policy[1]} {policy[2]} was edited by hand: spec.matchConditions isn't published"

    def named() -> bool:
        conditions = parse_cluster_status(file(cloud, STOCKS)).conditions
        assert [condition.reason for condition in conditions] == ["EditedByHand"], conditions
        return words in conditions[0].message

    eventually(named, "the edit to be named", PLATFORM_SECONDS, pause=0.5)
    assert "the platform in eu-1: ValidatingAdmissionPolicy" in " ".join(allot(cloud, "status").stdout.split())
    client.patch(*policy, {"spec": {"matchConditions": None}})

    def restored() -> bool:
        return parse_cluster_status(file(cloud, STOCKS)).conditions == ()

    eventually(restored, "nothing to differ any more", SECONDS, pause=0.5)


@contextmanager
def delete_by_hand(cloud: Cloud, chance: Random) -> Harm:
    client, (tenant, name) = cloud.clusters["eu-1"].client, chance.choice(VICTIMS)
    before = uid(cloud, tenant, name)
    for api_version, kind in (("apps/v1", "Deployment"), ("v1", "Service")):
        client.delete(api_version, kind, name, f"t-{tenant}")
    yield False
    eventually(lambda: uid(cloud, tenant, name) != before, "Argo CD to restore the Deployment", 60)
    eventually(lambda: client.get("v1", "Service", name, f"t-{tenant}"), "Argo CD to restore the Service", 60)


@contextmanager
def scale_by_hand(cloud: Cloud, chance: Random) -> Harm:
    tenant, name = chance.choice(VICTIMS)
    declared = deployment(cloud, tenant, name)["spec"]["replicas"]
    change = {"spec": {"replicas": declared + 7}}
    cloud.clusters["eu-1"].client.patch("apps/v1", "Deployment", name, change, f"t-{tenant}")
    yield False
    eventually(lambda: deployment(cloud, tenant, name)["spec"]["replicas"] == declared, "the declared replicas", 60)


@contextmanager
def forge_manifests(cloud: Cloud, chance: Random) -> Harm:
    """Push a ClusterRoleBinding into a tenant's folder of the rendered branch, and let Argo CD look at it."""
    tenant, _ = chance.choice(VICTIMS)
    with cloud.publisher_stopped():
        commit = cloud.smuggle("eu-1", {f"tenants/{tenant}/compute/evil.rendered.yaml": BINDING})
        words = "ClusterRoleBinding is not permitted in project"
        eventually(lambda: words in sync_messages(cloud, f"{tenant}--eu-1--compute"), "the project to refuse it", 90)
        assert not is_applied(cloud)
    yield False
    log_event(cloud, "foreign commit replaced", commit)
    assert not is_applied(cloud)


@contextmanager
def forge_status(cloud: Cloud, chance: Random, *, times: Sequence[str], refs: tuple[str, ...]) -> Harm:
    """Push a status that claims all units, and instances that nobody declares."""
    lies = [
        Instance(name, "b", "Running", "ProbesAnswered", gpu_spec="l4-quarter", units=100_000, pods=100_000)
        for name in ("group-a", "never-declared")
    ]
    changes: dict[str, bytes | None] = {
        "tenants/uni-lab.yaml": dump_status(TenantStatus("uni-lab", "eu-1", instances=tuple(lies))),
        "stocks.yaml": dump_status(ClusterStatus("eu-1", chance.choice(times))),
    }
    with cloud.publisher_stopped():
        commit = forge(cloud, changes, refs, cloud.published()[BRANCH])
        allot(cloud, *chance.choice((("status",), ("doctor",), ("stock", "list"), ("history", "uni-lab"))))
    yield False

    def replaced() -> bool:
        assert cloud.published()[BRANCH] != commit
        return "never-declared" not in {instance_status.name for instance_status in status(cloud, "uni-lab").instances}

    eventually(replaced, "the status to be the reporter's", 90)
    if OURS not in refs:
        log_event(cloud, "foreign commit on the status branch", commit)
    assert instance(cloud, "group-a", "uni-lab").pods < 100


@contextmanager
def forge_published_ref(cloud: Cloud, chance: Random) -> Harm:
    """Move our ref beside the rendered branch to a commit that has one more object, or nothing else; or move the branch too."""
    branch = rendered_branch("eu-1")
    with cloud.publisher_stopped():
        tip = cloud.published()[PUBLISHED]
        refs, parent = chance.choice((([PUBLISHED], ""), ([PUBLISHED], tip), ([PUBLISHED, branch], tip)))
        changes: dict[str, bytes | None] = {"tenants/uni-lab/compute/evil.rendered.yaml": BINDING.encode()}
        commit = forge(cloud, changes, refs, parent)
    yield False
    tip = cloud.published()[branch]
    assert cloud.published()[PUBLISHED] == tip != commit
    assert "evil" not in git(cloud.forge, "ls-tree", "-r", "--name-only", tip)
    assert not is_applied(cloud)
