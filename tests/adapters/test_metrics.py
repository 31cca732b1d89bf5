"""Every metric stands in the document that lists them, and nothing else does. The alerts and the dashboard use these metrics."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from prometheus_client import CollectorRegistry
from tests.conftest import PROJECT

from allotment.adapters.metrics import (
    CommentMetrics,
    CordonMetrics,
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


ALERTS = PROJECT / "argo/add-ons/allot-alerts"
ALERT = re.compile(r"^\| `(Allotment[A-Za-z]+)` \|", re.MULTILINE)
PARTS = re.compile(r"_(?:bucket|sum|count)$")  # of a histogram


def list_metrics() -> set[str]:
    """Return the names of the metrics that the program declares."""
    registry = CollectorRegistry()
    Metrics(registry)
    ReportMetrics("eu-1", registry)
    CommentMetrics(registry)
    PortalMetrics(registry)
    CordonMetrics("eu-1", registry)
    SshMetrics(registry)
    return {f"{metric.name}_total" if metric.type == "counter" else metric.name for metric in registry.collect()}


def test_every_metric_is_documented() -> None:
    metric_names = list_metrics()
    documented = set(NAME.findall((PROJECT / "docs/operate/metrics.md").read_text(encoding="utf-8")))
    assert metric_names - documented == set()
    assert documented - metric_names == {"allotment_webhooks_total"}, "the web server's own"


def test_every_reason_is_documented() -> None:
    assert REASON.findall((PROJECT / "docs/operate/metrics.md").read_text(encoding="utf-8")) == list(PUBLISH_REASONS)


@pytest.mark.parametrize("name", ["prometheus-rule.yaml", "dashboard.json"])
def test_the_add_on_uses_metrics_that_exist(name: str) -> None:
    used = {PARTS.sub("", metric) for metric in NAME.findall((ALERTS / name).read_text(encoding="utf-8"))}
    assert len(used) > 8
    assert used - list_metrics() == set()


def test_every_alert_is_documented() -> None:
    manifest = yaml.safe_load((ALERTS / "prometheus-rule.yaml").read_text(encoding="utf-8"))
    (group,) = manifest["spec"]["groups"]
    assert (manifest["apiVersion"], manifest["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    page = (PROJECT / "docs/operate/metrics.md").read_text(encoding="utf-8")
    assert ALERT.findall(page) == [rule["alert"] for rule in group["rules"]]
    for rule in group["rules"]:
        assert rule.keys() - {"for"} == {"alert", "expr", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert NAME.search(rule["expr"])


def test_the_kustomization_names_the_files() -> None:
    kustomization = yaml.safe_load((ALERTS / "kustomization.yaml").read_text(encoding="utf-8"))
    (generator,) = kustomization["configMapGenerator"]
    files = [
        *kustomization["resources"],
        *(file.partition("=")[2] for file in generator["files"]),
        "kustomization.yaml",
    ]
    assert sorted(files) == sorted(path.name for path in ALERTS.iterdir())
    dashboard = json.loads((ALERTS / "dashboard.json").read_text(encoding="utf-8"))
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids) > 8


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
