"""Defines the Prometheus metrics of the publisher, the reporter and the commenter.

Every counter starts at 0 for each label value that is known in advance. If a counter first appeared with the value 1,
increase() in Prometheus would miss this first event.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterable, Mapping
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from allotment.adapters.forge.forge import StatusState
from allotment.adapters.http_server import WebhookOutcome
from allotment.observed.retention import Retention, RetentionReason

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """The metrics of one publisher process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._registry = to = registry or CollectorRegistry()
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
        self._clusters = frozenset[str]()
        self._seconds = Histogram("allotment_publish_seconds", "Duration of a publish.", buckets=BUCKETS, registry=to)
        self._published = Gauge(
            "allotment_published_info", "The last published commit.", ["cluster", "commit"], registry=to
        )
        self._source = Gauge(
            "allotment_source_info", "The source commit that was published last.", ["commit"], registry=to
        )
        self._time = Gauge("allotment_published_timestamp_seconds", "When a publish last succeeded.", registry=to)
        self._kept = Gauge(
            "allotment_kept_tenant", "An invalid tenant that keeps its published manifests.", ["tenant"], registry=to
        )
        self._retained = Gauge(
            "allotment_retained_tenants",
            "Tenants that stay at their last published manifests, by the reason.",
            ["reason"],
            registry=to,
        )
        self._waiting = Gauge(
            "allotment_waiting_instances", "Instances that get fewer units than they declare.", registry=to
        )

    def initialize_reasons(self, reasons: Iterable[str]) -> None:
        """Start the error counter of each reason at 0."""
        for reason in reasons:
            self._errors.labels(reason)

    def initialize_clusters(self, clusters: Iterable[str]) -> None:
        """Start the counters of each new cluster at 0."""
        for cluster in frozenset(clusters) - self._clusters:
            self._commits.labels(cluster)
            self._foreign.labels(cluster)
        self._clusters |= frozenset(clusters)

    def record_publish(
        self,
        seconds: float,
        now: float,
        source: str,
        *,
        tips: Mapping[str, str],
        changed: Iterable[str],
        foreign: Iterable[str],
        rendered: int,
        retained_tenants: Mapping[str, Retention],
        waiting: int,
    ) -> None:
        """Record a successful publish: its duration and time, the pushed branches, and the tenants that were not
        published as declared."""
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
        for tenant in retained_tenants:
            self._kept.labels(tenant).set(1)
        counts = Counts(retention.reason for retention in retained_tenants.values())
        for reason in RetentionReason:
            self._retained.labels(reason).set(counts[reason])
        self._waiting.set(waiting)

    def record_error(self, reason: str) -> None:
        """Count an error."""
        self._errors.labels(reason).inc()


class ReportMetrics:
    """The metrics of one reporter."""

    def __init__(self, cluster: str, registry: CollectorRegistry) -> None:
        self._cluster = cluster
        self._commits = Counter("allotment_status_commits", "Status commits pushed.", ["cluster"], registry=registry)
        self._foreign = Counter(
            "allotment_foreign_status_commits",
            "Status branches found with a tip that isn't to be believed.",
            ["cluster"],
            registry=registry,
        )
        self._errors = Counter(
            "allotment_status_errors", "Turns that ended with an error.", ["cluster", "reason"], registry=registry
        )
        self._tenants = Gauge("allotment_observed_tenants", "Tenants seen.", ["cluster"], registry=registry)
        self._events = Gauge("allotment_observed_events", "Events of watches taken.", ["cluster"], registry=registry)
        self._silence = Gauge(
            "allotment_silence_seconds", "Since an API server last said something.", ["cluster"], registry=registry
        )
        self._removed = Gauge(
            "allotment_removed_still_running",
            "Objects that the rendered branch hasn't had for two minutes or longer, and the cluster still has.",
            ["cluster"],
            registry=registry,
        )
        self._stopped = Gauge(
            "allotment_stopped_still_running",
            "Instances that were published without replicas ten minutes ago or longer, and still have pods.",
            ["cluster"],
            registry=registry,
        )
        self._edited = Gauge(
            "allotment_edited_objects",
            "Objects of tenants that somebody edited by hand.",
            ["cluster"],
            registry=registry,
        )
        self._foreign_objects = Gauge(
            "allotment_foreign_objects",
            "Objects in tenants' namespaces that somebody added by hand.",
            ["cluster"],
            registry=registry,
        )
        self._observed = Gauge(
            "allotment_status_info",
            "The time that the last status commit says.",
            ["cluster", "time"],
            registry=registry,
        )
        for counter in (self._commits, self._foreign):
            counter.labels(cluster)

    def initialize_reasons(self, reasons: Iterable[str]) -> None:
        """Start the error counter of each reason at 0."""
        for reason in reasons:
            self._errors.labels(self._cluster, reason)

    def record_commit(self, time: str) -> None:
        """Count a status commit."""
        self._commits.labels(self._cluster).inc()
        self._observed.clear()
        self._observed.labels(self._cluster, time).set(1)

    def record_foreign_commit(self) -> None:
        """Count a foreign commit."""
        self._foreign.labels(self._cluster).inc()

    def record_error(self, reason: str) -> None:
        """Count an error."""
        self._errors.labels(self._cluster, reason).inc()

    def record_observation(self, tenants: int, events: int, silence: float) -> None:
        """Record the observed tenants and events, and the seconds since the API server last answered."""
        self._tenants.labels(self._cluster).set(tenants)
        self._events.labels(self._cluster).set(events)
        self._silence.labels(self._cluster).set(silence)

    def record_orphans(self, count: int, stopped: int) -> None:
        """Record the number of orphans, and the number of stopped instances that still run."""
        self._removed.labels(self._cluster).set(count)
        self._stopped.labels(self._cluster).set(stopped)

    def record_edits(self, count: int, foreign: int) -> None:
        """Record the numbers of objects that somebody edited by hand (`count`) and added by hand (`foreign`)."""
        self._edited.labels(self._cluster).set(count)
        self._foreign_objects.labels(self._cluster).set(foreign)

    def clear_observations(self) -> None:
        """Remove the numbers of objects and instances, because a replica that doesn't lead must not report them."""
        for gauge in (self._removed, self._stopped, self._edited, self._foreign_objects):
            gauge.clear()


