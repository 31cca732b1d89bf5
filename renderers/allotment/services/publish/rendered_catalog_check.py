"""Checks the platform and the clusters of a source, and renders each cluster, to find those that can't be rendered."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from allotment.adapters.declaration_source import Source, path_problem
from allotment.declared.inventory import Catalog
from allotment.problems import Problem
from allotment.services.check.catalog_check import CatalogCheck, check_catalog
from allotment.services.check.platform_faults import classify_faults
from allotment.services.check.tenant_error import build_rejection
from allotment.services.publish.renderer import ClusterRenderer


def check_rendered_catalog(source: Source, as_of: datetime.date) -> CatalogCheck:
    """Return the checked platform and clusters of a source, with a problem for each cluster that can't be rendered.

    Rendering a cluster takes 15 to 150 ms, so commands that don't render call `check_catalog`.
    """
    checked = check_catalog(source, as_of)
    faults = classify_faults(checked.problems, checked.catalog.clusters)
    if faults.blocking:
        return checked
    clusters = {name: each for name, each in checked.catalog.clusters.items() if name not in faults.by_cluster}
    problems = _list_failures(checked.catalog._replace(clusters=clusters))
    return checked._replace(catalog_problems=[*checked.catalog_problems, *problems])


def _list_failures(catalog: Catalog) -> Iterator[Problem]:
    for name, cluster in catalog.clusters.items():
        try:
            for _ in ClusterRenderer(catalog._replace(clusters={name: cluster})).render_files((), lambda _: "a"):
                pass
        except Exception as error:
            rejection = build_rejection(error, "cluster")
            yield path_problem(f"clusters/{name}/cluster.yaml", rejection.message, rejection.rule)
