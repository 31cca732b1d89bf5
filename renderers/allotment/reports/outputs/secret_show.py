"""The JSON output of `allot secret show`."""

from __future__ import annotations

from allotment.observed.secret_rows import SecretRowOutput
from allotment.reports.outputs.output import Output


class SecretShowOutput(Output, frozen=True, kw_only=True, tag="SecretShowOutput"):
    """The declared facts of a secret, without its values."""

    secret: SecretRowOutput
