"""The recorded usage is read from logs of any length, up to a limit for each tenant."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.published import git
from tests.support.usage_branch import write_usage

from allotment.adapters.git.repository import Repository
from allotment.billing.recorded_use import UsageRecord
from allotment.observed.status import UsageInterval
from allotment.services.billing import usage_reader
from allotment.services.billing.usage_reader import UsageReader


def read(root: Path, count: int) -> UsageRecord:
    """Return the record of a tenant with some ended intervals, and an interval that continues."""
    start = UsageInterval("GPUInstance", "webui", "now", "2026-11-20T00:00:00Z", gpu_spec="l4-quarter")
    ended = [
        UsageInterval(
            "GPUInstance", "webui", f"pod-{number}", f"2026-11-{number + 1:02}T00:00:00Z", gpu_spec="l4-quarter"
        ).end(f"2026-11-{number + 1:02}T01:00:00Z")
        for number in range(count)
    ]
    commit = write_usage(root, "eu-1", "studio-kite", [*ended, start], "2026-11-21T00:00:00Z")
    return UsageReader.at_commits(Repository(root), {"eu-1": None}, {"eu-1": commit}).read({"studio-kite"}, 0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    return tmp_path


def test_a_tenant_has_a_limit_of_intervals(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_reader, "MAX_INTERVALS", 3)
    record = read(root, 3)
    assert (len(record.uses), record.clusters[0].problems) == (4, ())
    record = read(root, 4)
    assert [use.uid for use in record.uses] == ["now"]
    (problem,) = record.clusters[0].tenant_problems["studio-kite"]
    assert problem.startswith("studio-kite has more than 3 intervals: those of usage/studio-kite.jsonl of commit")
