"""Runs the plugin of a kubeconfig, a program that prints credentials, within limits, and reports its errors."""

from __future__ import annotations

import json
import logging
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from kubernetes.config import exec_provider
from kubernetes.config.config_exception import ConfigException

from allotment.problems import escape_unprintable

PLUGIN_SECONDS = 300.0  # a plugin can wait for a login in a browser
_MAX_OUTPUT_BYTES = 1 << 20  # credentials have some KB
_POLL_SECONDS = 0.05  # between two checks of the output


class _Plugin(subprocess.Popen[str]):
    """A plugin of a kubeconfig, within limits of time and output. The `kubernetes` package would wait for it forever."""

    def communicate(self, *_arguments: Any, **_options: Any) -> tuple[str, str]:
        """Return the output and the errors. Raises ConfigException if the plugin exceeds a limit, or prints no credentials."""
        end, fault = time.monotonic() + PLUGIN_SECONDS, ""
        while not fault:
            try:
                output, errors = super().communicate(timeout=_POLL_SECONDS)
            except subprocess.TimeoutExpired as error:
                if len(error.output or b"") > _MAX_OUTPUT_BYTES:
                    fault = f"prints more than {_MAX_OUTPUT_BYTES >> 20} MiB"
                elif time.monotonic() > end:
                    fault = f"doesn't end within {PLUGIN_SECONDS:.0f} s"
            else:
                if self.returncode or _is_credential(output):
                    return output, errors or ""  # on a terminal, the plugin prints its errors itself
                fault = "prints no ExecCredential"
        with self:
            self.kill()
        raise ConfigException(f"the plugin for credentials {fault}")


def _is_credential(text: str) -> bool:
    """Return whether a text is a JSON object with an object in `status`."""
    try:
        content = json.loads(text)
    except ValueError:
        return False
    return isinstance(content, dict) and isinstance(content.get("status"), dict)


vars(exec_provider)["subprocess"] = SimpleNamespace(Popen=_Plugin, PIPE=subprocess.PIPE)


class _ErrorCollector(logging.Handler):
    """Keeps the messages that are logged."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Append the message of a record."""
        self.messages.append(record.getMessage())


@contextmanager
def collect_login_errors() -> Iterator[None]:
    """Raise ConfigException with the errors of the plugin of a kubeconfig.

    The `kubernetes` package only logs them, with the output of the plugin, and continues without credentials.
    """
    collector, root = _ErrorCollector(logging.ERROR), logging.getLogger()
    root.addHandler(collector)
    try:
        yield
    finally:
        root.removeHandler(collector)
    if collector.messages:
        raise ConfigException(f"its login failed: {escape_unprintable('; '.join(collector.messages), 400)}")
