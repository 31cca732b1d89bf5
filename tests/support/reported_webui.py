"""A cluster that reports the instance solo-ada/webui now, and the rows of the lists that show it."""

from __future__ import annotations

import copy
import datetime
from typing import Any

from allotment.declared.inventory import compute_blob_id
from tests.conftest import Result
from tests.support import live
from tests.support.instances import RUNS
from tests.support.published import Place
from tests.support.reported import Bed


class RecentBed(Bed):
    """A bed whose clock is the real one."""

    def now(self) -> str:
        return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rows(result: Result) -> list[str]:
    assert result.code == 0, result.err
    return [" ".join(line.split()) for line in result.out.splitlines()]


def report_webui(place: Place, bed: Bed, *others: dict[str, Any]) -> None:
    """Let eu-1 report that solo-ada/webui runs as it is declared, and other objects."""
    objects = copy.deepcopy((*RUNS, live.route(), *others))
    for live_object in objects:
        if live_object["kind"] == "Deployment":
            data = (place.root / "tenants/solo-ada/instances/webui.yaml").read_bytes()
            live_object["metadata"]["annotations"]["allotment.dev/declared-blob"] = compute_blob_id(data)
    bed.report(*objects)
