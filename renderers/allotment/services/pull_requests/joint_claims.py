"""Compares the GPU units that open pull requests claim: each fits alone, but they don't all fit together."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from allotment.reports.markdown import code_span

MAX_NAMED_RIVALS = 5  # pull requests that a comment names for each GPU spec


class ClaimedUnits(NamedTuple):
    """The units of a GPU spec that a change claims, and the number of units that are free after it."""

    cluster: str
    gpu_spec: str
    added: int
    free: int


class JointClaims:
    """The claims of the open pull requests, and the rivals that the comment of each pull request names."""

    def __init__(self) -> None:
        self._claims: dict[int, Collection[ClaimedUnits]] = {}
        self._rivals: dict[int, frozenset[int]] = {}

    def record(self, number: int, claims: Collection[ClaimedUnits]) -> tuple[str, frozenset[int]]:
        """Record the claims of a pull request. Return lines for its comment, and the pull requests with outdated comments."""
        self._claims[number] = claims
        lines, rivals = [], set[int]()
        for claim in claims:
            if claim.added > 0 and (same := sorted(self._find_rivals(number, claim))):
                rivals.update(same)
                names = ", ".join(f"#{rival}" for rival in same[:MAX_NAMED_RIVALS])
                more = f" and {len(same) - MAX_NAMED_RIVALS:,} more" if len(same) > MAX_NAMED_RIVALS else ""
                units = f"{code_span(claim.gpu_spec)} in {code_span(claim.cluster)}"
                lines.append(f"\n⚠️ Also claims the last units of {units}: {names}{more}. The first merge gets them.\n")
        earlier_rivals, self._rivals[number] = self._rivals.get(number, frozenset()), frozenset(rivals)
        outdated = {each for each in rivals if number not in self._rivals.get(each, ())}
        outdated |= {each for each in earlier_rivals - rivals if number in self._rivals.get(each, ())}
        return "".join(lines), frozenset(outdated)

    def _find_rivals(self, number: int, claim: ClaimedUnits) -> set[int]:
        """Return the pull requests that claim more units than a claim leaves free."""
        return {
            other
            for other, claims in self._claims.items()
            for each in claims
            if other != number and each[:2] == claim[:2] and each.added > claim.free
        }

    def forget(self, closed: Collection[int]) -> frozenset[int]:
        """Forget closed pull requests. Return the open pull requests with comments about them."""
        for number in closed:
            self._claims.pop(number, None)
            self._rivals.pop(number, None)
        return frozenset(number for number, rivals in self._rivals.items() if rivals.intersection(closed))
