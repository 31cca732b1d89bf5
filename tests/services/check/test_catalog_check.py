"""The check of the platform and the clusters, and the part of the catalog that tenants are rendered with."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from tests.conftest import edit

from allotment.adapters.folder_source import FolderSource
from allotment.services.check.catalog_check import check_catalog, find_valid_subset

DAY = datetime.date(2026, 11, 21)


@pytest.mark.parametrize("partial", [False, True])
def test_a_catalog_without_errors_is_its_own_valid_subset(sample: Path, partial: bool) -> None:
    catalog_check = check_catalog(FolderSource(sample), DAY)
    assert all(problem.warning for problem in catalog_check.problems)
    assert {"solo-ada", "studio-kite"} <= set(catalog_check.tenants)
    assert find_valid_subset(catalog_check, partial=partial) == (catalog_check.catalog, {}, True)


def test_an_error_of_a_cluster_rejects_only_that_cluster_in_a_partial_check(sample: Path) -> None:
    edit(sample, "clusters/us-1/cluster.yaml", "spec:", "spec:\n  nonsense: 1")
    catalog_check = check_catalog(FolderSource(sample), DAY)
    subset = find_valid_subset(catalog_check, partial=True)
    assert (set(subset.catalog.clusters), set(subset.invalid_clusters), subset.can_render) == ({"eu-1"}, {"us-1"}, True)
    assert not find_valid_subset(catalog_check, partial=False).can_render


def test_an_error_of_the_platform_prevents_rendering(sample: Path) -> None:
    edit(sample, "platform/platform.yaml", "spec:", "spec:\n  nonsense: 1")
    assert not find_valid_subset(check_catalog(FolderSource(sample), DAY), partial=True).can_render
