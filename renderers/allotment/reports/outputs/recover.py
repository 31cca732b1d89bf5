"""The JSON output of `allot recover`."""

from __future__ import annotations

from allotment.reports.outputs.output import Output


class RecoverOutput(Output, frozen=True, kw_only=True, tag="RecoverOutput"):
    """The branch with a commit that raises the number of a storage's preparation attempt.

    `because` describes the last attempt. `overwrites` describes the data that the new attempt may overwrite; it is
    empty if the last attempt failed. `pushed` is the repository to which the branch was pushed; it is null if the
    branch exists only in the local repository.
    """

    storage: str
    branch: str
    commit: str
    attempt: int
    because: str
    overwrites: str
    pushed: str | None
