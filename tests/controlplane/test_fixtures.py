"""Without its programs an end-to-end test says so and what to run; in CI that is a failure."""

from __future__ import annotations

import pytest
from _pytest.outcomes import Failed, Skipped

from tests.controlplane import programs
from tests.controlplane.fixtures import needs


@pytest.mark.parametrize(("environment", "outcome"), [(None, Skipped), ("true", Failed)])
def test_missing_programs(
    environment: str | None, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "missing", lambda tools: [tool for tool in tools if tool == "etcd"])
    if environment is None:
        monkeypatch.delenv("CI", raising=False)
    else:
        monkeypatch.setenv("CI", environment)
    with pytest.raises(outcome, match="run make controlplane: etcd"):
        needs("etcd", "kwok")
