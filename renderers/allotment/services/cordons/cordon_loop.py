"""Applies the merged cordons of a cluster: cordons nodes, deletes their placeholders, and moves instances in turn."""

from __future__ import annotations

import datetime
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from allotment.adapters.cluster.nodes import Nodes
from allotment.adapters.declaration_source import Source
from allotment.adapters.git.clone import CloneDamage
from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.adapters.http_responses import ApiError, ApiUnavailable
from allotment.adapters.log import Log
from allotment.adapters.metrics import CordonMetrics
from allotment.manifests import names
from allotment.observed.objects import Pod
from allotment.problems import OperationRefused
from allotment.services.check.catalog_check import check_catalog
from allotment.services.cordons.node_plan import NodeChange, NodePlan, plan_nodes
from allotment.services.loop import FAILURE_REASONS, Failure, Loop, LoopTiming, repair_if_clone

STALLED_SECONDS = 300
MOVE_SECONDS = 600  # after this time, another instance moves although the last did not become ready
SETTLE_SECONDS = (
    60  # after this time, an instance with fewer pods than before its move was stopped, or has fewer replicas
)
_ENDED_PHASES = ("Succeeded", "Failed")
MAX_ATTEMPTS = 3  # a node that somebody else makes schedulable is cordoned this often for the same cordons


class CordonTarget(NamedTuple):
    """The name of the cluster, and the repository, remote and branch of the declarations."""

    cluster: str
    repository: Repository
    remote: Remote
    branch: str


class _Move(NamedTuple):
    """The move of an instance: its number of pods before, and the time of the deletion of a pod."""

    tenant: str
    instance: str
    pods: int
    begun_at: float


