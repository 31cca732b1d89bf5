"""The status of a tenant whose published instances run."""

from __future__ import annotations

import datetime
from typing import Any

from allotment.declared.inventory import compute_blob_id
from allotment.observed.status import Instance, Snapshot, Storage, TenantStatus
from tests.support.published import Place

WEBUI = "tenants/solo-ada/instances/webui.yaml"


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(place: Place, *paths: str, **more: Any) -> TenantStatus:
    """Return the status of a tenant of which all that these paths declare is where it should be."""
    about = dict[str, list[Any]](instances=[], storages=[], snapshots=[])
    kinds = {"instances": Instance, "storages": Storage, "snapshots": Snapshot}
    for path in paths:
        _, _, kind, file = path.split("/")
        state = "Running" if kind == "instances" else "Ready"
        blob = compute_blob_id((place.root / path).read_bytes())
        about[kind].append(kinds[kind](file.removesuffix(".yaml"), blob, state, "", **more))
    return TenantStatus(paths[0].split("/")[1], "eu-1", **{kind: tuple(resources) for kind, resources in about.items()})
