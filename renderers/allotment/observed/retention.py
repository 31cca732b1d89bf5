"""Why a tenant stays at its last published manifests."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from allotment.problems import Problem


class RetentionReason(StrEnum):
    """The cause that retains a tenant."""

    INVALID = "Invalid"
    REFUSED_TRANSITION = "RefusedTransition"
    ISOLATION_GATE = "IsolationGate"
    TIME_BUDGET = "TimeBudget"
    BRAKE = "Brake"
    INVALID_CLUSTER = "InvalidCluster"
    PROGRAM_ERROR = "ProgramError"


WAYS_OUT = {
    RetentionReason.INVALID: "run `allot validate`, and correct the declarations",
    RetentionReason.REFUSED_TRANSITION: "restore the declaration, or follow its message",
    RetentionReason.ISOLATION_GATE: "report the message",
    RetentionReason.TIME_BUDGET: "declare less, or split it into several tenants",
    RetentionReason.BRAKE: "restore the declarations, or have the deletion approved",
    RetentionReason.INVALID_CLUSTER: "the platform team corrects the cluster",
    RetentionReason.PROGRAM_ERROR: "report the trace in the log",
}


class Retention(NamedTuple):
    """Why a publish retains a tenant: the reason, and the problems that say it in detail."""

    reason: RetentionReason
    problems: list[Problem]
