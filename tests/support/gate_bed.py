"""The boundaries of the sample, and what its tenants are entitled to."""

from __future__ import annotations

import datetime
from functools import lru_cache
from typing import Any

from allotment.adapters.folder_source import FolderSource
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder
from allotment.isolation.entitlements import Entitlements
from allotment.isolation.gate import NO_ENTITLEMENTS
from allotment.manifests.paths import parse_tree_path
from allotment.services.check.repository_check import check_repository
from allotment.services.check.workers import read_scope
from allotment.services.publish.renderer import build_gate
from tests.conftest import PROJECT

SOURCE = FolderSource(PROJECT)
OFFERS = check_repository(SOURCE, datetime.date(2026, 11, 21)).catalog
BOUNDARIES = build_gate(OFFERS).clusters
WEBUI = "eu-1/tenants/solo-ada/compute/webui.rendered.yaml"
MODELS = "eu-1/tenants/solo-ada/storage/models.rendered.yaml"
SNAPSHOT = "eu-1/tenants/studio-kite/storage/before-upgrade--snapshot.rendered.yaml"
COPY = "eu-1/tenants/studio-kite/storage/base.rendered.yaml"
FILLED = "eu-1/tenants/studio-kite/storage/model-cache.rendered.yaml"
Objects = list[dict[str, Any]]


@lru_cache
def _entitled(cluster: str, tenant: str) -> Entitlements:
    scope = Scope("tenant", tenant)
    folder = read_folder(scope, read_scope(SOURCE, scope).files)[0]
    return Entitlements.from_declarations(OFFERS, OFFERS.clusters[cluster], folder)


def entitled(path: str) -> Entitlements:
    """Return what the tenant of a path may have there."""
    cluster, _, inner = path.partition("/")
    spot = parse_tree_path(inner)
    return _entitled(cluster, spot.tenant) if spot is not None else NO_ENTITLEMENTS


def of(objects: Objects, kind: str) -> dict[str, Any]:
    return next(manifest for manifest in objects if manifest["kind"] == kind)
