"""Draws the long scenarios of a run of the end-to-end tests, and records when each scenario passed last.

A long scenario is a module that takes minutes. `--scenarios drawn` runs the one that the ID of the commit draws, so that many
pushes run all of them. It draws from those that have not passed since a change of a folder in WATCHED, if there are any. A run with
all of them would exceed the time of a push, so `make e2e-all` runs them by hand.
"""

from __future__ import annotations

import datetime
import json
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.controlplane.programs import CACHE

PROJECT = Path(__file__).resolve().parents[2]
SCENARIOS: Mapping[str, str] = {
    "abuse": "tests/e2e/test_abuse.py",
    "faults": "tests/e2e/test_faults.py",
    "nightmare": "tests/e2e/node/cloud/test_nightmare.py",
    "rollout": "tests/e2e/reported/test_rollout.py",
}
WATCHED = tuple(
    f"renderers/allotment/{folder}" for folder in ("isolation", "lifecycle", "manifests", "services/publish")
)
FULL_RUN = (
    PROJECT / "tests/controlplane/full_run.json"
)  # `make e2e-all` writes it: the commit and day of the last full run
LAST_PASSES = CACHE / "scenarios.json"  # of this machine, by scenario


class Draw(NamedTuple):
    """The scenarios of a run, and the reason for them."""

    scenarios: frozenset[str]
    reason: str


def draw_scenarios(commit: str, outdated: Collection[str]) -> Draw:
    """Return the scenario that a commit draws. `outdated` are those that have not passed since a change of WATCHED."""
    candidates = sorted(outdated or SCENARIOS)
    name = candidates[int(commit, 16) % len(candidates)]
    reason = f" of {', '.join(candidates)}, which have not passed since a change" if outdated else ""
    return Draw(frozenset({name}), f"commit {commit[:8]} draws {name}{reason}")


def describe(draw: Draw, outcomes: Mapping[str, bool], last_passes: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return a line about each scenario: whether it passed in this run, or when it passed last."""
    lines = [f"scenarios: {draw.reason}"]
    for name in sorted(SCENARIOS):
        if name in outcomes:
            lines.append(f"scenario {name}: {'passed' if outcomes[name] else 'failed'}")
        elif last := last_passes.get(name):
            lines.append(f"scenario {name}: did not run; passed last on {last['day']} at {last['commit'][:8]}")
        else:
            lines.append(f"scenario {name}: did not run; no pass is recorded")
    return lines


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--scenarios",
        choices=("drawn", "all"),
        help="run the long scenarios that the commit draws, or all, and record which passed",
    )


def pytest_configure(config: pytest.Config) -> None:
    run = ScenarioRun(config)
    config.pluginmanager.register(run, "scenario-run")
    if config.getoption("scenarios") == "drawn":
        _ = run.draw  # before a pass is recorded, so that the last lines name the same draw as the workers


class ScenarioRun:
    """What a run knows about its scenarios: the draw, and the outcome of each scenario that ran."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._outcomes: dict[str, bool] = {}
        self._draw: Draw | None = None

    @property
    def draw(self) -> Draw:
        if self._draw is None:
            is_drawn = self._config.getoption("scenarios") == "drawn"
            self._draw = (
                draw_scenarios(_git("rev-parse", "HEAD"), _list_outdated())
                if is_drawn
                else Draw(frozenset(SCENARIOS), "all are requested")
            )
        return self._draw

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect the tests of the scenarios that are not drawn."""
        if config.getoption("scenarios") != "drawn":
            return
        omitted = [item for item in items if _scenario(item.nodeid) not in {None, *self.draw.scenarios}]
        if omitted:
            items[:] = [item for item in items if _scenario(item.nodeid) in {None, *self.draw.scenarios}]
            config.hook.pytest_deselected(items=omitted)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if (name := _scenario(report.nodeid)) and (report.when == "call" or report.failed):
            self._outcomes[name] = self._outcomes.get(name, True) and report.passed

    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int) -> None:
        """Print a line about each scenario, and record those that passed. A run without the option is for a part of them."""
        if self._config.getoption("scenarios") is None:
            return
        last_passes = _read_last_passes()
        terminalreporter.section("scenarios")
        for line in describe(self.draw, self._outcomes, last_passes):
            terminalreporter.write_line(line)
        now = {"commit": _git("rev-parse", "HEAD"), "day": datetime.datetime.now(datetime.UTC).date().isoformat()}
        passes = {name: now for name, is_passed in self._outcomes.items() if is_passed}
        LAST_PASSES.parent.mkdir(parents=True, exist_ok=True)
        LAST_PASSES.write_text(json.dumps(_read(LAST_PASSES) | passes, indent=2) + "\n", encoding="utf-8")
        if exitstatus == 0 and passes.keys() == SCENARIOS.keys():
            FULL_RUN.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")


def _scenario(nodeid: str) -> str | None:
    """Return the scenario that a test belongs to, or None."""
    path = nodeid.partition("::")[0]
    return next((name for name, module in SCENARIOS.items() if module == path), None)


def _read_last_passes() -> dict[str, Any]:
    """Return the last pass of each scenario on this machine, or else in the last full run."""
    return dict.fromkeys(SCENARIOS, _read(FULL_RUN)) | _read(LAST_PASSES)


def _list_outdated() -> list[str]:
    """Return the scenarios with a change of WATCHED since their last pass, or with a last pass at a commit that the clone lacks."""
    commits = {name: each["commit"] for name, each in _read_last_passes().items()}
    command = ["git", "-C", str(PROJECT), "diff", "--quiet"]
    return [
        name
        for name, commit in commits.items()
        if subprocess.run([*command, commit, "HEAD", "--", *WATCHED], stderr=subprocess.DEVNULL, check=False).returncode
    ]


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(PROJECT), *words], capture_output=True, text=True, check=True
    ).stdout.strip()


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
