"""The whole test bed of one cluster: up, with Argo CD and on request Karpenter; found again when it already runs; down."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from allotment.declared.inventory import Folder
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
    found = cluster.place(name, real=with_node)
    with processes.alone(_lock(found)):
        was = cluster.state(found, root)
        complete = was == "running" and all(found.parts().get(part) for part, needed in wanted.items() if needed)
        complete = complete and (not with_karpenter or found.parts()["gates"] == sorted(gates))
        if complete and (not with_node or world.found(node.folder(found))):
            return found, False
        why = "" if was == "gone" else f"{name} is {'incomplete' if was == 'running' else was}: "
        say(f"{why}starting {name} anew …")
        declared = simulated.declared(root, name)
        node.stop(found)
        try:
            cluster.start(found, declared)
            parts: dict[str, Any] = {}
            if with_argocd:
                say("Argo CD …")
                started = argocd.start(found)
                started.register(found, _name_in_argocd(declared))
                parts["argocd"] = started.url
            if with_karpenter:
                say("Karpenter …")
                parts["karpenter"] = karpenter.start(found, declared, gates)
                parts["gates"] = sorted(gates)
            if with_node:
                say("A real node …")
                parts["node"] = node.start(found).network.node
            cluster.note_started(found, root, parts)
        except BaseException:
            node.stop(found)
            processes.stop(found.folder)  # its logs stay
            raise
        return found, True


def down(name: str) -> int:
    """End everything of a cluster, also after a crash; return how many processes there were."""
    return end(cluster.place(name))


def end(found: Cluster) -> int:
    """End everything of a cluster, as `down` does."""
    with processes.alone(_lock(found)):
        return node.stop(found) + cluster.stop(found)


def argocd_of(found: Cluster) -> ArgoCD:
    """Return the Argo CD that runs in a cluster. Raises NotStarted when it was started without."""
    url = found.parts().get("argocd")
    if not url:
        raise processes.NotStarted(f"{found.name} runs without Argo CD")
    return ArgoCD(found, url)


def names() -> list[str]:
    """Return the clusters of this checkout that were started and not yet ended."""
    return sorted(path.name for path in cluster.STATE.iterdir() if path.is_dir()) if cluster.STATE.is_dir() else []


def _name_in_argocd(declared: Folder) -> str:
    """Return the name that a cluster's declaration says Argo CD has for it; else its own."""
    place = declared.one(DeclaredCluster)
    assert place is not None
    return place.model.spec.destination.name or declared.name


def _lock(found: Cluster) -> Path:
    """Return what whoever starts or ends a cluster holds."""
    return found.folder.parent / f".{found.name}.lock"
