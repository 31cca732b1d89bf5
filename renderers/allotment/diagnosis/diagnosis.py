"""One thing that was looked at, and what is to be said of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from allotment.output_part import Part

Severity = Literal["error", "warning", "skipped", "ok"]
SEVERITY_ORDER: tuple[Severity, ...] = ("error", "warning", "skipped", "ok")


class Diagnosis(Part, frozen=True):
    """The result of a check of `object`, such as `Node l4-ts4-1`. `advice` says what to do, and is empty where nothing is to be done.
    `skipped` is a check that could not run; `message` says why."""

    severity: Severity
    topic: str
    subject: str = msgspec.field(name="object")
    message: str
    advice: str


def error(subject: str, words: str, advice: str) -> Diagnosis:
    """Return what keeps something that is declared from running, or from being safe."""
    return Diagnosis("error", "", subject, words, advice)


def warning(subject: str, words: str, advice: str) -> Diagnosis:
    """Return what somebody should look at, while everything that is declared can run."""
    return Diagnosis("warning", "", subject, words, advice)


def skipped(subject: str, words: str, advice: str = "") -> Diagnosis:
    """Return what wasn't checked, and why."""
    return Diagnosis("skipped", "", subject, words, advice)


def ok(subject: str, words: str) -> Diagnosis:
    """Return what is as it should be."""
    return Diagnosis("ok", "", subject, words, "")
