"""`allot request --pr`: the pull request has the reason, and only the platform team may approve it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.adapters.forge.server import World
from tests.conftest import Allot
from tests.support.proposal_forge import world
from tests.support.published import Place, git

__all__ = ["world"]  # a fixture

REASON = ("--reason", "The *film* needs\nmore GPUs")


def test_a_pull_request_has_the_reason(published: Place, world: World, allot: Allot) -> None:
    result = allot("request", "spec", "studio-kite", "h100-one", *REASON, "--pr", "--repo", published.root)
    assert result.code == 0, result
    (pull,) = world.pulls.values()
    assert pull.title == "Allow studio-kite 1 more unit of h100-one in us-1"
    assert pull.body.splitlines()[0] == r"Reason: The \*film\* needs more GPUs"
    assert (
        git(published.remote, "log", "-1", "--format=%b", pull.branch).strip() == "Reason: The *film* needs more GPUs"
    )


@pytest.mark.parametrize(
    "words", [("quota", "studio-kite", "gpus.nvidia-l4=12"), ("spec", "studio-kite", "l4-whole", "--count", "5")]
)
def test_an_admin_of_the_tenant_may_not_approve(words: tuple[str, ...], published: Place, allot: Allot) -> None:
    """The sample's tenants own their resources and members, and neither their quota nor the stocks."""
    assert allot("request", *words, *REASON, "--commit", "--repo", published.root).code == 0
    plan = allot("plan", "--author", "mio-kite", "--repo", published.root)
    assert "tenants/studio-kite/tenant.yaml" in plan.out
    assert "@northlight-example/platform" in plan.out, plan.out
    owners = allot("ownership", "codeowners", "--repo", published.root).out
    patterns = [line.split()[0] for line in owners.splitlines() if "@mio-kite" in line]
    assert patterns == ["/tenants/studio-kite/*/*.yaml", "/tenants/studio-kite/members.yaml"]


def test_without_a_reason_nothing_changes(published: Place, allot: Allot) -> None:
    result = allot("request", "quota", "studio-kite", "instances=30", "--repo", published.root)
    assert (result.code, result.out) == (2, "")
    assert result.err == "allot: --reason has 0 characters: write a sentence of 1 to 2000 for the approver\n"
    assert "quota" not in Path(published.root, "tenants/studio-kite/tenant.yaml").read_text()
