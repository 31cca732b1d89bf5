"""The JSON output of `allot instance open`."""

from __future__ import annotations

from allotment.output_part import Part
from allotment.reports.outputs.output import Output


class PortAddressOutput(Part, frozen=True):
    """The URL of a port, and its exposure: Members or Public."""

    port: str
    url: str
    exposure: str


class SshAddressOutput(Part, frozen=True):
    """The SSH login of an instance. `hostKey` is the public key of the host, or null if it is not declared.

    `fingerprint` is the fingerprint of this key, as `ssh` shows it at the first login.
    """

    command: str
    user: str
    host: str
    port: int
    host_key: str | None
    fingerprint: str | None


class InstanceOutput(Output, frozen=True, kw_only=True, tag="InstanceOutput"):
    """The addresses of an instance. `ssh` is null if the instance has no SSH."""

    tenant: str
    instance: str
    urls: tuple[PortAddressOutput, ...]
    ssh: SshAddressOutput | None
