"""The JSON output of the commands that edit declarations."""

from __future__ import annotations

from typing import Literal

import msgspec

from allotment.observed.wait_goals import WaitOutcome
from allotment.reports.outputs.output import Output

ChangeStage = Literal["None", "Folder", "Commit", "Branch", "PullRequest"]
ChangeOutcome = Literal[WaitOutcome, "Closed"]


class ChangedFileOutput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A changed file."""

    path: str
    action: Literal["Added", "Changed", "Removed"]


class ChangeOutput(Output, frozen=True, kw_only=True, tag="ChangeOutput"):
    """A change of declarations.

    `stage` says how far the change went: `None` if nothing had to change, `Folder` if the files in the work tree were
    written, `Commit` if they were committed, `Branch` if a branch was pushed, `PullRequest` if a pull request is open.
    `branch` is null before a push, and `url` is null without a pull request. `resources` names the changed resources.
    `outcome` is null without `--wait`. With `--wait`, it is `Reached` if the merged change took effect, `Closed` if the
    pull request was closed without a merge, `Failed` if a resource needs somebody's action, and `TimedOut` if the time
    was up.
    """

    stage: ChangeStage
    title: str
    files: tuple[ChangedFileOutput, ...]
    resources: tuple[str, ...]
    notes: tuple[str, ...]
    branch: str | None = None
    url: str | None = None
    outcome: ChangeOutcome | None = None
