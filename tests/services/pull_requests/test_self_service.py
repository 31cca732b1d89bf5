"""Whether a change merges without a second person, by the policy of the base."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Allot
from tests.support.published import git
from tests.support.pulled import TEAM, Pull

KITE = "tenants/studio-kite"
WEBUI = f"{KITE}/instances/webui.yaml"
POLICY = """  selfService:
    changes: [Start, Stop, Create, Change, Grow, Snapshot, Delete, Members]
    maxMonthlyCost: "900"
"""
AUTHOR = ("--author", "mio-kite", "--team", TEAM)


@pytest.fixture
def pull(sample: Path, allot: Allot) -> Pull:
    return Pull(sample, allot)


def allow(pull: Pull, policy: str = POLICY) -> None:
    """Let the base declare self service for the tariff plan of the tenant."""
    pull.merge_elsewhere(
        ("platform/platform.yaml", "spec:\n", "spec:\n  selfService: Enabled\n"),
        ("platform/plans/team.yaml", "spec:\n", f"spec:\n{policy}"),
    )


def merge(pull: Pull, *words: str) -> Any:
    """Return what the plan says about self service."""
    return pull.planned(*AUTHOR, *words)["selfService"]


def reasons(pull: Pull, *words: str) -> list[str]:
    texts: list[str] = merge(pull, *words)["reasons"]
    return texts


def test_without_the_switch_a_plan_says_nothing_about_self_service(pull: Pull) -> None:
    pull.edit(WEBUI, "l4-quarter", "l4-half")
    assert merge(pull) is None
    assert "erge by itself" not in pull.plan(*AUTHOR).out


def test_a_stop_merges_by_itself(pull: Pull) -> None:
    allow(pull)
    pull.edit(WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    assert merge(pull) == {"merges": True, "plan": "team", "changes": ["Stop"], "reasons": []}
    assert "Can merge by itself: Stop, allowed by tariff plan team." in pull.plan(*AUTHOR).out
    assert (
        "\nCan merge by itself: Stop, allowed by tariff plan team.\n" in pull.plan(*AUTHOR, "--format", "markdown").out
    )


def test_a_plan_without_an_author_names_the_condition(pull: Pull) -> None:
    allow(pull)
    pull.edit(WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    assert pull.planned()["selfService"] == {"merges": False, "plan": "team", "changes": ["Stop"], "reasons": []}
    condition = (
        "Can merge by itself, if an approver of each file opens the pull request: Stop, allowed by tariff plan team."
    )
    assert condition in pull.plan().out


def test_a_command_says_that_its_change_can_merge_by_itself(pull: Pull, allot: Allot) -> None:
    allow(pull)
    git(pull.root, "checkout", "-q", "main")
    output = allot("instance", "stop", "studio-kite/webui", "--repo", pull.root, "--dry-run").out
    assert "Can merge by itself, if an approver of each file opens the pull request: Stop" in output


def test_an_approval_of_another_person_does_not_lend_its_right(pull: Pull) -> None:
    allow(pull)
    pull.edit(WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    plan = pull.planned("--author", "ada-k", "--approved-by", "mio-kite", "--team", TEAM)
    assert (plan["allowed"], plan["selfService"]["merges"]) == (True, False)
    assert plan["selfService"]["reasons"] == [
        f"another person must approve it: {WEBUI}: 'ada-k' may not change this file: its author, or an approval of its newest"
        " commit, must come from Member of studio-kite: mio-kite"
    ]
    pushed = pull.planned("--author", "mio-kite", "--pushed-by", "ada-k", "--approved-by", "mio-kite", "--team", TEAM)
    assert (pushed["allowed"], pushed["selfService"]["merges"]) == (True, False)


@pytest.mark.parametrize(
    ("path", "old", "new", "expected"),
    [
        (
            "platform/plans/team.yaml",
            "storages: 50",
            "storages: 60",
            "it changes platform/plans/team.yaml, which no tenant changes alone",
        ),
        (
            f"{KITE}/tenant.yaml",
            "plan: team",
            "plan: enterprise",
            f"it changes {KITE}/tenant.yaml, which no tenant changes alone",
        ),
        (
            "tenants/film-house/members.yaml",
            "spec:\n",
            "spec: # a comment\n",
            "it changes the tenants film-house, studio-kite: open a pull request for each",
        ),
        ("README.md", "", "\n", "it changes README.md, which no tenant changes alone"),
    ],
)
def test_everything_else_waits(pull: Pull, path: str, old: str, new: str, expected: str) -> None:
    allow(pull)
    pull.edit(WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    if (pull.root / path).exists():
        pull.edit(path, old, new)
    else:
        pull.write(path, new)
    assert expected in reasons(pull)


def test_a_pull_request_does_not_grant_itself_self_service(pull: Pull) -> None:
    pull.merge_elsewhere(("platform/platform.yaml", "spec:\n", "spec:\n  selfService: Enabled\n"))
    pull.edit("platform/plans/team.yaml", "spec:\n", f"spec:\n{POLICY}")
    pull.edit(WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    assert reasons(pull)[:2] == [
        "it can't be merged",
        "it changes platform/plans/team.yaml, which no tenant changes alone",
    ]
    assert "tariff plan team has no selfService" in reasons(pull)


def test_only_the_listed_changes_merge(pull: Pull) -> None:
    allow(pull, "  selfService:\n    changes: [Start]\n")
    pull.edit(WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    assert reasons(pull) == ["tariff plan team does not list Stop in selfService.changes"]
    assert "Waits for a merge by a person: tariff plan team does not list Stop in selfService.changes." in pull.plan(
        *AUTHOR
    ).out.replace("\n", " ")


def test_a_cost_above_the_limit_waits(pull: Pull) -> None:
    allow(pull, '  selfService:\n    changes: [Create]\n    maxMonthlyCost: "1.00"\n')
    pull.copy(WEBUI, f"{KITE}/instances/another.yaml")
    (reason,) = reasons(pull)
    assert reason.startswith("it adds ")
    assert reason.endswith(" EUR/month, and tariff plan team allows 1.00 (selfService.maxMonthlyCost)")


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (f"{KITE}/storages/outputs.yaml", "spec:\n", "spec:\n  sharedWith: [{tenant: uni-lab}]\n"),
        (f"{KITE}/storages/outputs.yaml", "exposure: Members", "exposure: Public"),
    ],
)
def test_access_of_other_people_is_a_change_of_its_own(pull: Pull, path: str, old: str, new: str) -> None:
    allow(pull)
    pull.merge_elsewhere(("platform/plans/team.yaml", "    exposure:\n", "    exposure:\n      - Public\n"))
    pull.edit(path, old, new)
    assert reasons(pull) == ["tariff plan team does not list Access in selfService.changes"]


def test_a_listed_access_of_other_people_merges(pull: Pull) -> None:
    allow(pull, "  selfService:\n    changes: [Change, Access]\n")
    pull.edit(f"{KITE}/storages/outputs.yaml", "spec:\n", "spec:\n  sharedWith: [{tenant: uni-lab}]\n")
    assert reasons(pull) == []


@pytest.mark.parametrize("narrower", ["", f"    - path: {WEBUI}\n      approvers: [{{tenantRole: Member}}]\n"])
def test_an_excluded_path_waits(pull: Pull, narrower: str) -> None:
    allow(pull)
    pull.merge_elsewhere(
        (
            "platform/ownership.yaml",
            "  paths:\n",
            "  paths:\n    - path: tenants/*/instances/*.yaml\n      selfService: Disabled\n      approvers: [{tenantRole: Member}]\n"
            + narrower,
        )
    )
    pull.edit(WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    assert reasons(pull) == [f"the Ownership excludes {WEBUI} from self service"]


def test_the_mark_of_a_storage_merges_by_itself(pull: Pull) -> None:
    allow(pull)
    storage = f"{KITE}/storages/outputs.yaml"
    pull.edit(storage, "spec:\n", "spec:\n  deletionPolicy: Delete\n")
    assert merge(pull) == {"merges": True, "plan": "team", "changes": ["Delete"], "reasons": []}


def test_without_ownership_nothing_merges_by_itself(pull: Pull) -> None:
    allow(pull)
    pull.merge_elsewhere()
    pull.commit()
    git(pull.root, "checkout", "-q", "main")
    pull.remove("platform/ownership.yaml")
    pull.commit("No owners")
    git(pull.root, "checkout", "-q", "feature")
    pull.edit(WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    assert "another person must approve it: the base declares no Ownership, so nobody owns a file" in reasons(pull)


HOLD = "  hold:\n    reason: It sends spam.\n"


@pytest.mark.parametrize("change", ["release", "delete", "rename", "other reason"])
def test_no_tenant_ends_a_hold(pull: Pull, change: str) -> None:
    allow(pull)
    pull.merge_elsewhere((WEBUI, "spec:\n", f"spec:\n{HOLD}"))
    git(pull.root, "merge", "-q", "main")
    if change == "release":
        pull.edit(WEBUI, HOLD, "")
    elif change == "other reason":
        pull.edit(WEBUI, "It sends spam.", "None.")
    else:
        text = (pull.root / WEBUI).read_text(encoding="utf-8")
        (pull.root / WEBUI).unlink()
        if change == "rename":
            renamed = text.replace(HOLD, "").replace("name: webui\n", "name: webui2\n", 1)
            pull.write(f"{KITE}/instances/webui2.yaml", renamed)
    plan = pull.planned(*AUTHOR)
    assert (plan["allowed"], plan["selfService"]["merges"]) == (False, False)
    assert any("'mio-kite' may not change spec.hold" in problem["message"] for problem in plan["problems"])


def test_the_platform_team_alone_holds_and_releases(pull: Pull) -> None:
    allow(pull)
    admin = ("--author", "pat", "--team", TEAM)
    pull.edit(WEBUI, "spec:\n", f"spec:\n{HOLD}")
    plan = pull.planned(*admin)
    assert (plan["allowed"], plan["selfService"]["merges"]) == (True, False)
    assert f"the Ownership excludes {WEBUI} spec.hold from self service" in plan["selfService"]["reasons"]
    assert "instance studio-kite/webui in eu-1 stops" in pull.plan(*admin).out
    pull.edit(WEBUI, "l4-quarter", "l4-half")
    assert not pull.planned(*admin)["allowed"], "other fields stay the tenant's"


def test_a_comment_beside_a_field_of_the_platform_team_is_the_tenants(pull: Pull) -> None:
    pull.edit(WEBUI, "spec:\n", "spec:\n  # Mine.\n")
    assert not pull.planned("--author", "pat", "--team", TEAM)["allowed"]
    assert pull.planned(*AUTHOR)["allowed"]
