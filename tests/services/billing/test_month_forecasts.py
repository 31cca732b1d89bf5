"""A plan shows the month: the recorded usage so far, the declared resources until its end, and the rest of the budget."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from tests.conftest import Allot
from tests.support.published import git
from tests.support.pulled import Pull
from tests.support.usage_branch import write_usage

from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.remote import tracking_ref
from allotment.branches.platform_settings import read_platform
from allotment.diff.change_plan import ChangePlan
from allotment.observed.status import UsageInterval
from allotment.reports.plan.text import plan_lines
from allotment.services.billing.month_forecasts import (
    find_current_month,
    find_declaration_times,
    find_unobserved_times,
    read_month_record,
)
from allotment.services.pull_requests.change_plan import plan_change

KITE = "tenants/studio-kite"
WEBUI = f"{KITE}/instances/webui.yaml"
NOW = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
FETCHED = "refs/remotes/origin/status/eu-1"


@pytest.fixture
def pull(sample: Path, allot: Allot) -> Pull:
    return Pull(sample, allot)


def ran(name: str, start: str, end: str = "", spec: str = "a100-whole") -> UsageInterval:
    """Return the time in which a pod of studio-kite had a unit, which may continue."""
    interval = UsageInterval("GPUInstance", name, f"{name}-{start}", f"2026-{start}:00Z", gpu_spec=spec)
    return interval.end(f"2026-{end}:00Z") if end else interval


def record(pull: Pull, *usage: UsageInterval, ref: str = FETCHED, now: str = "11-21T11:00") -> str:
    """Put a status branch with this usage of studio-kite into the clone, as `git fetch` does."""
    commit = write_usage(pull.root, "eu-1", "studio-kite", usage, f"2026-{now}:00Z")
    git(pull.root, "update-ref", ref, commit)
    return commit


def plan(pull: Pull, day: str = "2026-11-21") -> ChangePlan:
    pull.commit()
    return plan_change(pull.root, "main", "feature", datetime.date.fromisoformat(day), now=NOW)


def make_expensive(pull: Pull) -> None:
    pull.edit(WEBUI, "l4-quarter", "l4-whole")


def test_the_month_has_the_usage_so_far_and_the_declared_rest(pull: Pull) -> None:
    record(pull, ran("webui", "11-20T12:00", spec="l4-quarter"))
    make_expensive(pull)
    result = plan(pull)
    (forecast,) = result.month_forecasts
    assert (forecast.tenant, forecast.month, forecast.so_far) == ("studio-kite", "2026-11", Decimal("5.04")), "24 hours"
    rest = Decimal(9 * 24 + 11) / 730  # from 13:00 in Berlin until the end of November
    assert forecast.before == pytest.approx(Decimal("5.04") + Decimal("2276.90") * rest, abs=Decimal("0.02"))
    assert forecast.after == pytest.approx(Decimal("5.04") + Decimal("2736.80") * rest, abs=Decimal("0.02"))
    assert (forecast.observed_until, forecast.budget) == ("2026-11-21T11:00:00Z", 4000)
    text = "\n".join(line.text for line in plan_lines(result, diffs=False))
    assert "Cost in 2026-11" in text
    assert "The recorded usage until 2026-11-21T11:00:00Z" in text
    assert result.is_allowed


def test_a_budget_that_denies_refuses_a_change_that_exceeds_it(pull: Pull) -> None:
    record(pull, *(ran(f"train-{number}", "11-01T00:00", "11-21T00:00", spec="l4-whole") for number in range(8)))
    make_expensive(pull)
    result = plan(pull)
    (forecast,) = result.month_forecasts
    assert forecast.so_far == Decimal("3225.60"), "8 × 480 hours at 0.84"
    assert not result.is_allowed
    (problem,) = result.problems
    assert (problem.path, problem.rule) == (f"{KITE}/tenant.yaml", "budget")
    assert problem.message == (
        f"with this change, 2026-11 costs {forecast.after} EUR, but the budget is 4000.00; 3225.60 are spent so far, and the"
        f" declared resources cost {forecast.after - forecast.so_far} until the end of the month: reduce the cost by"
        f" {forecast.after - 4000}, wait for the next month, or ask the platform team for another plan"
    )
    assert result.summary.startswith("can't be merged: 1 problem")


def test_a_change_that_saves_money_passes_over_the_budget(pull: Pull) -> None:
    record(pull, *(ran(f"train-{number}", "11-01T00:00", "11-21T00:00", spec="l4-whole") for number in range(9)))
    pull.edit(WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    result = plan(pull)
    (forecast,) = result.month_forecasts
    assert forecast.after < forecast.before
    assert forecast.is_over_budget
    assert result.is_allowed, result.problems


def test_from_80_percent_a_plan_warns(pull: Pull) -> None:
    record(pull, *(ran(f"train-{number}", "11-01T00:00", "11-21T00:00", spec="l4-whole") for number in range(6)))
    make_expensive(pull)
    result = plan(pull)
    assert result.is_allowed
    assert "⚠ studio-kite uses 81 % of its budget in 2026-11" in result.summary
    styles = {
        line.style for line in plan_lines(result, diffs=False) if "81 %" in line.text and "studio-kite " in line.text
    }
    assert "warn" in styles


def test_a_budget_that_warns_refuses_nothing(pull: Pull) -> None:
    pull.edit("platform/plans/team.yaml", "enforcement: Deny", "enforcement: Warn")
    pull.commit("Only warn")
    git(pull.root, "branch", "-f", "main", "HEAD")
    record(pull, *(ran(f"train-{number}", "11-01T00:00", "11-21T00:00", spec="l4-whole") for number in range(9)))
    make_expensive(pull)
    result = plan(pull)
    assert result.month_forecasts[0].is_over_budget
    assert result.is_allowed, result.problems


def test_without_recorded_usage_the_check_is_named_as_skipped(pull: Pull) -> None:
    make_expensive(pull)
    result = plan(pull)
    assert result.month_forecasts == ()
    assert [words for words in result.skipped_checks if "this month so far" in words]


def test_a_plan_for_another_day_has_no_month(pull: Pull) -> None:
    record(pull, ran("webui", "11-20T12:00"))
    make_expensive(pull)
    result = plan(pull, "2026-11-22")
    assert result.month_forecasts == ()
    assert not [words for words in result.skipped_checks if "this month" in words]


def recorded_cost(result: ChangePlan) -> Decimal:
    (forecast,) = result.month_forecasts
    return forecast.so_far - forecast.unobserved


def test_a_time_that_nobody_observed_has_the_declared_cost(pull: Pull) -> None:
    record(pull, now="11-05T23:00")
    make_expensive(pull)
    result = plan(pull)
    (forecast,) = result.month_forecasts
    hours = 15 * 24 + 13  # from midnight of the 6th until 13:00 of the 21st in Berlin
    declared = Decimal("2276.90") * hours / 730
    assert forecast.so_far == forecast.unobserved == pytest.approx(declared, abs=Decimal("0.02"))
    text = "\n".join(line.text for line in plan_lines(result, diffs=False))
    assert f"{forecast.unobserved} EUR so far are the declared cost of a time that nobody observed" in text


def test_a_use_that_continued_counts_once_in_a_time_that_nobody_observed(pull: Pull) -> None:
    record(pull, ran("webui", "11-01T00:00", spec="l4-quarter"), now="11-05T23:00")
    make_expensive(pull)
    (forecast,) = plan(pull).month_forecasts
    hours = 15 * 24 + 13
    assert forecast.unobserved == pytest.approx(
        (Decimal("2276.90") / 730 - Decimal("0.21")) * hours, abs=Decimal("0.02")
    )


def test_a_silent_reporter_lets_no_change_pass_over_the_budget(pull: Pull) -> None:
    pull.edit("platform/plans/team.yaml", 'perMonth: "4000"', 'perMonth: "2800"')
    pull.commit("Less")
    git(pull.root, "branch", "-f", "main", "HEAD")
    trains = (ran(f"train-{number}", "11-01T00:00", "11-05T23:00", spec="l4-whole") for number in range(9))
    record(pull, *trains, now="11-05T23:00")
    make_expensive(pull)
    result = plan(pull)
    assert [problem.rule for problem in result.problems] == ["budget"]
    assert (
        "of them declared, in a time without observations), and the declared resources cost"
        in result.problems[0].message
    )


def test_a_cluster_that_nobody_ever_observed_counts_since_its_declaration(pull: Pull) -> None:
    record(pull)
    commit = git(pull.root, "rev-parse", "main")
    source = CommitSource(pull.root, commit)
    month = find_current_month(read_platform(source).spec.billing, NOW)
    usage = read_month_record(source.repository, source, {"studio-kite"}, month)
    since = int(git(pull.root, "log", "-1", "--format=%ct", "--", "clusters/us-1"))
    later = month._replace(now=since + 3600, period=month.period._replace(end=max(month.period.end, since + 7200)))
    assert find_unobserved_times(find_declaration_times(source), usage, later)["us-1"] == [(since, since + 3600)]
    assert find_unobserved_times(find_declaration_times(source), usage, month)["eu-1"] == []


def test_the_newest_fetched_status_counts(pull: Pull) -> None:
    make_expensive(pull)
    record(pull, ran("webui", "11-01T00:00", spec="l4-quarter"), now="11-05T00:00")
    assert recorded_cost(plan(pull)) == Decimal("103.32"), "492 hours until now at 0.21"
    by_status = tracking_ref("refs/heads/status/eu-1")
    record(pull, ran("webui", "11-01T00:00", "11-02T00:00", spec="l4-quarter"), ref=by_status, now="11-05T00:01")
    assert recorded_cost(plan(pull)) == Decimal("5.04")


def test_a_status_that_the_declared_key_did_not_sign_does_not_count(pull: Pull) -> None:
    pull.edit(
        "clusters/eu-1/cluster.yaml",
        "spec:\n",
        "spec:\n  reporter:\n    publicKey: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPKSUPBX0gNcGC8tWYJB9JnAjXoBF8xwcj9FuPSjFXj\n",
    )
    pull.commit("Sign")
    git(pull.root, "branch", "-f", "main", "HEAD")
    record(pull, *(ran(f"train-{number}", "11-01T00:00", "11-21T00:00") for number in range(9)))
    make_expensive(pull)
    result = plan(pull)
    assert result.month_forecasts == ()
    assert [words for words in result.skipped_checks if "this month so far" in words]


def test_a_branch_of_origin_is_no_status_if_the_status_is_elsewhere(pull: Pull) -> None:
    record(pull, ran("webui", "11-20T12:00", spec="l4-quarter"))
    pull.edit(
        "platform/platform.yaml", "    branch: main\n", "    branch: main\n    status: https://forge.example/status\n"
    )
    pull.commit("Report elsewhere")
    git(pull.root, "branch", "-f", "main", "HEAD")
    make_expensive(pull)
    assert plan(pull).month_forecasts == ()


def test_a_status_from_the_future_does_not_count(pull: Pull) -> None:
    record(pull, now="11-29T11:00")
    make_expensive(pull)
    result = plan(pull)
    assert result.month_forecasts == ()
    assert [words for words in result.skipped_checks if "no usage of eu-1 in this month" in words]
