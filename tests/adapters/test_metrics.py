"""Every metric stands in the document that lists them, and nothing else does."""

from __future__ import annotations

import re

from prometheus_client import CollectorRegistry
from tests.conftest import PROJECT

from allotment.adapters.metrics import (
    CommentMetrics,
    Metrics,
    PortalMetrics,
    ReportMetrics,
    WebhookMetrics,
    metrics_text,
)
from allotment.adapters.ssh_metrics import SshMetrics
from allotment.services.publish.publish_loop import PUBLISH_REASONS

REASON = re.compile(r"^\| `([a-z-]{1,40})` \|", re.MULTILINE)
NAME = re.compile(r"\ballotment_[a-z_]+")


def test_every_metric_is_documented() -> None:
    registry = CollectorRegistry()
    Metrics(registry)
    ReportMetrics("eu-1", registry)
    CommentMetrics(registry)
    PortalMetrics(registry)
    SshMetrics(registry)
    metric_names = {
        f"{metric.name}_total" if metric.type == "counter" else metric.name for metric in registry.collect()
    }
    documented = set(NAME.findall((PROJECT / "docs/operate/metrics.md").read_text(encoding="utf-8")))
    assert metric_names - documented == set()
    assert documented - metric_names == {"allotment_webhooks_total"}, "the web server's own"


def test_every_reason_is_documented() -> None:
    assert REASON.findall((PROJECT / "docs/operate/metrics.md").read_text(encoding="utf-8")) == list(PUBLISH_REASONS)


def test_counters_start_at_zero_before_the_first_event() -> None:
    """Or else increase() misses the first."""
    registry = CollectorRegistry()
    ReportMetrics("eu-1", registry)
    CommentMetrics(registry)
    WebhookMetrics(registry)
    text = metrics_text(registry).decode()
    for series in (
        'allotment_status_commits_total{cluster="eu-1"}',
        'allotment_foreign_status_commits_total{cluster="eu-1"}',
        'allotment_reviews_total{state="failure"}',
        'allotment_webhooks_total{outcome="unsigned"}',
    ):
        assert f"{series} 0.0\n" in text
