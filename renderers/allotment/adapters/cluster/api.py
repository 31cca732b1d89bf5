"""Accesses an API server: finds its address, renews the credentials, sends requests, and derives the server's time."""

from __future__ import annotations

import json
import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import urllib3
from kubernetes import client, config
from kubernetes.client.rest import should_bypass_proxies
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError
from yaml import YAMLError

from allotment.adapters.cluster.login_plugin import collect_login_errors
from allotment.adapters.credential_files import load_yaml, read_if_exists
from allotment.adapters.foreign_programs import without_forge_token
from allotment.adapters.header_values import can_be_in_header
from allotment.adapters.http_connections import (
    Proxy,
    build_websocket_options,
    check_key_log,
    find_ca_bundle,
    parse_proxy,
    require_socks,
)
from allotment.adapters.http_responses import (
    CONNECT_SECONDS,
    MOST_BYTES,
    ApiError,
    ApiUnavailable,
    close_response,
    error_text,
    parse_http_date,
    parse_reason,
    read_body,
    read_reason,
)
from allotment.problems import OperationRefused, escape_unprintable, hide_in_errors

if TYPE_CHECKING:
    import websocket
TOKEN_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105  # the path of a token, not a token

# Errors of the `kubernetes` package for a file that is no kubeconfig
_SHAPE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError)
_CONFIG_ERRORS = (*_SHAPE_ERRORS, ConfigException, OSError, ValueError, YAMLError)


