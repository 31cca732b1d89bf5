"""The effect of a change on an instance's pods, also where no unit is free for it."""

from __future__ import annotations

import pytest
from tests.diagnosis.healthy import offers_of

from allotment.accounts.capacity import Claim
from allotment.changes.effects import RESTARTS, Pods, effect_of, with_allocation
from allotment.changes.plan import Effect, Loss, ThingChange

QUARTER = Claim("eu-1", "l4-quarter", "acme", "web", 1, 1)
WHOLE = QUARTER._replace(gpu_spec="l4-whole")
OTHERS = Claim("eu-1", "l4-whole", "bold", "train", 5, 5)  # all of the shared stock
STOPS = Loss("instance acme/web in eu-1", f"{RESTARTS} what lies on its own disk is lost")


@pytest.mark.parametrize(
    ("before", "after", "is_stopped", "effect"),
    [
        (Pods(1, "a"), Pods(1, "b"), False, "restarts"),
        (Pods(1, "a"), Pods(1, "a"), False, "keeps running"),
        (Pods(1, "a"), Pods(3, "a"), False, "keeps running"),
        (Pods(0, "a"), Pods(1, "b"), False, "starts"),
        (Pods(1, "a"), Pods(0, "b"), False, "stops"),
        (Pods(0, "a"), Pods(0, "b"), True, "stays stopped"),
        (Pods(0, None), Pods(0, "b"), False, "waits"),
        (Pods(1, "a"), Pods(0, None), True, "stops"),
    ],
)
def test_each_change_of_pods_has_its_effect(before: Pods, after: Pods, is_stopped: bool, effect: Effect) -> None:
    assert effect_of(before, after, is_stopped=is_stopped) == effect


def allocated(
    effect: Effect, before: list[Claim], after: list[Claim], *losses: Loss
) -> tuple[tuple[Effect | None, tuple[str, ...]], tuple[str, ...]]:
    """Return the effect and the reasons of one change, and the words of the losses."""
    thing = ThingChange(
        tenant="acme", cluster="eu-1", kind="instance", name="web", action="changed", why=(), effect=effect
    )
    offers = offers_of()
    (resource_change,), lost = with_allocation((thing,), losses, (offers, before), (offers, after))
    return (resource_change.effect, resource_change.why), tuple(loss.words for loss in lost)


def test_an_instance_that_finds_a_unit_restarts() -> None:
    less = OTHERS._replace(units=4, rendered=4)
    assert allocated("restarts", [QUARTER, less], [WHOLE, less], STOPS) == (("restarts", ()), (STOPS.words,))


def test_an_instance_that_finds_no_unit_of_its_new_gpu_spec_keeps_running() -> None:
    assert allocated("restarts", [QUARTER, OTHERS], [WHOLE, OTHERS], STOPS) == (
        ("keeps running", ("it keeps its published unit until 1 unit of l4-whole is free",)),
        (
            "keeps running until 1 unit of l4-whole is free, and is replaced then: it restarts, and what lies on its own disk is"
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
            (f"if it runs as declared before, {STOPS.words}",),
        )
    assert allocated("starts", [full], [QUARTER, full]) == (("starts", ()), ()), "it is new"
