"""A repository of declarations with a change on a branch of its own, for tests of plans and comments."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from allotment.services.pull_requests import plan_sandbox
from allotment.services.pull_requests.plan_sandbox import PlanBudget, PlanReply, PlanRequest
from tests.conftest import DAY, Allot, Result, checked, copy, edit
from tests.support.published import git

AUTHOR = ("-c", "user.name=Eve", "-c", "user.email=eve@northlight.example")
TEAM = "@northlight-example/platform=pat"


class Pull:
    """A clone whose branch `main` is the base, and `feature` the change."""

    def __init__(self, root: Path, allot: Allot) -> None:
        self.root = root
        self._allot = allot
        git(root, "init", "-q", "-b", "main")
        self.commit("Begin")
        git(root, "checkout", "-q", "-b", "feature")

    def commit(self, text: str = "Change") -> str:
        """Commit what the folder holds; return the commit."""
        git(self.root, "add", "-A")
        git(self.root, *AUTHOR, "commit", "-q", "--allow-empty", "-m", text)
        return git(self.root, "rev-parse", "HEAD")

    def merge_elsewhere(self, *changes: tuple[str, str, str]) -> str:
        """Change the base meanwhile: (path, old text, new text); return its commit."""
        self.commit()
        git(self.root, "checkout", "-q", "main")
        for path, old, new in changes:
            edit(self.root, path, old, new)
        commit = self.commit("Meanwhile")
        git(self.root, "checkout", "-q", "feature")
        return commit

    def edit(self, path: str, old: str, new: str) -> None:
        edit(self.root, path, old, new)

    def copy(self, path: str, target: str) -> None:
        copy(self.root, path, target)

    def write(self, path: str, text: str | bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)

    def link(self, path: str, target: str) -> None:
        os.symlink(target, self.root / path)

    def remove(self, path: str) -> None:
        file = self.root / path
        if file.is_dir():
            shutil.rmtree(file)
        else:
            file.unlink()

    def plan(self, *words: object) -> Result:
        """Commit what there is, and plan it."""
        self.commit()
        return self._allot("plan", "--repo", self.root, "--base", "main", "--head", "feature", "--as-of", DAY, *words)

    def planned(self, *words: object) -> dict[str, Any]:
        """Return the plan as its JSON says it."""
        result = self.plan("--format", "json", *words)
        plan: dict[str, Any] = checked("plan", result.out)
        assert plan["allowed"] == (result.code == 0)
        return plan

    def problems(self, *words: object) -> list[str]:
        """Return what is wrong with it, a line each."""
        problems = self.planned(*words)["problems"]
        return [
            f"{problem['path']}:{problem['line']}:{problem['column']}: {problem['field']}: {problem['message']} [{problem['rule']}]"
            for problem in problems
            if problem["severity"] == "error"
        ]

    def by(self, author: str, *approvers: str) -> list[str]:
        """Return what is wrong with it as somebody's change."""
        more = [word for approver in approvers for word in ("--approved-by", approver)]
        return self.problems("--author", author, "--team", TEAM, *more)


def plan_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pull requests be planned in this process, which knows the sample already. What the process of a plan does is tested
    in test_plan_sandbox.py."""

    def planned(request: PlanRequest, budget: PlanBudget, cache: Path | None) -> PlanReply:
        with monkeypatch.context() as patch:
            if cache is not None:
                patch.setenv("XDG_CACHE_HOME", str(cache))
            answer = plan_sandbox._handle_request(
                PlanRequest(**json.loads(json.dumps(request._asdict()))), lambda: None
            )
        return plan_sandbox._parse_reply(plan_sandbox._READY + json.dumps(answer).encode(), 0, io.BytesIO())

    monkeypatch.setattr(plan_sandbox, "_run_process", planned)
