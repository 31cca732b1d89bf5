"""What a hostile tenant and a hostile pull request cost the others: no more than their budgets."""

from __future__ import annotations

import datetime
import subprocess
import time
from pathlib import Path

from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.services.check.cpu_budget import DEFAULT_SECONDS
from allotment.services.publish.publisher import Publisher
from allotment.services.publish.release_builder import ReleaseBuilder
from allotment.services.pull_requests import plan_sandbox
from allotment.services.pull_requests.plan_sandbox import PlanBudget, PlanBudgetExceeded, PlanReply, PlanRequest
from tests.bench.generate import write_tenant
from tests.bench.measure import Say
from tests.bench.publishing import git, merge

SLOW = 400  # files that nobody can read, each a third of a second: two minutes without a budget
PLAN_SECONDS = 10.0


def budgets(repo: Path, work: Path, day: datetime.date, say: Say) -> None:
    """Measure, on a repository of Git's that has a remote, after `publishing`."""
    remote = work / "remote.git"
    publisher = Publisher(
        repo, Remote(Repository(repo), str(remote)), ReleaseBuilder(processes=1), lambda _: day, find_tip=lambda: None
    )
    publisher.publish("HEAD")

    def published(theme: str) -> tuple[float, list[str]]:
        write_tenant(repo, 0, theme=theme)
        merge(repo)
        begun = time.perf_counter()
        outcome = publisher.publish("HEAD")
        if [cluster_commit.count_files("M") for cluster_commit in outcome.commits] != [1] or outcome.release is None:
            raise RuntimeError("the change was not published")
        return time.perf_counter() - begun, list(outcome.release.retained_tenants)

    before, _ = published("calm")
    folder = write_tenant(repo, 1).rpartition("/")[0]
    git(repo, "checkout", "-q", "-b", "hostile")
    for n in range(SLOW):
        text = f"apiVersion: allotment.dev/v1alpha1\nkind: GPUInstance\nmetadata:\n  name: bad-{n}\nspec:\n  x: ["
        (repo / folder / f"bad-{n}.yaml").write_text(text + "a,  " * 15_000)
    after, retained = published("beside")
    if len(retained) != 1:
        raise RuntimeError("the hostile tenant was not kept")
    say(
        f"publish of another tenant, beside {SLOW} slow files",
        f"{after:6.2f} s   {after - before:.1f} s more than before ({before:.2f} s); a tenant's share is {DEFAULT_SECONDS:g} s",
    )
    git(repo, "checkout", "-q", "-b", "good", "hostile~")
    write_tenant(repo, 0, theme="good")
    merge(repo)
    base, bad, good = (
        subprocess.run(
            ["git", "-C", str(repo), "rev-parse", name], check=True, capture_output=True, text=True
        ).stdout.strip()
        for name in ("hostile~", "hostile", "good")
    )

    def planned(head: str) -> tuple[float, PlanReply | None]:
        request = PlanRequest(
            root=str(repo),
            base=base,
            head=head,
            day=day.isoformat(),
            author="ada",
            pushers=[],
            approvers=[],
            teams={},
            comment_bytes=60_000,
        )
        begun = time.perf_counter()
        try:
            reply = plan_sandbox.plan_in_sandbox(request, PlanBudget(PLAN_SECONDS), work / "cache")
        except PlanBudgetExceeded:
            reply = None
        return time.perf_counter() - begun, reply

    planned(good)  # the base is known now
    alone, _ = planned(good)
    spent, none = planned(bad)
    second_seconds, reply = planned(good)
    if none is not None or reply is None:
        raise RuntimeError("the budget was not kept")
    say(
        f"verdict of a slow pull request: {plan_sandbox.TOO_LARGE}",
        f"{spent:6.2f} s   its budget is {PLAN_SECONDS:g} s, after what the base takes",
    )
    say(
        "the next one's plan, in its own process",
        f"{second_seconds:6.2f} s   {second_seconds / alone:.2f} of before ({alone:.2f} s)",
    )
