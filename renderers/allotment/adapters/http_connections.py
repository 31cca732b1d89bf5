"""Creates connections with the certificate authorities and the proxies of this machine, the same for all servers."""

from __future__ import annotations

import os
import ssl
import urllib.request
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import urllib3

from allotment.adapters.request_limit import LIMITED_POOLS
from allotment.problems import OperationRefused, hide_in_errors, quote_value

# Programs differ in these variables. Here, the first variable with a value names the certificate authorities, beside those of
# the system.
CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
_SOCKS = ("socks4", "socks4a", "socks5", "socks5h")


class Proxy(NamedTuple):
    """A proxy: its URL without a login, and the name and password of the login, or None."""

    url: str
    login: tuple[str, str] | None = None

    @property
    def url_with_login(self) -> str:
        """The URL with the name and the password, escaped."""
        scheme, _, host = self.url.partition("://")
        return f"{scheme}://{':'.join(quote(part, safe='') for part in self.login)}@{host}" if self.login else self.url

    @property
    def headers(self) -> dict[str, str]:
        """The headers with which a request logs in at an HTTP proxy."""
        return dict(urllib3.make_headers(proxy_basic_auth=":".join(self.login))) if self.login else {}

    @property
    def is_socks(self) -> bool:
        """Whether the proxy speaks SOCKS."""
        return self.url.partition("://")[0] in _SOCKS


def find_ca_bundle() -> str | None:
    """Return the file of certificate authorities that the environment names; None if no variable names a file.

    Raises OperationRefused if the file of any of the variables can't be read.
    """
    paths = {name: path for name in CA_VARIABLES if (path := os.environ.get(name))}
    for name, path in paths.items():
        if reason := _find_fault(path, _read_time(path)):
            raise OperationRefused(
                f"{name} names the certificate authorities {quote_value(path)}, which can't be read: {reason}. Correct the"
                " variable, or unset it"
            )
    return next(iter(paths.values()), None)


def check_key_log() -> None:
    """Raise OperationRefused if TLS connections can't write their keys to the file of SSLKEYLOGFILE."""
    if path := os.environ.get("SSLKEYLOGFILE"):
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).keylog_filename = path
        except OSError as error:
            raise OperationRefused(
                f"SSLKEYLOGFILE names the file {quote_value(path)}, which can't be written: {error.strerror}. Correct the"
                " variable, or unset it"
            ) from None


def create_tls_context(*, verifies: bool = True) -> ssl.SSLContext:
    """Return a context that trusts the authorities of the system and of `find_ca_bundle`. Raises OperationRefused.

    Later calls return the same context while the file is unchanged, because loading all authorities takes 40 ms.
    """
    check_key_log()
    bundle = find_ca_bundle() if verifies else None
    system = tuple(os.environ.get(name, "") for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
    return _load_context(verifies, bundle, _read_time(bundle or ""), system)


def _read_time(path: str) -> int:
    """Return the time of the last change of a file, in nanoseconds; 0 if there is no such file."""
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return 0


@lru_cache(maxsize=8)
def _find_fault(path: str, changed: int) -> str:
    """Return why a file of authorities can't be read; empty if it can. `changed` is the time of its last change."""
    if os.path.exists(path) and not os.path.isfile(path):
        return "it is no regular file"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except (ssl.SSLError, ValueError):
        return "it has no certificates"
    except OSError as error:
        return error.strerror or "the system refuses it"
    return ""


@lru_cache(maxsize=8)
def _load_context(verifies: bool, bundle: str | None, changed: int, system: tuple[str, ...]) -> ssl.SSLContext:
    """Return a new context. `changed` and `system` are the values on which the result of the system's calls depends."""
    context = ssl.create_default_context()
    if not verifies:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif bundle is not None:
        context.load_verify_locations(bundle)
    return context


def parse_proxy(text: str, source: str) -> Proxy:
    """Return a proxy that `source` names: a URL, or a host and port of an HTTP proxy. Its password is hidden in messages.

    Raises OperationRefused if it is neither.
    """
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        hide_in_errors(parts.password or "", unquote(parts.password or ""))
        is_valid = parts.hostname and parts.port != 0 and parts.scheme in ("http", "https", *_SOCKS)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise OperationRefused(
            f"{source} names no proxy that can be used: write http://HOST:PORT or socks5h://HOST:PORT"
        )
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    login = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    return Proxy(f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}", login)


def require_socks(proxy: Proxy) -> None:
    """Raise OperationRefused if the proxy speaks SOCKS and the package for it is missing."""
    if proxy.is_socks and find_spec("socks") is None:
        raise OperationRefused(
            f"the proxy {proxy.url} speaks SOCKS, which needs the package PySocks: install it, or name an HTTP proxy"
        )


def find_proxy(url: str) -> Proxy | None:
    """Return the proxy that the environment sets for an https:// URL; None without a proxy, and for each other URL.

    Only servers on this machine have http:// URLs. Raises OperationRefused.
    """
    parts, proxies = urlsplit(url), urllib.request.getproxies()
    name = next((name for name in ("https", "all") if proxies.get(name)), None)
    if name is None or parts.scheme != "https" or urllib.request.proxy_bypass(parts.netloc):
        return None
    proxy = parse_proxy(proxies[name], f"{name.upper()}_PROXY")
    require_socks(proxy)
    return proxy


def create_connection_pool(url: str, *, verifies: bool = True) -> urllib3.PoolManager:
    """Return a pool for requests to a URL, through the proxy of the environment. `limit_request` limits its requests.

    Raises OperationRefused if the proxy or the certificate authorities can't be used.
    """
    context, proxy = create_tls_context(verifies=verifies), find_proxy(url)
    if proxy is not None and proxy.is_socks:
        return _create_socks_pool(proxy, context)
    if proxy is not None:
        pool: urllib3.PoolManager = urllib3.ProxyManager(proxy.url, proxy_headers=proxy.headers, ssl_context=context)
    else:
        pool = urllib3.PoolManager(ssl_context=context)
    pool.pool_classes_by_scheme = LIMITED_POOLS
    return pool


def _create_socks_pool(proxy: Proxy, context: ssl.SSLContext) -> urllib3.PoolManager:
    from urllib3.contrib.socks import SOCKSProxyManager

    name, password = proxy.login or (None, None)
    return SOCKSProxyManager(proxy.url, name, password, ssl_context=context)


def build_websocket_options(proxy: Proxy | None) -> dict[str, Any]:
    """Return the options of a WebSocket for a proxy. Raises OperationRefused for a SOCKS proxy."""
    if proxy is None:
        return {}
    if proxy.is_socks:
        raise OperationRefused(f"the proxy {proxy.url} speaks SOCKS, which a WebSocket can't use: name an HTTP proxy")
    parts = urlsplit(proxy.url)
    options: dict[str, Any] = {"http_proxy_host": parts.hostname, "http_proxy_port": parts.port or 80}
    return options | ({"http_proxy_auth": proxy.login} if proxy.login else {})
