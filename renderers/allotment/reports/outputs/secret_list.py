"""The JSON output of `allot secret list`."""

from __future__ import annotations

from allotment.observed.secret_rows import SecretRowOutput
from allotment.reports.outputs.output import Output


class SecretListOutput(Output, frozen=True, kw_only=True, tag="SecretListOutput"):
    """The selected secrets in the requested order, without their values."""

    secrets: tuple[SecretRowOutput, ...]
