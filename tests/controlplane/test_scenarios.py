"""Which long scenarios a run includes, and what it says about those that it omits."""

from __future__ import annotations

from tests.controlplane.scenarios import PROJECT, SCENARIOS, Draw, describe, draw_scenarios

FULL_RUN = "ab" * 20


def test_each_scenario_is_a_module_of_the_end_to_end_tests() -> None:
    assert [module for module in SCENARIOS.values() if not (PROJECT / module).is_file()] == []


def test_consecutive_ids_draw_every_scenario_once() -> None:
    draws = [draw_scenarios(f"{number:040x}", FULL_RUN, is_changed=False) for number in range(len(SCENARIOS))]
    assert sorted(name for draw in draws for name in draw.scenarios) == sorted(SCENARIOS)
    assert draws[0].reason == "commit 00000000 draws abuse"


def test_a_change_of_a_watched_folder_runs_all_scenarios() -> None:
    draw = draw_scenarios("0" * 40, FULL_RUN, is_changed=True)
    assert draw.scenarios == set(SCENARIOS)
    assert draw.reason.endswith("services/publish changed since the last full run at abababab")


def test_a_clone_without_the_last_full_run_runs_all_scenarios() -> None:
    assert draw_scenarios("0" * 40, FULL_RUN, is_changed=None).scenarios == set(SCENARIOS)


def test_a_scenario_that_did_not_run_is_never_reported_as_passed() -> None:
    last_passes = {"faults": {"commit": "c0ffee" * 6, "day": "2026-11-20"}}
    assert describe(Draw(frozenset({"abuse"}), "why"), {"abuse": True, "rollout": False}, last_passes) == [
        "scenarios: why",
        "scenario abuse: passed",
        "scenario faults: did not run; passed last on 2026-11-20 at c0ffeec0",
        "scenario nightmare: did not run; no pass is recorded",
        "scenario rollout: failed",
    ]