class ApiServer:
    """An API server. Its methods may be called from several threads."""

    def __init__(self, load: Callable[[], client.Configuration]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._configuration = load()
        self._pool = _connection_pool(self._configuration)
        self._clock_offset: float | None = None  # seconds from the local monotonic clock to the server's clock
        self._last_time = ""

    @staticmethod
    def from_kubeconfig(kubeconfig: Path | None, context: str | None) -> ApiServer:
        """Return the API server that a context of a kubeconfig names.

        If both arguments are None, return the API server of the cluster in which this process runs. Outside of a
        cluster, return the API server of the default kubeconfig. Raises OperationRefused if no API server is
        configured.
        """

        paths = _find_kubeconfig(kubeconfig)

        def load() -> client.Configuration:
            configuration = client.Configuration()
            try:
                if kubeconfig is None and context is None and Path(TOKEN_FILE).exists():
                    config.load_incluster_config(client_configuration=configuration)
                else:
                    _check_kubeconfig(paths)
                    with without_forge_token(), collect_login_errors():
                        config.load_kube_config(paths, context, client_configuration=configuration)
                _use_environment(configuration)
                _connection_pool(configuration)
                _check_certificates(configuration)
            except (*_CONFIG_ERRORS, ImportError, HTTPError) as error:
                if not any(os.path.lexists(os.path.expanduser(path)) for path in paths.split(os.pathsep)):
                    raise OperationRefused(
                        f"there is no kubeconfig {paths}: name a kubeconfig with --kubeconfig"
                    ) from None
                reason = _config_error_text(error)
                raise OperationRefused(
                    f"{paths} leads to no API server: {reason}: correct it, or name another kubeconfig"
                ) from None
            _strip_tokens(configuration, paths)
            return configuration

        return ApiServer(load)

    @property
    def host(self) -> str:
        """The server's URL."""
        return str(self._configuration.host)

    def client(self) -> client.ApiClient:
        """Return the client of the `kubernetes` package with the current credentials."""
        return client.ApiClient(self._load())

    def open(
        self,
        path: str,
        query: Mapping[str, str],
        accept: str,
        read_seconds: float | None,
        *,
        reads_reason: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        """Return the response to a GET request before its body is read. The caller reads and closes the response.

        `read_seconds` is the longest wait for the next bytes; None waits for as long as the server does. Raises ApiError
        or ApiUnavailable. With `reads_reason`, an ApiError has the API server's reason, and a slow body delays it.
        """
        return self._request(
            "GET", path, {"Accept": accept}, read_seconds, {"fields": dict(query)}, reads_reason=reads_reason
        )

    def send(self, method: str, path: str, body: Mapping[str, Any], content_type: str, seconds: float) -> bytes:
        """Send a JSON body that changes an object, and return the body of the response.

        `seconds` limits the wait as in `read`. Raises ApiError, with the API server's reason, or ApiUnavailable.
        """
        headers = {"Accept": "application/json", "Content-Type": content_type}
        content = {"body": json.dumps(body).encode()}
        answer = self._request(method, path, headers, seconds, content, reads_reason=True)
        return read_body(answer, seconds, MOST_BYTES)

    def _request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        read_seconds: float | None,
        content: Mapping[str, Any],
        *,
        reads_reason: bool,
    ) -> urllib3.BaseHTTPResponse:
        with self._lock:
            pool, configuration = self._pool, self._configuration
        try:
            answer: urllib3.BaseHTTPResponse = pool.request(
                method,
                f"{configuration.host}{path}",
                headers={**headers, **_authorization_header(configuration)},
                **content,
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=read_seconds),
                preload_content=False,
                retries=False,
                redirect=False,
            )
        except (urllib3.exceptions.HTTPError, OSError, ConfigException) as error:
            raise ApiUnavailable(_error_text(error)) from None
        self._record_server_time(answer.headers.get("Date", ""))
        if answer.status != HTTPStatus.OK:
            message = read_reason(answer) if reads_reason else ""
            close_response(answer)
            if answer.status == HTTPStatus.UNAUTHORIZED:
                self._reload_credentials()
            retry_after = _parse_retry_after(answer.headers.get("Retry-After", ""), self._server_seconds())
            raise ApiError(answer.status, retry_after, message)
        return answer

    def connect(self, path: str, query: Sequence[tuple[str, str]], protocol: str) -> websocket.WebSocket:
        """Return a WebSocket with a subprotocol. Raises ApiError, with the API server's reason, or ApiUnavailable."""
        import websocket

        with self._lock:
            configuration = self._configuration
        url = f"ws{configuration.host.removeprefix('http')}{path}?{urlencode(query)}"
        try:
            headers = [f"{name}: {value}" for name, value in _authorization_header(configuration).items()]
            # A redirect would send the credentials to another host, so none is followed.
            connection = websocket.create_connection(
                url,
                CONNECT_SECONDS,
                header=headers,
                subprotocols=[protocol],
                redirect_limit=0,
                sslopt=_build_tls_options(configuration),
                **build_websocket_options(_find_proxy(configuration)),
            )
        except websocket.WebSocketBadStatusException as error:
            raise ApiError(error.status_code, 0, parse_reason(error.resp_body or b"")) from None
        except (websocket.WebSocketException, OSError, ConfigException) as error:
            raise ApiUnavailable(_error_text(error)) from None
        connection.settimeout(None)  # a command may be silent for as long as it likes
        return connection

    def read(self, path: str, query: Mapping[str, str], accept: str, seconds: float, most: int | None = None) -> bytes:
        """Return the whole body of a response. Raises ApiError or ApiUnavailable.

        `seconds` limits the wait for the headers, and separately the time for the body. `most` limits the bytes of the
        body, by default to MOST_BYTES.
        """
        return read_body(self.open(path, query, accept, seconds), seconds, MOST_BYTES if most is None else most)

    def server_time(self) -> str:
        """Return the server's time as RFC 3339 in UTC; empty before the first response. The time never decreases."""
        with self._lock:
            if self._clock_offset is None:
                return ""
            moment = datetime.fromtimestamp(time.monotonic() + self._clock_offset, UTC)
            self._last_time = max(self._last_time, moment.strftime("%Y-%m-%dT%H:%M:%SZ"))
            return self._last_time

    def _server_seconds(self) -> float:
        return time.monotonic() + (self._clock_offset or 0)

    def _record_server_time(self, date: str) -> None:
        moment = parse_http_date(date)
        if moment is not None:
            with self._lock:
                self._clock_offset = moment - time.monotonic()

    def _reload_credentials(self) -> None:
        """Read the credentials again, because they have expired or were replaced."""
        try:
            configuration = self._load()
        except OperationRefused:
            return  # another program may have written only a part of the file; after the next 401, it is read again
        with self._lock:
            self._configuration, self._pool = configuration, _connection_pool(configuration)


def _find_kubeconfig(kubeconfig: Path | None) -> str:
    """Return the path of a kubeconfig. By default, these are the paths in KUBECONFIG, or that in the home folder."""
    return str(kubeconfig or config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION or "~/.kube/config")


def _check_kubeconfig(paths: str) -> None:
    """Raise an error of _CONFIG_ERRORS if a file of a kubeconfig, or a pipe in it in place of a token's file, can't be read."""
    for path in filter(None, map(os.path.expanduser, paths.split(os.pathsep))):
        content = load_yaml(read_if_exists(Path(path)) or "{}")
        for user in content.get("users") or ():
            details = user.get("user")
            token_file = details.get("tokenFile") if isinstance(details, dict) else None
            if token_file and Path(path).parent.joinpath(token_file).is_fifo():
                raise ConfigException(f"{token_file} is a pipe: write the token into a file")


