"""The whole test bed of one cluster: up, with Argo CD and on request Karpenter; found again when it already runs; down."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster as DeclaredCluster
from tests.controlplane import argocd, cluster, karpenter, node, processes, simulated, world
from tests.controlplane.argocd import ArgoCD
from tests.controlplane.cluster import PROJECT, Cluster

Say = Callable[[str], None]


def quiet(_: str) -> None:
    """Say nothing."""


def up(
    name: str,
    *,
    with_argocd: bool = True,
    with_karpenter: bool = False,
    with_node: bool = False,
    gates: Collection[str] = karpenter.GATES,
    root: Path = PROJECT,
    say: Say = quiet,
) -> tuple[Cluster, bool]:
    """Return a cluster with at least these parts, and whether it was started now. One that isn't as it should be starts anew;
    `gates` are Karpenter's feature gates."""
    if with_node and (why := node.why_not()):
        raise processes.NotStarted(f"no container can run here: {why}")
    wanted = {"argocd": with_argocd, "karpenter": with_karpenter, "node": with_node}
    test_cluster = cluster.place(name, real=with_node)
    with processes.alone(_lock(test_cluster)):
        was = cluster.state(test_cluster, root)
        complete = was == "running" and all(test_cluster.parts().get(part) for part, needed in wanted.items() if needed)
        complete = complete and (not with_karpenter or test_cluster.parts()["gates"] == sorted(gates))
        if complete and (not with_node or world.find_world(node.folder(test_cluster))):
            return test_cluster, False
        why = "" if was == "gone" else f"{name} is {'incomplete' if was == 'running' else was}: "
        say(f"{why}starting {name} anew …")
        declared = simulated.declared(root, name)
        node.stop(test_cluster)
        try:
            cluster.start(test_cluster, declared)
            parts: dict[str, Any] = {}
            if with_argocd:
                say("Argo CD …")
                started = argocd.start(test_cluster)
                started.register(test_cluster, _name_in_argocd(declared))
                parts["argocd"] = started.url
            if with_karpenter:
                say("Karpenter …")
                parts["karpenter"] = karpenter.start(test_cluster, declared, gates)
                parts["gates"] = sorted(gates)
            if with_node:
                say("A real node …")
                parts["node"] = node.start(test_cluster).network.node
            cluster.note_started(test_cluster, root, parts)
        except BaseException:
            node.stop(test_cluster)
            processes.stop(test_cluster.folder)  # its logs stay
            raise
        return test_cluster, True


def down(name: str) -> int:
    """End everything of a cluster, also after a crash; return how many processes there were."""
    return end(cluster.place(name))


def end(test_cluster: Cluster) -> int:
    """End everything of a cluster, as `down` does."""
    with processes.alone(_lock(test_cluster)):
        return node.stop(test_cluster) + cluster.stop(test_cluster)


def argocd_of(test_cluster: Cluster) -> ArgoCD:
    """Return the Argo CD that runs in a cluster. Raises NotStarted when it was started without."""
    url = test_cluster.parts().get("argocd")
    if not url:
        raise processes.NotStarted(f"{test_cluster.name} runs without Argo CD")
    return ArgoCD(test_cluster, url)


def names() -> list[str]:
    """Return the clusters of this checkout that were started and not yet ended."""
    return sorted(path.name for path in cluster.STATE.iterdir() if path.is_dir()) if cluster.STATE.is_dir() else []


def _name_in_argocd(declared: ScopeDeclarations) -> str:
    """Return the name that a cluster's declaration says Argo CD has for it; else its own."""
    place = declared.get_singleton(DeclaredCluster)
    assert place is not None
    return place.model.spec.destination.name or declared.name


def _lock(test_cluster: Cluster) -> Path:
    """Return what whoever starts or ends a cluster holds."""
    return test_cluster.folder.parent / f".{test_cluster.name}.lock"
