"""Reads the recorded nodes and stocks of clusters from the commits with their status."""

from __future__ import annotations

from collections.abc import Mapping

from allotment.adapters.git.repository import Repository
from allotment.branches.status_branches import CAPACITY
from allotment.manifests.yaml_text import Malformed
from allotment.observed.status import CapacityUsage, parse_capacity_usage
from allotment.problems import OperationRefused


def read_capacity_usages(repository: Repository, status_commits: Mapping[str, str]) -> dict[str, CapacityUsage]:
    """Return the recorded capacity of each cluster at its status commit. A cluster with an unreadable record is left out."""
    capacities = {}
    for cluster, commit in status_commits.items():
        try:
            data = repository.read_at(commit, CAPACITY)
            if data is not None:
                capacities[cluster] = parse_capacity_usage(data)
        except (Malformed, OperationRefused):
            continue
    return capacities
