"""The effect of a change on an instance's pods, also where no unit is free for it."""

from __future__ import annotations

import pytest
from tests.diagnosis.healthy import offers_of

from allotment.capacity.units import UnitClaim
from allotment.diff.change_plan import Effect, LossOutput, ResourceChange
from allotment.diff.pod_effects import RESTART_PREFIX, PodSet, predict_effect, with_allocation

QUARTER = UnitClaim("eu-1", "l4-quarter", "acme", "web", 1, 1)
WHOLE = QUARTER._replace(gpu_spec="l4-whole")
OTHERS = UnitClaim("eu-1", "l4-whole", "bold", "train", 5, 5)  # all of the shared stock
STOPS = LossOutput("instance acme/web in eu-1", f"{RESTART_PREFIX} everything on its own disk is lost")


@pytest.mark.parametrize(
    ("before", "after", "is_stopped", "effect"),
    [
        (PodSet(1, "a"), PodSet(1, "b"), False, "restarts"),
        (PodSet(1, "a"), PodSet(1, "a"), False, "keeps running"),
        (PodSet(1, "a"), PodSet(3, "a"), False, "keeps running"),
        (PodSet(0, "a"), PodSet(1, "b"), False, "starts"),
        (PodSet(1, "a"), PodSet(0, "b"), False, "stops"),
        (PodSet(0, "a"), PodSet(0, "b"), True, "stays stopped"),
        (PodSet(0, None), PodSet(0, "b"), False, "waits"),
        (PodSet(1, "a"), PodSet(0, None), True, "stops"),
    ],
)
def test_each_change_of_pods_has_its_effect(before: PodSet, after: PodSet, is_stopped: bool, effect: Effect) -> None:
    assert predict_effect(before, after, is_stopped=is_stopped) == effect


def allocated(
    effect: Effect, before: list[UnitClaim], after: list[UnitClaim], *losses: LossOutput
) -> tuple[tuple[Effect | None, tuple[str, ...]], tuple[str, ...]]:
    """Return the effect and the reasons of one change, and the words of the losses."""
    original_change = ResourceChange(
        tenant="acme", cluster="eu-1", kind="instance", name="web", action="changed", causes=(), effect=effect
    )
    catalog = offers_of()
    (resource_change,), lost = with_allocation((original_change,), losses, (catalog, before), (catalog, after))
    return (resource_change.effect, resource_change.causes), tuple(loss.message for loss in lost)


def test_an_instance_that_finds_a_unit_restarts() -> None:
    less = OTHERS._replace(units=4, rendered=4)
    assert allocated("restarts", [QUARTER, less], [WHOLE, less], STOPS) == (("restarts", ()), (STOPS.message,))


def test_an_instance_that_finds_no_unit_of_its_new_gpu_spec_keeps_running() -> None:
    assert allocated("restarts", [QUARTER, OTHERS], [WHOLE, OTHERS], STOPS) == (
        ("keeps running", ("it keeps its published unit until 1 unit of l4-whole is free",)),
        (
            "keeps running until 1 unit of l4-whole is free, and is replaced then: it restarts, and everything on its own disk is"
            " lost",
        ),
    )


def test_a_new_instance_without_a_free_unit_waits() -> None:
    assert allocated("starts", [OTHERS], [WHOLE, OTHERS]) == (
        ("waits", ("it waits until 1 unit of l4-whole is free",)),
        (),
    )


@pytest.mark.parametrize("holder", ["aaa", "bold"])
def test_the_effect_is_unknown_where_the_base_claims_more_units_than_there_are(holder: str) -> None:
    """A change of GPUSpec that was merged before may still wait: then the instance runs on other units, and restarts later."""
    full = OTHERS._replace(tenant=holder)
    for after in (WHOLE, WHOLE._replace(gpu_spec="l4-half"), QUARTER):
        assert allocated("restarts", [WHOLE, full], [after, full], STOPS) == (
            (None, ()),
            ("is replaced if it runs at present: it restarts, and everything on its own disk is lost",),
        )
    assert allocated("starts", [full], [QUARTER, full]) == (("starts", ()), ()), "it is new"
