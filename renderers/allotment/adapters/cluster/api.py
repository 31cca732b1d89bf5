"""Accesses an API server: finds its address, renews the credentials, sends requests, and derives the server's time."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlencode, urlsplit

import urllib3
from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError
from yaml import YAMLError

from allotment.adapters.foreign_programs import without_forge_token
from allotment.adapters.header_values import can_be_in_header
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


_CONFIG_ERRORS = (ConfigException, OSError, AttributeError, KeyError, TypeError, YAMLError)


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

        def load() -> client.Configuration:
            configuration = client.Configuration()
            try:
                if kubeconfig is None and context is None and Path(TOKEN_FILE).exists():
                    config.load_incluster_config(client_configuration=configuration)
                else:
                    file = None if kubeconfig is None else str(kubeconfig)
                    with without_forge_token(), _collect_login_errors():
                        config.load_kube_config(file, context, client_configuration=configuration)
                _connection_pool(configuration)
            except (*_CONFIG_ERRORS, ImportError, ValueError, HTTPError) as error:
                where = "the usual kubeconfig" if kubeconfig is None else str(kubeconfig)
                # An error of YAML repeats a part of the file, which may be a token.
                reason = "it is no YAML" if isinstance(error, YAMLError) else error
                raise OperationRefused(f"{where} leads to no API server: {reason}") from None
            _strip_tokens(configuration)
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
        with self._lock:
            pool, configuration = self._pool, self._configuration
        try:
            headers = {"Accept": accept, **_authorization_header(configuration)}
            answer: urllib3.BaseHTTPResponse = pool.request(
                "GET",
                f"{configuration.host}{path}",
                fields=dict(query),
                headers=headers,
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
                **_build_proxy_options(configuration),
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


def _build_proxy_options(configuration: client.Configuration) -> dict[str, Any]:
    """Return the options of a WebSocket for the proxy that a kubeconfig names."""
    if not configuration.proxy:
        return {}
    proxy = urlsplit(configuration.proxy)
    options: dict[str, Any] = {"http_proxy_host": proxy.hostname, "http_proxy_port": proxy.port}
    if proxy.username:
        options["http_proxy_auth"] = (unquote(proxy.username), unquote(proxy.password or ""))
    return options


class _ErrorCollector(logging.Handler):
    """Keeps the messages that are logged."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Append the message of a record."""
        self.messages.append(record.getMessage())


@contextmanager
def _collect_login_errors() -> Iterator[None]:
    """Raise ConfigException with the errors of the login program of a kubeconfig.

    The `kubernetes` package only logs them, with the output of the program, and continues without credentials.
    """
    collector, root = _ErrorCollector(logging.ERROR), logging.getLogger()
    root.addHandler(collector)
    try:
        yield
    finally:
        root.removeHandler(collector)
    if collector.messages:
        raise ConfigException(f"its login failed: {escape_unprintable('; '.join(collector.messages), 400)}")


def _connection_pool(configuration: client.Configuration) -> Any:
    return client.ApiClient(configuration).rest_client.pool_manager


def _error_text(error: Exception) -> str:
    return "there are no credentials for it" if isinstance(error, ConfigException) else error_text(error)


def _strip_tokens(configuration: client.Configuration) -> None:
    """Remove white space around the token, now and whenever it is read again, and hide the token in messages.

    A file that `echo` wrote ends with a newline, and kubectl strips it. Without this, the HTTP library would refuse the
    header with an error that contains the token. Raises OperationRefused for a token that no header can contain.
    """
    read_again = configuration.refresh_api_key_hook

    def strip(changed: client.Configuration) -> None:
        if read_again is not None:
            with without_forge_token():
                read_again(changed)
        for name, value in changed.api_key.items():
            changed.api_key[name] = str(value).strip()
            token = changed.api_key[name].removeprefix("Bearer ").strip()
            if not can_be_in_header(token):
                raise OperationRefused(
                    "the token for the API server has a character that a header can't have: write it again"
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
    try:
        contexts, _ = config.list_kube_config_contexts(None if kubeconfig is None else str(kubeconfig))
    except _CONFIG_ERRORS:
        return []
    return [str(context["name"]) for context in contexts]


def _parse_retry_after(retry_after: str, now: float) -> float:
    """Return the seconds to wait according to a Retry-After header, which contains seconds or a date."""
    if retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 7:
        return float(retry_after)
    moment = parse_http_date(retry_after)
    return max(0.0, moment - now) if moment is not None else 0.0
