"""The result of one check."""

from __future__ import annotations

from typing import Literal

import msgspec

from allotment.output_part import Part

Severity = Literal["error", "warning", "skipped", "ok"]
SEVERITY_ORDER: tuple[Severity, ...] = ("error", "warning", "skipped", "ok")


class Diagnosis(Part, frozen=True):
    """The result of a check of `object`, such as `Node l4-ts4-1`.

    `advice` is the remedy; it is empty if no remedy is needed. If the severity is `skipped`, the check could not run,
    and `message` is the reason.
    """

    severity: Severity
    topic: str
    subject: str = msgspec.field(name="object")
    message: str
    advice: str


def error(subject: str, message: str, advice: str) -> Diagnosis:
    """Return a diagnosis of a fault that keeps a declared resource from running, or from being safe."""
    return Diagnosis("error", "", subject, message, advice)


def warning(subject: str, message: str, advice: str) -> Diagnosis:
    """Return a diagnosis of a fault that a person should look at, although all declared resources can run."""
    return Diagnosis("warning", "", subject, message, advice)


def skipped(subject: str, message: str, advice: str = "") -> Diagnosis:
    """Return a diagnosis of a check that could not run, with the reason."""
    return Diagnosis("skipped", "", subject, message, advice)


def ok(subject: str, message: str) -> Diagnosis:
    """Return a diagnosis without a problem."""
    return Diagnosis("ok", "", subject, message, "")
