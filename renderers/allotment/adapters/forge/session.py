"""Sends the requests to the API of a forge: within limits of time and size, with one token, and to no other host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from allotment.adapters.forge.forge import ForgeUnreachable, Token, error_from_response
from allotment.adapters.request_limit import LIMITED_POOLS, RequestTooSlow, limit_request
from allotment.problems import escape_unprintable

MAX_SECONDS = 120.0  # of a request with its response; a forge that sends a byte now and then never times out otherwise
MAX_BYTES = 64 << 20  # of a body after its decompression; the largest usual answer, with a long diff, has some MB
# exceptions of code that reads an answer with another shape than the documentation of the forge describes
_MALFORMED = (AssertionError, AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
_PORTS = {"http": 80, "https": 443}


class ForgeSession(requests.Session):
    """A session that sends `token` in the header Authorization, and that raises ForgeError for an error status.

    Without a token, the caller adds the header and checks the status. No file such as ~/.netrc replaces the token. A
    redirect of a write is an error, because the request would become a GET. A redirect to another scheme, host or port is
    an error, because the token would go there. The same holds for a link in an answer, such as that to the next page.
    """

    def __init__(self, token: Token | None = None) -> None:
        super().__init__()
        self._api_origin = ""  # of the first request, which the caller addresses to the API of the forge
        self.auth = _Authorization(token)
        if token is not None:
            self.hooks["response"].append(raise_for_response)
        for scheme in _PORTS:
            self.mount(f"{scheme}://", _LimitedAdapter())

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Return the response with its body. Raises ForgeUnreachable if it takes longer than MAX_SECONDS, or for another host."""
        here = _origin(str(request.url))
        self._api_origin = self._api_origin or here
        if here != self._api_origin:
            raise foreign_host_error(here)
        try:
            with limit_request(MAX_SECONDS):
                return super().send(request, **options)
        except RequestTooSlow:
            raise ForgeUnreachable(f"the forge doesn't answer within {MAX_SECONDS:.0f} s") from None

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Return the URL of a redirect to follow; None for another response. Raises ForgeUnreachable for other redirects."""
        target = super().get_redirect_target(resp)
        if target is None:
            return None
        method, here = str(resp.request.method), str(resp.url)
        elsewhere = _origin(requests.compat.urljoin(here, target))
        if method not in ("GET", "HEAD") or elsewhere != _origin(here):
            raise ForgeUnreachable(
                f"the forge redirects {method} requests to {elsewhere}: correct spec.git.url of the platform, or --forge-api"
            )
        return target

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        """Keep the token: a redirect that is followed stays at the host. The method of the library would read ~/.netrc."""


def foreign_host_error(origin: str) -> ForgeUnreachable:
    """Return the error for a link of the forge to a scheme, host and port that its API doesn't have."""
    return ForgeUnreachable(
        f"the forge names {origin} for a request to its API: correct its external URL, spec.git.url of the platform, or"
        " --forge-api"
    )


class _Authorization(requests.auth.AuthBase):
    """Adds the token to requests. As an object, it also keeps `requests` from reading ~/.netrc."""

    def __init__(self, token: Token | None) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token is not None:
            request.headers["Authorization"] = f"token {self._token.secret}"
        return request


def _origin(url: str) -> str:
    """Return the scheme, the host and the port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port or _PORTS.get(parts.scheme)}"


class _LimitedBody:
    """The body of a response, up to MAX_BYTES."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def stream(self, *arguments: Any, **options: Any) -> Iterator[bytes]:
        """Yield the chunks of the body. Raises ForgeUnreachable if they are too large together."""
        size = 0
        for chunk in self._raw.stream(*arguments, **options):
            size += len(chunk)
            if size > MAX_BYTES:
                raise ForgeUnreachable(f"the forge answers with more than {MAX_BYTES >> 20} MiB")
            yield chunk


class _LimitedAdapter(HTTPAdapter):
    """Uses connections that the time limit can end, and limits the size of bodies."""

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        response = super().build_response(req, resp)
        response.raw = _LimitedBody(response.raw)
        return response

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = LIMITED_POOLS

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **options)
        manager.pool_classes_by_scheme = LIMITED_POOLS
        return manager


def raise_for_response(answer: requests.Response, *_: object, **__: object) -> None:
    """Raise a ForgeError if a response has an error status. `requests` calls this hook for each response."""
    if answer.status_code >= 400:
        try:
            message = str(answer.json().get("message", ""))
        except (ValueError, AttributeError):
            message = answer.reason or ""
        raise error_from_response(answer.status_code, answer.headers, message)


@contextmanager
def translate_request_errors() -> Iterator[None]:
    """Raise ForgeUnreachable for connection errors and malformed responses, with a message that contains no token."""
    try:
        yield
    except requests.RequestException as error:
        raise ForgeUnreachable(f"the forge doesn't answer: {type(error).__name__}") from None
    except _MALFORMED as error:
        raise ForgeUnreachable(
            f"the forge's answer makes no sense: {type(error).__name__} {escape_unprintable(str(error), 80)}"
        ) from None
