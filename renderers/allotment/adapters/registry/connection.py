"""Sends bounded HTTP requests to a registry. Credentials never follow a redirect to another origin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit

import urllib3

from allotment.adapters.http_connections import create_connection_pool
from allotment.adapters.http_responses import CONNECT_SECONDS, ApiUnavailable, error_text, read_body
from allotment.adapters.request_limit import limit_request
from allotment.problems import OperationRefused, escape_unprintable, quote_value

_READ_SECONDS = 20.0  # the longest time between two packets, and of a whole body
_REQUEST_SECONDS = 60.0  # of a whole request
_MAX_BYTES = 4 << 20  # bytes of a response; the OCI specification limits manifests to 4 MiB
_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1"})


class RegistryError(OperationRefused):
    """A registry gives no digest. The message names the registry, the reason and the remedy."""


class RegistryUnreachable(RegistryError):
    """A registry gives no answer."""


class RegistryResponse(NamedTuple):
    """The complete response to a request: its status, headers and body. A response to HEAD has no body.

    `is_foreign` says that a redirect led to another origin, which gave the response.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_foreign: bool = False


def base_url(host: str) -> str:
    """Return the URL of a registry's host. Only a registry on this machine may use plain HTTP."""
    scheme = "http" if host.partition(":")[0] in _LOCAL_HOSTS else "https"
    return f"{scheme}://{host}"


def send_request(method: str, url: str, headers: Mapping[str, str]) -> RegistryResponse:
    """Return the response to a request, after at most 5 redirects. Raises RegistryError if there is none.

    A redirect must lead to HTTPS, or stay at the same origin. The Authorization header stays at the origin of `url`.
    """
    try:
        origin, target = urlsplit(url), url
    except ValueError:
        raise RegistryError(f"{quote_value(url)} is no valid address: check the registry") from None
    for _ in range(_MAX_REDIRECTS + 1):
        current = _split_url(target, origin)
        same = _origin(current) == _origin(origin)
        sent = {name: value for name, value in headers.items() if same or name.lower() != "authorization"}
        response = _send(method, target, sent)
        location = response.headers.get("Location", "")
        if response.status not in _REDIRECTS or not location:
            return response._replace(is_foreign=not same)
        target = _join_url(target, location, origin)
    raise RegistryError(f"{url} redirects more than {_MAX_REDIRECTS} times: check the name of the registry")


def _join_url(base: str, location: str, origin: SplitResult) -> str:
    try:
        return urljoin(base, location)
    except ValueError:
        raise _refuse_url(location, origin) from None


def _split_url(url: str, origin: SplitResult) -> SplitResult:
    """Return the parts of a URL. Raises RegistryError unless it is HTTPS, or plain HTTP at the origin itself."""
    try:
        parts = urlsplit(url)
        valid = parts.hostname is not None and parts.username is None and (parts.port or 1) > 0
    except ValueError:
        raise _refuse_url(url, origin) from None
    if not valid or (parts.scheme != "https" and _origin(parts) != _origin(origin)):
        raise _refuse_url(url, origin)
    return parts


def _refuse_url(url: str, origin: SplitResult) -> RegistryError:
    return RegistryError(
        f"{escape_unprintable(origin.netloc)} leads to {escape_unprintable(url, 200)}, which is not an https:// address:"
        " use a registry that answers with HTTPS only"
    )


def _origin(parts: SplitResult) -> tuple[str, str]:
    return parts.scheme, parts.netloc.lower()


def _send(method: str, url: str, headers: Mapping[str, str]) -> RegistryResponse:
    host = urlsplit(url).netloc
    try:
        with limit_request(_REQUEST_SECONDS), create_connection_pool(url) as pool:
            answer = pool.request(
                method,
                url,
                headers=dict(headers),
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=_READ_SECONDS),
                preload_content=False,
                retries=False,
                redirect=False,
            )
            return RegistryResponse(answer.status, answer.headers, read_body(answer, _READ_SECONDS, _MAX_BYTES))
    except ApiUnavailable as error:
        reason = str(error)
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        reason = error_text(error)
    raise RegistryUnreachable(
        f"registry {escape_unprintable(host)} gives no answer: {reason}. Check the name and the network, or write the image"
        " with its digest, as NAME@sha256:DIGEST"
    )
