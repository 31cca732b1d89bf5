"""Provides a log, an HTTP server and an orderly shutdown for the long-running commands."""

from __future__ import annotations

import gc
import ipaddress
import logging
import math
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager
from itertools import combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from allotment.problems import hide_in_errors, hide_secrets

MIN_SECRET_LENGTH = 16
_ALL_HOSTS = {"0.0.0.0", "[::]", "::"}  # noqa: S104  # a name for all addresses of the machine
GIT_SECONDS = 20.0  # the pods of the add-ons have a grace period of 60 seconds

if TYPE_CHECKING:
    from pathlib import Path

    from prometheus_client import CollectorRegistry

    from allotment.adapters.http_server import MetricsSource, WebHandlers
    from allotment.adapters.log import Log
    from allotment.portal.site.page_gate import PageGate


class ServiceContext(NamedTuple):
    """The objects that all parts of a service share.

    `is_leader` returns whether this replica leads. `wake` makes all parts check for work at once.
    """

    registry: CollectorRegistry
    log: Log
    is_leader: Callable[[], bool]
    wake: Callable[[], None]


def parse_address(listen: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"{listen!r} is not in the format HOST:PORT: write for example 127.0.0.1:8080")
    return host, int(port)


def is_loopback(listen: str) -> bool:
    """Return whether only programs of this machine reach the address HOST:PORT. Raises UsageError if it has another form."""
    host = parse_address(listen)[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_secret(file: Path) -> bytes:
    """Return the secret in a file, without white space around it. No error and no log shows it."""
    from allotment.adapters.credential_files import read_credential_file

    secret = read_credential_file(file, accepts_pipe=True).strip()
    if not secret.isascii() or len(secret) < MIN_SECRET_LENGTH:
        raise click.UsageError(f"{file} must contain a secret of at least {MIN_SECRET_LENGTH} ASCII characters")
    hide_in_errors(secret)
    return secret.encode()


def freeze_heap() -> None:
    """Exclude all current objects from garbage collection, because they live as long as the process."""
    gc.collect()
    gc.freeze()


def metrics_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --metrics-listen."""
    return click.option(
        "--metrics-listen",
        metavar="HOST:PORT",
        help="The address of /metrics. Only Prometheus should reach it. Default: the port after that of --listen.",
    )(command)


def parse_addresses(
    listen: str, metrics: str | None, others: Mapping[str, str] = MappingProxyType({})
) -> tuple[tuple[str, int], tuple[str, int]]:
    """Return the host and port of the server for probes, and of the server for metrics.

    `others` are further addresses by their option. Raises UsageError if one of them is used twice.
    """
    host, port = parse_address(listen)
    counted = parse_address(metrics or f"{host}:{port and port + 1}")
    metrics_name = "--metrics-listen" if metrics else "/metrics, by default the port after that of --listen"
    addresses = {
        "--listen": (host, port),
        metrics_name: counted,
        **{option: parse_address(value) for option, value in others.items()},
    }
    for (name, first), (option, second) in combinations(addresses.items(), 2):
        if first[1] == second[1] != 0 and (first[0] == second[0] or {first[0], second[0]} & _ALL_HOSTS):
            way_out = " or --metrics-listen" if name == metrics_name != option else ""
            raise click.UsageError(f"{option} has the port of {name}: name another port with {option}{way_out}")
    return (host, port), counted


class ListenAddresses(NamedTuple):
    """The addresses of the HTTP servers as HOST:PORT. For port 0, PORT is the port that the system chose."""

    listen: str
    metrics: str


@contextmanager
def serve_http(
    listen: str,
    metrics: str | None,
    counts: CollectorRegistry,
    *,
    alive: Callable[[], bool],
    ready: Callable[[], bool],
    on_wake: Callable[[], None],
    secret: bytes = b"",
) -> Iterator[ListenAddresses]:
    """Serve HTTP inside the block. With a `secret`, webhooks must be signed."""
    from allotment.adapters.http_server import MetricsSource, Throttle, WebHandlers
    from allotment.adapters.metrics import CONTENT_TYPE, WebhookMetrics, metrics_text

    answers = WebHandlers(alive, ready, Throttle(on_wake), WebhookMetrics(counts).record_webhook, secret)
    listen_address, counted = parse_addresses(listen, metrics)
    with ExitStack() as stack:
        first = _start_web(stack, listen_address, answers)
        second = _start_web(stack, counted, MetricsSource(CONTENT_TYPE, lambda: metrics_text(counts)))
        yield ListenAddresses(f"{listen_address[0]}:{first}", f"{counted[0]}:{second}")


def _start_web(stack: ExitStack, where: tuple[str, int], answers: WebHandlers | MetricsSource) -> int:
    from allotment.adapters.http_server import WebServer

    try:
        web = WebServer(*where, answers)
    except OSError as error:
        raise click.UsageError(f"{where[0]}:{where[1]} can't be used as listen address: {error.strerror}") from None
    stack.callback(web.close)
    return web.port


@contextmanager
def serve_pages(listen: str, folder: Path, gate: PageGate) -> Iterator[str]:
    """Serve the pages of the portal inside the block, and yield the address as HOST:PORT. `gate` decides about each request."""
    from allotment.adapters.page_server import PageServer
    from allotment.portal.site.page_gate import HEADERS

    host, port = parse_address(listen)
    try:
        server = PageServer(host, port, folder, gate, HEADERS)
    except OSError as error:
        raise click.UsageError(f"{listen} can't be used as listen address: {error.strerror}") from None
    try:
        yield f"{host}:{server.port}"
    finally:
        server.close()


@contextmanager
def stop_on_signals(*stops: Callable[[], None]) -> Iterator[None]:
    """Inside the block, call all `stops` in their order on SIGTERM or SIGINT.

    Git may then finish a transfer within GIT_SECONDS. A transfer that ends earlier changes nothing: each push is atomic.
    """

    from allotment.adapters.processes import end_processes_after

    def stop(*_: object) -> None:
        end_processes_after(GIT_SECONDS)
        for stop_part in stops:
            stop_part()

    previous_handlers = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
        end_processes_after(math.inf)


def _hide_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Return an event of the log without the secrets that this process has read."""
    return {name: hide_secrets(value) if isinstance(value, str) else value for name, value in event.items()}


def create_logger() -> Any:
    """Return the log. It writes to standard output: text on a terminal, otherwise one JSON object per line."""
    import structlog

    logging.getLogger("allotment").addHandler(logging.NullHandler())  # the failure of a turn says more
    renderer: Any = structlog.dev.ConsoleRenderer() if sys.stdout.isatty() else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            _hide_secrets,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(),
    )
    return structlog.get_logger()
