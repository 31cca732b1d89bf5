"""The values that say where something lies: hosts, URLs, buckets; and by what checksum it is known."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BeforeValidator

from allotment.declared.values import matching, refuse, written_as
from allotment.problems import quoted

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

_HOST = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*")
_HTTPS_URL = re.compile(r"https://[a-z0-9][a-z0-9.-]*(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]*)?")
_HTTP_URL = re.compile(r"https?://[a-z0-9][a-z0-9.-]*(?::[0-9]{1,5})?")
_SOURCE_URL = re.compile(
    r"https://[a-z0-9][a-z0-9.-]*(?::[0-9]{1,5})?/[A-Za-z0-9._~:/@!$&'()*+,;=%-]*(?:\?[A-Za-z0-9._~:/@!$&'()*+,;=%?-]*)?"
)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_PREFIX = re.compile(r"[^\x00-\x1f\x7f]*")
_INSIDE = ("localhost", "local", "internal", "svc", "cluster.local", "home.arpa")  # names of no public host
_SHA256 = re.compile(r"[0-9a-f]{64}")


def _public(value: str) -> str:
    """Refuse what can be seen to lie inside: the preparation looks at what a name resolves to, again and for good."""
    host = value.partition("://")[2].partition("/")[0].partition(":")[0].rstrip(".")
    last = host.rpartition(".")[2]
    inside = "." not in host or any(host == name or host.endswith(f".{name}") for name in _INSIDE)
    if last.isdigit() or last.startswith("0x"):
        from allotment.programs.addresses import is_public

        try:
            inside = not is_public(host)
        except ValueError:
            inside = True
    if inside:
        refuse("address", f"{quoted(host)} is no host of the internet: a preparation reaches nothing else")
    return value


def lies_in(network: IPv4Network | IPv6Network, supernet: IPv4Network | IPv6Network) -> bool:
    """Return whether a range is a part of another, or the same."""
    return network.version == supernet.version and network.subnet_of(supernet)  # type: ignore[arg-type]  # of one version by now


def _cidr(value: object) -> str:
    import ipaddress

    from allotment.programs.ranges import BLOCKS

    if not isinstance(value, str):
        refuse("cidr", f"{quoted(str(value))} is no range: write one such as 198.18.4.0/24, quoted")
    try:
        network = ipaddress.ip_network(value)
    except ValueError as error:
        refuse("cidr", f"{quoted(value)} is no range of addresses: {error}")
    if str(network) != value or "%" in value:
        refuse("cidr", f"{quoted(value)} is written otherwise: write {network}")
    if any(lies_in(ipaddress.ip_network(block.cidr), network) for block in BLOCKS):
        refuse("cidr", f"{quoted(value)} is the whole internet: name the ranges that are yours")
    return value


Cidr = Annotated[str, BeforeValidator(_cidr), written_as("string", None, "203.0.113.0/24", maxLength=43)]
# A label of 63 characters and a dot come before a cluster's domain, in a host name of at most 253.
Domain = Annotated[
    str,
    BeforeValidator(matching(_HOST, "host", "a domain name in lower case, at most 189 characters", 189)),
    written_as("string", _HOST, maxLength=189),
]
HttpsUrl = Annotated[
    str,
    BeforeValidator(matching(_HTTPS_URL, "url", "an https:// address without query, at most 253 characters")),
    written_as("string", _HTTPS_URL, maxLength=253),
]
# Where its keys lie is said by the same address and 22 characters more, of which Envoy Gateway takes 253.
IssuerUrl = Annotated[
    str,
    BeforeValidator(matching(_HTTPS_URL, "url", "an https:// address without query, at most 230 characters", 230)),
    written_as("string", _HTTPS_URL, maxLength=230),
]
HttpUrl = Annotated[
    str,
    BeforeValidator(matching(_HTTP_URL, "url", "an http:// or https:// address of a host and port alone")),
    written_as("string", _HTTP_URL, maxLength=253),
]
SourceUrl = Annotated[
    str,
    AfterValidator(_public),
    BeforeValidator(
        matching(_SOURCE_URL, "url", "an https:// address with a path, percent-encoded, without user or '#'", 2000)
    ),
    written_as("string", _SOURCE_URL, maxLength=2000),
]
S3Endpoint = Annotated[HttpsUrl, AfterValidator(_public)]
BucketName = Annotated[
    str,
    BeforeValidator(matching(_BUCKET, "bucket", "a bucket's name: a-z, 0-9, '-', '.', 3 to 63 characters", 63)),
    written_as("string", _BUCKET, maxLength=63),
]
Region = Annotated[
    str,
    BeforeValidator(matching(_REGION, "region", "a region such as eu-central-1", 40)),
    written_as("string", _REGION, maxLength=40),
]
KeyPrefix = Annotated[
    str,
    BeforeValidator(
        matching(_PREFIX, "prefix", "a prefix of keys such as models/sdxl/, without control characters", 500)
    ),
    written_as("string", _PREFIX, maxLength=500),
]
Sha256 = Annotated[
    str,
    BeforeValidator(matching(_SHA256, "checksum", "a SHA-256 of 64 hexadecimal digits in lower case")),
    written_as("string", _SHA256),
]
