"""Define the types of declared addresses and checksums: hosts, URLs, buckets, network ranges."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BeforeValidator

from allotment.declared.values import json_schema, match_pattern, raise_rule_error
from allotment.problems import quote_value

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

_HOST = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*")
_HTTPS_URL = re.compile(r"https://[a-z0-9][a-z0-9.-]*(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]*)?")
_HTTP_URL = re.compile(r"https?://[a-z0-9][a-z0-9.-]*(?::[0-9]{1,5})?")
_SOURCE_URL = re.compile(
    r"https://[a-z0-9][a-z0-9.-]*(?::[0-9]{1,5})?/[A-Za-z0-9._~:/@!$&'()*+,;=%-]*(?:\?[A-Za-z0-9._~:/@!$&'()*+,;=%?-]*)?"
)
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_PREFIX = re.compile(r"[^\x00-\x1f\x7f]*")
# No public host is in one of these domains.
_INTERNAL_DOMAINS = ("localhost", "local", "internal", "svc", "cluster.local", "home.arpa")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def _refuse_internal(value: str) -> str:
    """Reject a URL with an obviously internal host. The preparation also checks the IP addresses of the host."""
    host = value.partition("://")[2].partition("/")[0].partition(":")[0].rstrip(".")
    last = host.rpartition(".")[2]
    inside = "." not in host or any(host == name or host.endswith(f".{name}") for name in _INTERNAL_DOMAINS)
    if last.isdigit() or last.startswith("0x"):
        from allotment.programs.addresses import is_public

        try:
            inside = not is_public(host)
        except ValueError:
            inside = True
    if inside:
        raise_rule_error(
            "address", f"{quote_value(host)} is not a host on the internet: a preparation can't connect to other hosts"
        )
    return value


_SHORTEST_PREFIXES = {4: 8, 6: 16}  # two halves of the internet would together cover it


def is_subnet(network: IPv4Network | IPv6Network, supernet: IPv4Network | IPv6Network) -> bool:
    """Return whether a range is part of another range or equal to it."""
    # mypy does not know that `subnet_of` is called only for ranges of the same version.
    return network.version == supernet.version and network.subnet_of(supernet)  # type: ignore[arg-type]


def _parse_cidr(value: object) -> str:
    import ipaddress

    from allotment.programs.ranges import BLOCKS

    if not isinstance(value, str):
        raise_rule_error(
            "cidr", f"{quote_value(str(value))} is not a range: write a network such as 198.18.4.0/24, quoted"
        )
    try:
        network = ipaddress.ip_network(value)
    except ValueError as error:
        raise_rule_error("cidr", f"{quote_value(value)} is not a range of addresses: {error}")
    if str(network) != value or "%" in value:
        raise_rule_error("cidr", f"{quote_value(value)} is not in canonical form: write {network}")
    if network.version == 6 and network.network_address.ipv4_mapped is not None and network.prefixlen >= 96:
        raise_rule_error("cidr", f"{quote_value(value)} has IPv4 addresses in the form of IPv6: write them as IPv4")
    if any(is_subnet(ipaddress.ip_network(block.cidr), network) for block in BLOCKS):
        raise_rule_error("cidr", f"{quote_value(value)} covers the whole internet: list only your own ranges")
    return value


def _check_allowed_range(value: str) -> str:
    import ipaddress

    network = ipaddress.ip_network(value)
    if network.prefixlen < (shortest := _SHORTEST_PREFIXES[network.version]):
        raise_rule_error(
            "cidr",
            f"{quote_value(value)} is wider than the network of any organisation: write a prefix of at least {shortest}",
        )
    return value


def _parse_address(value: object) -> str:
    import ipaddress

    if not isinstance(value, str):
        raise_rule_error(
            "address", f"{quote_value(str(value))} is not an IP address: write one such as 169.254.20.10, quoted"
        )
    try:
        address = ipaddress.ip_address(value)
    except ValueError as error:
        raise_rule_error("address", f"{quote_value(value)} is not an IP address: {error}")
    if str(address) != value or "%" in value:
        raise_rule_error(
            "address", f"{quote_value(value)} has another spelling: write {str(address).partition('%')[0]}"
        )
    return value


IpAddress = Annotated[str, BeforeValidator(_parse_address), json_schema("string", None, "169.254.20.10", maxLength=39)]
Cidr = Annotated[str, BeforeValidator(_parse_cidr), json_schema("string", None, "203.0.113.0/24", maxLength=43)]
AllowedCidr = Annotated[Cidr, AfterValidator(_check_allowed_range)]
# A host name has at most 253 characters. It has a DNS label of up to 63 characters, a dot, and the domain of a cluster,
# so the domain has at most 189 characters.
Domain = Annotated[
    str,
    BeforeValidator(match_pattern(_HOST, "host", "a domain name in lower case, at most 189 characters", 189)),
    json_schema("string", _HOST, maxLength=189),
]
Host = Annotated[
    str,
    BeforeValidator(match_pattern(_HOST, "host", "a host name in lower case, at most 253 characters", 253)),
    json_schema("string", _HOST, maxLength=253),
]
HttpsUrl = Annotated[
    str,
    BeforeValidator(match_pattern(_HTTPS_URL, "url", "an https:// address without query, at most 253 characters")),
    json_schema("string", _HTTPS_URL, maxLength=253),
]
# To get the URL of the issuer's keys, Allotment appends 22 characters to the URL of the issuer. Envoy Gateway accepts
# URLs of at most 253 characters.
IssuerUrl = Annotated[
    str,
    BeforeValidator(match_pattern(_HTTPS_URL, "url", "an https:// address without query, at most 230 characters", 230)),
    json_schema("string", _HTTPS_URL, maxLength=230),
]
# RFC 6749, section 3.3, defines the allowed characters.
OidcScope = Annotated[
    str,
    BeforeValidator(
        match_pattern(_SCOPE, "scope", "a scope such as groups, without spaces, quotes and backslashes", 64)
    ),
    json_schema("string", _SCOPE, maxLength=64),
]
HttpUrl = Annotated[
    str,
    BeforeValidator(match_pattern(_HTTP_URL, "url", "an http:// or https:// address of a host and port alone")),
    json_schema("string", _HTTP_URL, maxLength=253),
]
SourceUrl = Annotated[
    str,
    AfterValidator(_refuse_internal),
    BeforeValidator(
        match_pattern(_SOURCE_URL, "url", "an https:// address with a path, percent-encoded, without user or '#'", 2000)
    ),
    json_schema("string", _SOURCE_URL, maxLength=2000),
]
S3Endpoint = Annotated[HttpsUrl, AfterValidator(_refuse_internal)]
BucketName = Annotated[
    str,
    BeforeValidator(match_pattern(_BUCKET, "bucket", "a bucket's name: a-z, 0-9, '-', '.', 3 to 63 characters", 63)),
    json_schema("string", _BUCKET, maxLength=63),
]
Region = Annotated[
    str,
    BeforeValidator(match_pattern(_REGION, "region", "a region such as eu-central-1", 40)),
    json_schema("string", _REGION, maxLength=40),
]
KeyPrefix = Annotated[
    str,
    BeforeValidator(
        match_pattern(_PREFIX, "prefix", "a prefix of keys such as models/sdxl/, without control characters", 500)
    ),
    json_schema("string", _PREFIX, maxLength=500),
]
Sha256 = Annotated[
    str,
    BeforeValidator(match_pattern(_SHA256, "checksum", "a SHA-256 of 64 hexadecimal digits in lower case")),
    json_schema("string", _SHA256),
]
