"""Sends the requests to the API of a forge: within limits of time and size, with one token, and to no other host."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from allotment.adapters.forge.forge import ForgeUnreachable, Token, error_from_response
from allotment.adapters.http_connections import create_tls_context, find_ca_bundle, find_proxy, parse_proxy
from allotment.adapters.http_responses import error_text
from allotment.adapters.request_limit import LIMITED_POOLS, RequestTooSlow, limit_request
from allotment.problems import escape_unprintable

MAX_SECONDS = 120.0  # of a request with its response; a forge that sends a byte now and then never times out otherwise
MAX_BYTES = 64 << 20  # of a body after its decompression; the largest usual answer, with a long diff, has some MB
# exceptions of code that reads an answer with another shape than the documentation of the forge describes
_MALFORMED = (AssertionError, AttributeError, KeyError, OverflowError, RuntimeError, TypeError, ValueError)
_REMEDY = "correct spec.git.url of the platform, or --forge-api"
_PORTS = {"http": 80, "https": 443}


class ForgeSession(requests.Session):
    """A session that sends `token` in the header Authorization, and that raises ForgeError for a response without JSON.

    Without a token, the caller adds the header. No file such as ~/.netrc replaces the token. A redirect of a write is an
    error, because the request would become a GET. A redirect to another scheme, host or port is an error, because the token
    would go there. The same holds for a link in an answer, such as that to the next page.
    """

    def __init__(self, token: Token | None = None) -> None:
        super().__init__()
        self._api_origin = ""  # of the first request, which the caller addresses to the API of the forge
        self.auth = _Authorization(token)
        self.verify = find_ca_bundle() or True
        self.trust_env = False  # `find_proxy` and `find_ca_bundle` read the environment, as for each other server
        context = create_tls_context()
        for scheme in _PORTS:
            self.mount(f"{scheme}://", _LimitedAdapter(context))

    def request(self, *arguments: Any, **options: Any) -> requests.Response:
        """Follow redirects. PyGithub follows only some, and takes each other redirect for an empty response."""
        return super().request(*arguments, **{**options, "allow_redirects": True})

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Return the response with its body. Raises ForgeUnreachable if it takes longer than MAX_SECONDS, or for another host."""
        here = _origin(str(request.url))
        self._api_origin = self._api_origin or here
        if here != self._api_origin:
            raise foreign_host_error(here)
        try:
            proxy = find_proxy(str(request.url))
            proxies = {"https": proxy.url_with_login} if proxy else {}
            with limit_request(MAX_SECONDS):
                response = super().send(request, **(options | {"proxies": proxies}))
        except RequestTooSlow:
            raise ForgeUnreachable(
                f"the forge at {here} doesn't answer within {MAX_SECONDS:.0f} s: try again"
            ) from None
        _check_response(response)
        return response

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Return the URL of a redirect to follow; None for another response. Raises ForgeUnreachable for other redirects."""
        target = super().get_redirect_target(resp)
        if target is None:
            return None
        method, here = str(resp.request.method), str(resp.url)
        _ = resp.content  # releases the connection
        new = requests.compat.urljoin(here, target)
        if method not in ("GET", "HEAD") or _origin(new) != _origin(here):
            # The query of the URL may hold a secret.
            elsewhere = escape_unprintable(_origin(new) + urlsplit(new).path, 200)
            raise ForgeUnreachable(
                f"the forge at {_origin(here)} redirects {method} requests to {elsewhere}: {_REMEDY}"
            )
        return target

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        """Keep the token: a redirect that is followed stays at the host. The method of the library would read ~/.netrc."""


def foreign_host_error(origin: str) -> ForgeUnreachable:
    """Return the error for a link of the forge to a scheme, host and port that its API doesn't have."""
    return ForgeUnreachable(
        f"the forge names {origin} for a request to its API: correct its external URL, {_REMEDY.removeprefix('correct ')}"
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

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__()

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        response = super().build_response(req, resp)
        response.raw = _LimitedBody(response.raw)
        return response

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, ssl_context=self._context, **options)
        self.poolmanager.pool_classes_by_scheme = LIMITED_POOLS

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        manager = super().proxy_manager_for(proxy, ssl_context=self._context, **options)
        if not parse_proxy(proxy, "the environment").is_socks:
            manager.pool_classes_by_scheme = LIMITED_POOLS
        return manager


def _check_response(answer: requests.Response) -> None:
    """Raise a ForgeError if a response is an error or no JSON."""
    status, forge = answer.status_code, f"the forge at {_origin(answer.url)}"
    if status >= 400:
        try:
            message = str(answer.json().get("message", ""))
        except (ValueError, AttributeError):
            message = answer.reason or ""
        raise error_from_response(status, answer.headers, message, forge)
    if answer.is_redirect or (status == 204 and answer.request.method != "GET"):
        return
    try:
        value = answer.json()
        # Only requests for a list have the number or the size of a page. Gitea answers null for an empty list.
        is_object = isinstance(value, dict) and "page=" not in urlsplit(answer.url).query
        is_list = isinstance(value, list | None) and answer.request.method == "GET" and None not in (value or ())
        if status >= 300 or not (is_object or is_list):
            raise ValueError
    except (ValueError, RecursionError):
        kind = escape_unprintable(answer.headers.get("Content-Type", "no content type"), 80)
        raise ForgeUnreachable(
            f"{forge} answers {status} with {kind} instead of an object of its API, as a proxy or a page for logins does:"
            f" {_REMEDY}"
        ) from None


def to_text(value: object) -> str:
    """Return a text from an answer; empty for null. Raises TypeError for a value of another type."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} instead of a text")
    return value or ""


@contextmanager
def translate_request_errors(api: str, *library_errors: type[Exception]) -> Iterator[None]:
    """Raise ForgeUnreachable for connection errors and malformed responses, with a message that contains no token.

    `library_errors` are the errors of a forge's library for malformed responses.
    """
    malformed: tuple[type[Exception], ...] = (*_MALFORMED, *library_errors)
    try:
        yield
    except requests.RequestException as error:
        raise ForgeUnreachable(
            f"the forge at {_origin(api)} doesn't answer: {error_text(error)}: try again, or {_REMEDY}"
        ) from None
    except malformed as error:
        reason = f"{type(error).__name__} {escape_unprintable(str(error), 80)}".strip()
        raise ForgeUnreachable(
            f"the answer of the forge at {_origin(api)} makes no sense: {reason}: {_REMEDY}"
        ) from None
