"""What `allot recover` made, as JSON."""

from __future__ import annotations

from allotment.reports.outputs.output import Output


class RecoverOutput(Output, frozen=True, kw_only=True, tag="RecoverOutput"):
    """The branch with the commit that raises a storage's attempt; `because` is why, `overwrites` what may be lost.

    `pushed` is the repository that has it now; null where it is only here.
    """

    storage: str
    branch: str
    commit: str
    attempt: int
    because: str
    overwrites: str
    pushed: str | None