class CordonLoop(Loop):
    """Applies the cordons of one cluster until `stop` is called. `choose_day` returns the day in the billing time zone."""

    def __init__(
        self,
        target: CordonTarget,
        nodes: Nodes,
        choose_day: Callable[[Source], datetime.date],
        metrics: CordonMetrics,
        log: Log,
        interval: float,
        *,
        is_leader: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(
            LoopTiming(interval, STALLED_SECONDS), log, "cordons not applied", metrics.record_error, is_leader
        )
        self._target, self._nodes, self._choose_day, self._metrics = target, nodes, choose_day, metrics
        self._attempts: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self._logged_troubles: frozenset[str] = frozenset()
        self._move: _Move | None = None
        self._stuck_instances: set[tuple[str, str]] = set()
        metrics.initialize_reasons(FAILURE_REASONS)

    @property
    def display_url(self) -> str:
        """The URL of the API server."""
        return self._nodes.url

    def on_leadership_lost(self) -> None:
        """Forget the attempts, and the instance that moves."""
        self._attempts.clear()
        self._stuck_instances.clear()
        self._move = None

    def repair_clone(self, errors: Sequence[str]) -> CloneDamage | None:
        """Check the clone for damage."""
        return repair_if_clone(self._target.repository, errors)

    def classify_error(self, error: Exception) -> Failure:
        """Return the failure of a turn."""
        if isinstance(error, ApiError | ApiUnavailable):
            return Failure("unreachable", f"{self._nodes.url}: {error}", connected=isinstance(error, ApiError))
        return super().classify_error(error)

    def run_once(self) -> None:
        """Apply the cordons of the newest commit. Raises OperationRefused if the branch or the cluster is absent."""
        plan = self._plan_nodes()
        troubles = list(plan.troubles)
        pending = self._change_nodes(plan.changes, troubles)
        self._delete_placeholders(plan.cordoned_nodes - pending)
        self._move_instances(plan.drained_nodes - pending, troubles)
        for trouble in sorted(frozenset(troubles) - self._logged_troubles):
            self.log.warning("cordon in doubt", cluster=self._target.cluster, message=trouble)
        self._logged_troubles = frozenset(troubles)
        self._metrics.record_turn(len(plan.cordoned_nodes - pending), len(troubles))

    def _plan_nodes(self) -> NodePlan:
        target = self._target
        name = f"refs/heads/{target.branch}"
        tip = target.remote.fetch(name).get(name)
        if tip is None:
            raise OperationRefused(f"the source has no branch {target.branch}")
        source = CommitSource(target.repository.folder, tip, target.repository)
        day = self._choose_day(source)
        cluster = check_catalog(source, day).catalog.clusters.get(target.cluster)
        if cluster is None:
            raise OperationRefused(f"the source declares no cluster {target.cluster}")
        return plan_nodes(cluster, self._nodes.list_nodes(), day)

    def _change_nodes(self, changes: Iterable[NodeChange], troubles: list[str]) -> frozenset[str]:
        """Change nodes, and append the troubles. Return the nodes that are not as planned."""
        pending = set[str]()
        for change in changes:
            name, key = change.node.name, (change.node.name, change.cordons)
            pending.add(name)
            if self._attempts[key] >= MAX_ATTEMPTS:
                troubles.append(
                    f"{name}: cordoned {MAX_ATTEMPTS} times, and somebody else made it schedulable each time: remove the Cordon"
                    f" {', '.join(change.cordons)}, or stop the other program"
                )
                continue
            changed = self._nodes.set_cordons(
                change.node,
                change.cordons,
                is_unschedulable=change.is_unschedulable,
                is_cordoned_before=change.is_cordoned_before,
            )
            if changed is None:  # the node vanished, or somebody changed it; the next turn reads it again
                continue
            if (changed.cordons, changed.is_unschedulable) != (change.cordons, change.is_unschedulable):
                troubles.append(f"{name}: the API server did not accept the change of the cordon as a whole")
                continue
            pending.remove(name)
            for other in [pair for pair in self._attempts if pair[0] == name and pair != key]:
                del self._attempts[other]
            if change.cordons:
                self._attempts[key] += 1
            cordons = ", ".join(change.cordons or change.node.cordons)
            self.log.info("node cordoned" if change.cordons else "cordon ended", node=name, cordons=cordons)
        return frozenset(pending)

    def _delete_placeholders(self, cordoned_nodes: Iterable[str]) -> None:
        """Delete the placeholders on cordoned nodes. At its limit, a pool makes no node for an instance while they remain."""
        for node in sorted(cordoned_nodes):
            for pod in self._nodes.list_pods({"fieldSelector": f"spec.nodeName={node}", "labelSelector": names.STOCK}):
                if not pod.terminating and self._nodes.delete_pod(names.STOCK_NAMESPACE, pod.name, pod.uid):
                    self.log.info("placeholder deleted", node=node, pod=pod.name)

    def _move_instances(self, drained_nodes: Iterable[str], troubles: list[str]) -> None:
        """Delete a pod of an instance on the drained nodes if no other instance moves, and append the troubles."""
        if self._move is not None and not self._has_moved(self._move):
            if time.monotonic() - self._move.begun_at <= MOVE_SECONDS:
                return
            self._stuck_instances.add((self._move.tenant, self._move.instance))
        self._move = None
        troubles += (
            f"instance {tenant}/{instance} was not ready {MOVE_SECONDS // 60} minutes after its move began"
            for tenant, instance in self._stuck_instances
        )
        pods = [pod for node in sorted(drained_nodes) for pod in self._list_node_pods(node)]
        if any(pod.terminating and not pod.node_lost for pod in pods):
            return
        for pod in sorted(pods, key=lambda pod: (pod.tenant, pod.instance, pod.name)):
            siblings = self._list_instance_pods(pod.tenant, pod.instance)
            others_are_ready = all(other.ready for other in siblings if other.uid != pod.uid)
            if pod.terminating or not others_are_ready:
                continue  # a replica of the instance stays until the others are ready
            if self._nodes.delete_pod(names.namespace(pod.tenant), pod.name, pod.uid):
                self._move = _Move(pod.tenant, pod.instance, len(siblings), time.monotonic())
                self._stuck_instances.discard((pod.tenant, pod.instance))
                self.log.info("instance moves", node=pod.node, tenant=pod.tenant, instance=pod.instance, pod=pod.name)
                return

    def _has_moved(self, move: _Move) -> bool:
        """Return whether all pods of an instance are ready, or the instance has been stopped or has fewer replicas."""
        pods = self._list_instance_pods(move.tenant, move.instance)
        is_settled = len(pods) >= move.pods or time.monotonic() - move.begun_at > SETTLE_SECONDS
        return is_settled and all(pod.ready and not pod.terminating for pod in pods)

    def _list_node_pods(self, node: str) -> list[Pod]:
        """Return the live pods of instances on a node."""
        query = {"fieldSelector": f"spec.nodeName={node}", "labelSelector": names.INSTANCE}
        return [pod for pod in self._nodes.list_pods(query) if pod.phase not in _ENDED_PHASES]

    def _list_instance_pods(self, tenant: str, instance: str) -> list[Pod]:
        pods = self._nodes.list_pods({"labelSelector": f"{names.INSTANCE}={instance}"}, names.namespace(tenant))
        return [pod for pod in pods if pod.phase not in _ENDED_PHASES]
