"""Which long scenarios a run includes, and what it says about those that it omits."""

from __future__ import annotations

from tests.controlplane.scenarios import PROJECT, SCENARIOS, Draw, describe, draw_scenarios


def test_each_scenario_is_a_module_of_the_end_to_end_tests() -> None:
    assert [module for module in SCENARIOS.values() if not (PROJECT / module).is_file()] == []


def test_consecutive_ids_draw_every_scenario_once() -> None:
    draws = [draw_scenarios(f"{number:040x}", []) for number in range(len(SCENARIOS))]
    assert sorted(name for draw in draws for name in draw.scenarios) == sorted(SCENARIOS)
    assert draws[0].reason == "commit 00000000 draws abuse"


def test_a_scenario_that_has_not_passed_since_a_change_is_drawn_first() -> None:
    draws = [draw_scenarios(f"{number:040x}", ["rollout", "faults"]) for number in range(2)]
    assert [set(draw.scenarios) for draw in draws] == [{"faults"}, {"rollout"}]
    assert draws[0].reason == "commit 00000000 draws faults of faults, rollout, which have not passed since a change"


def test_a_scenario_that_did_not_run_is_never_reported_as_passed() -> None:
    last_passes = {"faults": {"commit": "c0ffee" * 6, "day": "2026-11-20"}}
    assert describe(Draw(frozenset({"abuse"}), "why"), {"abuse": True, "rollout": False}, last_passes) == [
        "scenarios: why",
        "scenario abuse: passed",
        "scenario faults: did not run; passed last on 2026-11-20 at c0ffeec0",
        "scenario nightmare: did not run; no pass is recorded",
        "scenario rollout: failed",
    ]
