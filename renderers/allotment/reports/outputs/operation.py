"""The JSON output of `allot operation show`."""

from __future__ import annotations

from typing import Literal

import msgspec

from allotment.reports.outputs.output import Output

OperationState = Literal["Folder", "Commit", "Branch", "PullRequest", "Closed", "Merged"]


class OperationOutput(Output, frozen=True, kw_only=True, tag="OperationOutput"):
    """The change that has an operation ID.

    `state` is `Folder` if the change is in uncommitted files, `Commit` if it is only in commits of the folder, `Branch` if
    its branch is at the remote, `PullRequest` if a pull request of the branch is open, `Closed` if the pull request was
    closed without a merge, and `Merged` if the target branch has the change. `commit` is null for uncommitted files.
    `branch` is null if no branch was pushed or if the branch is unknown, and `url` is null without a pull request.
    """

    operation_id: str = msgspec.field(name="operationID")
    state: OperationState
    title: str
    resources: tuple[str, ...]
    commit: str | None = None
    branch: str | None = None
    url: str | None = None
