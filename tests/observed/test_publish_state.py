"""The line that says how far publishing is."""

from __future__ import annotations

from allotment.observed.publish_state import PublishState, format_headline
from allotment.observed.retention import RetainedTenant, RetentionReason

RETAINED = {
    name: RetainedTenant(name, RetentionReason.BRAKE, "2026-01-01T00:00:00Z") for name in ("a", "b", "c", "d", "e", "f")
}


def test_the_line_names_five_tenants_and_five_clusters() -> None:
    state = PublishState("c" * 40, 0, "", retained_tenants=RETAINED, retained_clusters=tuple("uvwxyz"))
    assert format_headline(state, "main") == (
        "published is cccccccccccc, 6 clusters retained: u, v, w, x, y …;"
        " 6 tenants retained: a (Brake), b (Brake), c (Brake), d (Brake), e (Brake) …"
    )


def test_a_tenant_sees_no_reason_of_another() -> None:
    state = PublishState("c" * 40, 0, "", retained_tenants=RETAINED)
    assert format_headline(state, "main", "f") == "published is cccccccccccc, 6 tenants retained: f (Brake)"
    assert format_headline(state, "main", "z") == "published is cccccccccccc, 6 tenants retained"


def test_the_line_counts_the_tenants_that_the_record_leaves_out() -> None:
    state = PublishState("c" * 40, 0, "", retained_tenants=RETAINED, omitted_tenants=28_465)
    assert "28,471 tenants retained: a (Brake)" in format_headline(state, "main")