def _check_certificates(configuration: client.Configuration) -> None:
    """Raise ConfigException if certificates or a key of a kubeconfig can't be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    files = configuration.ssl_ca_cert
    try:
        if files:
            context.load_verify_locations(files)
        if configuration.cert_file:
            files = " and ".join(filter(None, (configuration.cert_file, configuration.key_file)))
            context.load_cert_chain(configuration.cert_file, configuration.key_file, password=lambda: "")
    except (OSError, ValueError) as error:
        reason = (
            error.strerror
            if isinstance(error, PermissionError)
            else "no certificates in PEM, or no key without a passphrase"
        )
        raise ConfigException(f"{files} can't be used: {reason}") from None


def _config_error_text(error: Exception) -> str:
    """Return the reason why a kubeconfig can't be used. No reason repeats a part of the file, which may be a token."""
    if isinstance(error, YAMLError):
        return "it is no YAML"
    if isinstance(error, _SHAPE_ERRORS):
        return "it is no kubeconfig"
    # The `kubernetes` package names an entry by its path and its whole content.
    return escape_unprintable(str(error).partition("/{")[0].partition("/[")[0], 400)


def _build_tls_options(configuration: client.Configuration) -> dict[str, Any]:
    """Return the options of a WebSocket for the certificates that a kubeconfig names."""
    if configuration.verify_ssl:
        options: dict[str, Any] = {"cert_reqs": ssl.CERT_REQUIRED}
        if configuration.ssl_ca_cert:
            options["ca_certs"] = configuration.ssl_ca_cert
        if configuration.assert_hostname is not None:
            options["check_hostname"] = configuration.assert_hostname
    else:
        options = {"cert_reqs": ssl.CERT_NONE, "check_hostname": False}
    more = {
        "certfile": configuration.cert_file,
        "keyfile": configuration.key_file,
        "server_hostname": configuration.tls_server_name,
    }
    return options | {name: value for name, value in more.items() if value}


def _find_proxy(configuration: client.Configuration) -> Proxy | None:
    """Return the proxy of the kubeconfig, or else that of the environment; None if `no_proxy` excludes the server."""
    if not configuration.proxy or should_bypass_proxies(configuration.host, configuration.no_proxy or ""):
        return None
    return parse_proxy(configuration.proxy, "proxy-url of the kubeconfig, or HTTPS_PROXY,")


def _use_environment(configuration: client.Configuration) -> None:
    """Trust the certificate authorities of the environment if the kubeconfig names none, and log in at the proxy.

    Raises OperationRefused if the environment or the kubeconfig names a proxy, authorities or a log that can't be used.
    """
    check_key_log()
    if not configuration.ssl_ca_cert and configuration.verify_ssl:
        configuration.ssl_ca_cert = find_ca_bundle()
    if (proxy := _find_proxy(configuration)) is not None:
        require_socks(proxy)
        configuration.proxy = proxy.url_with_login
        configuration.proxy_headers = proxy.headers or None


def _connection_pool(configuration: client.Configuration) -> Any:
    return client.ApiClient(configuration).rest_client.pool_manager


def _error_text(error: Exception) -> str:
    return "there are no credentials for it" if isinstance(error, ConfigException) else error_text(error)


def _strip_tokens(configuration: client.Configuration, paths: str) -> None:
    """Remove white space around the token, now and whenever it is read again, and hide the token in messages.

    A file that `echo` wrote ends with a newline, and kubectl strips it. Without this, the HTTP library would refuse the
    header with an error that contains the token. Raises OperationRefused for a token that no header can contain.
    """
    read_again = configuration.refresh_api_key_hook

    def strip(changed: client.Configuration) -> None:
        if read_again is not None:
            with without_forge_token():
                read_again(changed)  # it also sets the certificates and the proxy of the kubeconfig again
            _use_environment(changed)
        for name, value in changed.api_key.items():
            changed.api_key[name] = str(value).strip()
            token = changed.api_key[name].removeprefix("Bearer").strip()
            if not (token and can_be_in_header(token)):
                raise OperationRefused(
                    f"the token of {paths} is empty or has a character that a header can't have: write it again"
                )
            hide_in_errors(token)
        vars(changed)["refresh_api_key_hook"] = strip  # the package sets its own when it reads a token again

    strip(configuration)


def _authorization_header(configuration: client.Configuration) -> dict[str, str]:
    """Return the Authorization header. The `kubernetes` package reads a token file again after a minute."""
    bearer_token = configuration.auth_settings().get("BearerToken")
    return {"Authorization": str(bearer_token["value"])} if bearer_token and bearer_token["value"] else {}


def list_contexts(kubeconfig: Path | None) -> list[str]:
    """Return the names of the contexts in a kubeconfig, or in the default kubeconfig; none if it can't be read."""
    paths = _find_kubeconfig(kubeconfig)
    try:
        _check_kubeconfig(paths)
        contexts, _ = config.list_kube_config_contexts(paths)
    except (*_CONFIG_ERRORS, OperationRefused):
        return []
    return [str(context["name"]) for context in contexts]


def _parse_retry_after(retry_after: str, now: float) -> float:
    """Return the seconds to wait according to a Retry-After header, which contains seconds or a date."""
    if retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 7:
        return float(retry_after)
    moment = parse_http_date(retry_after)
    return max(0.0, moment - now) if moment is not None else 0.0
