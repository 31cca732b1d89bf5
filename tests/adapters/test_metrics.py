"""Every metric stands in the document that lists them, and nothing else does."""

from __future__ import annotations

import re

from prometheus_client import CollectorRegistry
from tests.conftest import PROJECT

from allotment.adapters.metrics import CommentMetrics, Metrics, ReportMetrics

NAME = re.compile(r"\ballotment_[a-z_]+")


def test_every_metric_is_documented() -> None:
    registry = CollectorRegistry()
    Metrics(registry)
    ReportMetrics("eu-1", registry)
    CommentMetrics(registry)
    there = {f"{one.name}_total" if one.type == "counter" else one.name for one in registry.collect()}
    told = set(NAME.findall((PROJECT / "docs/operate/metrics.md").read_text(encoding="utf-8")))
    assert there - told == set()
    assert told - there == {"allotment_webhooks_total"}, "the web server's own"
