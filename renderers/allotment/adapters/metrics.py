"""What a running publisher counts, in Prometheus' terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """The metrics of one process; `text` is what `/metrics` answers."""

    def __init__(self) -> None:
        self._registry = to = CollectorRegistry()
        self._renders = Counter("allotment_rendered_tenants", "Tenants rendered.", registry=to)
        self._commits = Counter("allotment_commits", "Commits pushed to a rendered branch.", ["cluster"], registry=to)
        self._foreign = Counter(
            "allotment_foreign_commits",
            "Rendered branches found with a tip that Allotment didn't write.",
            ["cluster"],
            registry=to,
        )
        self._errors = Counter(
            "allotment_errors", "Rounds that ended with an error, by its reason.", ["reason"], registry=to
        )
        self._seconds = Histogram("allotment_publish_seconds", "Duration of a publish.", buckets=BUCKETS, registry=to)
        self._published = Gauge(
            "allotment_published_info", "The last published commit.", ["cluster", "commit"], registry=to
        )
        self._source = Gauge(
            "allotment_source_info", "The source commit that was published last.", ["commit"], registry=to
        )
        self._time = Gauge("allotment_published_timestamp_seconds", "When a publish last succeeded.", registry=to)
        self._kept = Gauge(
            "allotment_kept_tenant", "A tenant that is invalid and keeps what it had.", ["tenant"], registry=to
        )
        self._waiting = Gauge(
            "allotment_waiting_instances", "Instances that get fewer units than they declare.", registry=to
        )

    def published(
        self,
        seconds: float,
        now: float,
        source: str,
        tips: Mapping[str, str],
        changed: Iterable[str],
        foreign: Iterable[str],
        rendered: int,
        kept: Iterable[str],
        waiting: int,
    ) -> None:
        """Count a publish that succeeded: its duration, the time, what was pushed and who wasn't published as declared."""
        self._seconds.observe(seconds)
        self._time.set(now)
        self._renders.inc(rendered)
        for cluster in changed:
            self._commits.labels(cluster).inc()
        for cluster in foreign:
            self._foreign.labels(cluster).inc()
        for gauge in (self._published, self._source, self._kept):
            gauge.clear()
        self._source.labels(source).set(1)
        for cluster, commit in tips.items():
            self._published.labels(cluster, commit).set(1)
        for tenant in kept:
            self._kept.labels(tenant).set(1)
        self._waiting.set(waiting)

    def failed(self, reason: str) -> None:
        """Count an error."""
        self._errors.labels(reason).inc()

    def text(self) -> bytes:
        """Return all of them in Prometheus' text format."""
        text: bytes = generate_latest(self._registry)
        return text
