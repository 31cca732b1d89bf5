"""Round after round: looks at the source and the rendered branches, and publishes when anything isn't as it was."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from allotment.adapters.git.objects import TooMuch
from allotment.adapters.git.remote import Remote, Unsound
from allotment.adapters.git.rendered import Unproven, tips
from allotment.adapters.git.trees import MalformedTree
from allotment.adapters.metrics import Metrics
from allotment.pipeline.log import Log
from allotment.pipeline.publish.kept import PlatformInvalid
from allotment.pipeline.publish.known import Known
from allotment.pipeline.publish.publication import Braked, KeyMissing, Outcome, Publisher, Rewound
from allotment.problems import AllotmentError, Refused

AGAIN_SECONDS = 600  # what is on its way out goes on, and an error is told again, at least so often
STALLED_ROUNDS = 20  # a round that takes as long as so many intervals, and at least STALLED_SECONDS, has stalled
STALLED_SECONDS = 600


class _Seen(NamedTuple):
    """What the repositories held when all was well: the source's tip, every ref of ours, what was known of each tenant, and when
    each cluster was looked at that has something on its way out."""

    source: str
    refs: tuple[tuple[str, str | None, str | None], ...]
    known: Mapping[str, Known]
    moments: Mapping[str, str]


class Rounds:
    """Publishes the newest commit of a branch, again and again, until it is stopped. Its methods may be called by others
    than the thread that runs it. `leading` says whether this replica is the one that publishes."""

    def __init__(
        self,
        source: Remote,
        branch: str,
        publisher: Publisher,
        metrics: Metrics,
        log: Log,
        interval: float,
        *,
        leading: Callable[[], bool] = lambda: True,
    ) -> None:
        self._source = source
        self._branch = f"refs/heads/{branch}"
        self._publisher = publisher
        self._metrics = metrics
        self._log = log
        self._interval = interval
        self._leading = leading
        self._distrusted: dict[str, str] = {}
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._begun = time.monotonic()
        self._good = False
        self._seen: _Seen | None = None
        self._due = 0.0
        self._told: tuple[str, float] | None = None

    def run(self) -> None:
        """Go on until `stop` is called; a round that has begun is finished."""
        while not self._stopped.is_set():
            self._wake.clear()
            self._begun = time.monotonic()
            if self._leading():
                self.once()
            else:
                self._good, self._seen = True, None
            self._wake.wait(self._interval)

    def wake(self) -> None:
        """Begin the next round now."""
        self._wake.set()

    def stop(self) -> None:
        """End after the round that runs."""
        self._stopped.set()
        self._wake.set()

    def alive(self) -> bool:
        """Return whether rounds go on."""
        return time.monotonic() - self._begun < max(STALLED_SECONDS, STALLED_ROUNDS * self._interval)

    def ready(self) -> bool:
        """Return whether the last round reached all it needs."""
        return self._good

    def once(self) -> None:
        """Run one round; whatever goes wrong is told and counted, and the next round tries again."""
        try:
            self._round()
            self._good, self._told = True, None
        except PlatformInvalid as error:
            self._fail("platform-invalid", "; ".join(str(one) for one in error.problems), reached=True)
        except Braked as error:
            self._fail("braked", str(error), reached=True)
        except Rewound as error:
            self._fail("rewound", str(error), reached=True)
        except (Unproven, KeyMissing) as error:
            self._fail("unsigned", str(error), reached=True)
        except (MalformedTree, TooMuch, Unsound) as error:
            self._fail("malformed", str(error), reached=True)
        except Refused as error:
            self._fail("unreachable", str(error), reached=False)
        except AllotmentError as error:
            self._fail("refused", str(error), reached=True)
        except Exception:  # a bug of ours in one round is no reason to end
            self._fail("bug", traceback.format_exc(), reached=False)

    def _fail(self, reason: str, words: str, *, reached: bool) -> None:
        self._good, self._seen = reached, None
        self._metrics.failed(reason)
        now = time.monotonic()
        if self._told is None or self._told[0] != words or now - self._told[1] > AGAIN_SECONDS:
            self._told = (words, now)
            self._log.error("nothing published", reason=reason, message=words)

    def _round(self) -> None:
        tip = self._source.fetch(self._branch).get(self._branch)
        if tip is None:
            raise Refused(f"the source has no branch {self._branch}")
        now = time.monotonic()
        if self._seen is not None and now < self._due and self._look(tip) == self._seen:
            return
        begun = time.monotonic()
        outcome = self._publisher.publish(tip)
        self._tell(outcome, time.monotonic() - begun)
        # What was published, not what is there by now: somebody may have been quick.
        refs = tuple((name, commit, commit) for name, commit in sorted(outcome.tips.items()))
        statuses = self._publisher.statuses
        self._seen, self._due = _Seen(tip, refs, statuses.known, statuses.moments()), now + AGAIN_SECONDS
        self._publisher.repository.tidy()

    def _look(self, tip: str) -> _Seen:
        clusters = self._publisher.clusters(tip)
        refs = tips(self._publisher.remote, clusters)
        known = self._publisher.known(tip)
        self._distrust()
        return _Seen(tip, refs, known, self._publisher.statuses.moments())

    def _distrust(self) -> None:
        """Say of each cluster, once, what is wrong with its status."""
        troubles = self._publisher.statuses.troubles
        for cluster, words in troubles.items():
            if self._distrusted.get(cluster) != words:
                self._log.warning("status in doubt", cluster=cluster, message=words)
        self._distrusted = dict(troubles)

    @property
    def where(self) -> str:
        """Where the source is, as it may be shown."""
        return str(self._source)

    def _tell(self, outcome: Outcome, seconds: float) -> None:
        self._distrust()
        assembly = outcome.assembly
        if assembly is None:
            self._log.info("newer source is published", source=outcome.source, newer=outcome.newer)
            return
        for one in outcome.committed:
            counts = {word: one.count(letter) for word, letter in (("added", "A"), ("changed", "M"), ("removed", "D"))}
            self._log.info("published", cluster=one.cluster, commit=one.commit, source=outcome.source, **counts)
            if one.replaced:
                self._log.warning("foreign commit replaced", cluster=one.cluster, commit=one.replaced)
        told: list[tuple[Callable[..., Any], str, dict[str, Any]]] = [
            *(
                (self._log.warning, "tenant kept", {"tenant": tenant, "problems": [str(one) for one in problems]})
                for tenant, problems in assembly.kept.items()
            ),
            *((self._log.warning, "instance waits", {"message": words}) for words in assembly.waiting),
            *((self._log.info, "leaving", {"message": words}) for words in assembly.leaving),
            *((self._log.info, "preparation waits", {"message": words}) for words in assembly.held),
            *((self._log.warning, "units held", {"message": words}) for words in assembly.holding),
            *((self._log.warning, "published all the same", {"message": str(one)}) for one in assembly.problems),
        ]
        if outcome.committed or self._seen is None or self._seen.source != outcome.source:
            for say, event, about in told:
                say(event, **about)
        self._metrics.published(
            seconds,
            time.time(),
            outcome.source,
            outcome.tips,
            [one.cluster for one in outcome.committed],
            [one.cluster for one in outcome.committed if one.replaced],
            assembly.rendered,
            assembly.kept,
            len(assembly.waiting),
        )
