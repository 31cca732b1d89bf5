"""Open pull requests that fit one at a time, but not together."""

from __future__ import annotations

import pytest
from tests.conftest import edit
from tests.support.comment_desk import WEBUI
from tests.support.comment_loop_bed import Bed, bed
from tests.support.published import git

from allotment.services.pull_requests.joint_claims import ClaimedUnits, JointClaims

__all__ = ["bed"]  # a fixture


def claim(added: int, free: int, spec: str = "h100-eight") -> list[ClaimedUnits]:
    return [ClaimedUnits("us-1", spec, added, free)]


def test_two_claims_of_the_last_unit_name_each_other_once() -> None:
    joint = JointClaims()
    assert joint.record(11, claim(1, 0)) == ("", frozenset())
    text, outdated = joint.record(12, claim(1, 0))
    assert (text, outdated) == (
        "\n⚠️ Also claims the last units of `h100-eight` in `us-1`: #11. The first merge gets them.\n",
        {11},
    )
    text, outdated = joint.record(11, claim(1, 0))
    assert ("#12" in text, outdated) == (True, frozenset()), "both comments are up to date now"
    assert joint.record(12, claim(1, 0))[1] == frozenset()


@pytest.mark.parametrize("other", [claim(1, 5), claim(1, 0, "l4-quarter"), claim(0, 0), claim(-1, 0), []], ids=str)
def test_claims_that_fit_together_have_no_rival(other: list[ClaimedUnits]) -> None:
    joint = JointClaims()
    joint.record(11, claim(1, 5))
    assert joint.record(12, other) == ("", frozenset())


def test_a_closed_pull_request_is_no_rival() -> None:
    joint = JointClaims()
    joint.record(11, claim(1, 0))
    joint.record(12, claim(1, 0))
    assert joint.forget([11]) == {12}
    assert joint.record(12, claim(1, 0)) == ("", frozenset())


def test_a_smaller_claim_makes_the_other_comment_outdated() -> None:
    joint = JointClaims()
    joint.record(11, claim(1, 0))
    joint.record(12, claim(1, 0))
    joint.record(11, claim(1, 0))
    assert joint.record(12, []) == ("", {11})
    assert joint.record(11, claim(1, 0)) == ("", frozenset())


def test_many_rivals_are_counted() -> None:
    joint = JointClaims()
    for number in range(1, 9):
        text, _ = joint.record(number, claim(1, 0))
    assert "#1, #2, #3, #4, #5 and 2 more. " in text


def test_the_comments_of_both_pull_requests_name_the_other_until_it_is_closed(bed: Bed) -> None:
    root = bed.desk.place.root
    edit(root, "clusters/eu-1/stocks/l4-quarter.yaml", "count: 40", "count: 18")  # one unit is free
    bed.desk.place.merge()
    instance = (root / WEBUI).read_text(encoding="utf-8").partition("  access:")[0]
    for number in (1, 2):
        git(root, "checkout", "-q", "-B", f"change-{number}", "main")
        path = f"tenants/solo-ada/instances/copy-{number}.yaml"
        (root / path).write_text(instance.replace("name: webui\n", f"name: copy-{number}\n", 1), encoding="utf-8")
        git(root, "add", "-A")
        bed.desk.open(number, "ada-k")
    bed.round()
    bed.round()
    line = "⚠️ Also claims the last units of `l4-quarter` in `eu-1`: #{}. The first merge gets them."
    for number, rival in ((1, 2), (2, 1)):
        assert line.format(rival) in bed.world.bodies(number)[0]
    bed.world.close_pull(1)
    bed.round()
    bed.round()
    assert "The first merge gets them" not in bed.world.bodies(2)[0]
