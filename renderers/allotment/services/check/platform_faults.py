"""Sorts the errors of the platform and the clusters by their effect: on the whole publish, on a cluster, or on nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from allotment.declared.kinds import KINDS
from allotment.problems import Problem
from allotment.rules import references

CLUSTER_RULE = "cluster"
_ADD_ONS = KINDS["AddOn"].path.partition("{")[0]


class PlatformFaults(NamedTuple):
    """The errors in the declarations of the platform and the clusters, by effect.

    - `blocking` errors stop every publish. They are in the catalog or in the ownership rules, and no check can find all
      tenants that depend on these declarations.
    - `by_cluster` has the errors of each cluster. A publish retains such a cluster and its tenants at their last
      published manifests.
    - `harmless` errors do not affect a publish.
    """

    blocking: list[Problem]
    by_cluster: dict[str, list[Problem]]
    harmless: list[Problem]


def classify_faults(problems: Iterable[Problem], clusters: Collection[str]) -> PlatformFaults:
    """Return the errors among `problems` by effect. `clusters` are the clusters that have a folder."""
    faults = PlatformFaults([], {}, [])
    for problem in sorted(problems):
        parts = problem.path.split("/")
        if problem.warning or parts[0] == "tenants":
            continue
        if parts[0] == "clusters" and len(parts) > 2 and parts[1] in clusters:
            for cluster in {
                path.split("/")[1] for path in (problem.path, *problem.related) if path.startswith("clusters/")
            }:
                faults.by_cluster.setdefault(cluster, []).append(problem)
        elif problem.path.startswith(_ADD_ONS) and problem.rule == references.RULE:
            faults.harmless.append(problem)  # an AddOn that names a missing cluster still runs in other clusters
        else:
            faults.blocking.append(problem)
    return faults._replace(by_cluster=dict(sorted(faults.by_cluster.items())))