class PortalMetrics:
    """The metrics of the portal."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._errors = Counter(
            "allotment_portal_errors", "Builds that ended with an error, by its reason.", ["reason"], registry=registry
        )
        self._pages = Gauge("allotment_portal_pages", "Pages of the portal.", registry=registry)
        self._built_at = Gauge(
            "allotment_portal_built_timestamp_seconds", "Time of the last successful build.", registry=registry
        )

    def initialize_reasons(self, reasons: Iterable[str]) -> None:
        """Start the error counter of each reason at 0."""
        for reason in reasons:
            self._errors.labels(reason)

    def record_error(self, reason: str) -> None:
        """Count an error."""
        self._errors.labels(reason).inc()

    def record_build(self, pages: int) -> None:
        """Record a successful build with its number of pages."""
        self._pages.set(pages)
        self._built_at.set_to_current_time()


class CordonMetrics:
    """The metrics of the cordons of one cluster."""

    def __init__(self, cluster: str, registry: CollectorRegistry) -> None:
        self._cluster = cluster
        self._errors = Counter(
            "allotment_cordon_errors", "Turns that ended with an error.", ["cluster", "reason"], registry=registry
        )
        self._nodes = Gauge("allotment_cordoned_nodes", "Nodes with a declared cordon.", ["cluster"], registry=registry)
        self._troubles = Gauge(
            "allotment_cordon_troubles", "Declared cordons that are not in force.", ["cluster"], registry=registry
        )

    def initialize_reasons(self, reasons: Iterable[str]) -> None:
        """Start the error counter of each reason at 0."""
        for reason in reasons:
            self._errors.labels(self._cluster, reason)

    def record_error(self, reason: str) -> None:
        """Count an error."""
        self._errors.labels(self._cluster, reason).inc()

    def record_turn(self, nodes: int, troubles: int) -> None:
        """Record the cordoned nodes, and the reasons why others are not cordoned."""
        self._nodes.labels(self._cluster).set(nodes)
        self._troubles.labels(self._cluster).set(troubles)


class CommentMetrics:
    """The metrics of the commenter."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reviews = Counter(
            "allotment_reviews", "Pull requests planned, by the commit status they got.", ["state"], registry=registry
        )
        self._errors = Counter(
            "allotment_comment_errors", "Rounds that ended with an error, by its reason.", ["reason"], registry=registry
        )
        self._open = Gauge("allotment_open_pull_requests", "Open pull requests.", registry=registry)
        self._followed = Gauge("allotment_followed_rollouts", "Merges that don't run yet.", registry=registry)
        for state in get_args(StatusState):
            self._reviews.labels(state)

    def initialize_reasons(self, reasons: Iterable[str]) -> None:
        """Start the error counter of each reason at 0."""
        for reason in reasons:
            self._errors.labels(reason)

    def record_review(self, state: str) -> None:
        """Count a review."""
        self._reviews.labels(state).inc()

    def record_error(self, reason: str) -> None:
        """Count an error."""
        self._errors.labels(reason).inc()

    def record_open_requests(self, open_requests: int, followed: int) -> None:
        """Record the number of open pull requests, and the number of merges with a rollout in progress."""
        self._open.set(open_requests)
        self._followed.set(followed)


class WebhookMetrics:
    """The metrics of the webhooks that one process receives."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._webhooks = Counter(
            "allotment_webhooks",
            "Webhooks, by whether they were signed with the secret.",
            ["outcome"],
            registry=registry,
        )
        for outcome in get_args(WebhookOutcome):
            self._webhooks.labels(outcome)

    def record_webhook(self, outcome: str) -> None:
        """Count a webhook."""
        self._webhooks.labels(outcome).inc()


def metrics_text(registry: CollectorRegistry) -> bytes:
    """Return all metrics in Prometheus' text format."""
    text: bytes = generate_latest(registry)
    return text


def create_registry() -> CollectorRegistry:
    """Return a new registry of metrics."""
    return CollectorRegistry()
