"""The interface of structured logging, as structlog implements it."""

from __future__ import annotations

from typing import Any, Protocol


class Log(Protocol):
    """A structured log: events with key-value pairs."""

    def info(self, event: str, **about: Any) -> Any:
        """Log an event."""
        ...

    def warning(self, event: str, **about: Any) -> Any:
        """Log an event that a person should look at."""
        ...

    def error(self, event: str, **about: Any) -> Any:
        """Log an error."""
        ...
