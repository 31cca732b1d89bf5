"""Reviews a pull request: plans it by what the forge says of it, and says so there, in one comment and one commit
status."""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from allotment.adapters.forge.forge import (
    Comment,
    Forbidden,
    Forge,
    Missing,
    PullRequest,
    State,
    Status,
    Unreachable,
)
from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.remote import Costly, Remote, Unsound
from allotment.adapters.git.rendered import look
from allotment.adapters.processes import Limit
from allotment.adapters.source import Source
from allotment.declared.people import Account, same_login
from allotment.pipeline.declared import cluster_names, publisher_key
from allotment.pipeline.pulls import apart
from allotment.pipeline.pulls.apart import MOST_VERDICT, TOO_MUCH, Asked, PlanBudget, Planned, Spent
from allotment.pipeline.pulls.authority import forge_teams
from allotment.problems import AllotmentError, IsolationBroken, Refused
from allotment.reports.markdown import code
from allotment.reports.plan.comment import MARKER
from allotment.rules.ownership import Review

CONTEXT = "allot/plan"
WAITS = "waits to be planned"
WITHDRAWN = "no open pull request is of this commit"
MOST_STATUSES = 500  # of a commit, before one that stays: GitHub takes a thousand
WORN = f"{MOST_STATUSES} verdicts of this commit are enough: push another one"
MOST_ALIKE = 10  # pull requests of one commit
_AT = re.compile(r"^Plan of `[0-9a-f]+` merged into `[0-9a-f]+`", re.MULTILINE)


class Origin(NamedTuple):
    """Where pull requests come from: our clone, the repository on the forge, and the branch that counts.

    `head` returns the ref of a pull request's head.
    """

    root: Path
    source: Remote
    branch: str
    forge: Forge
    head: Callable[[int], str]


class Verdict(NamedTuple):
    """How a review ended: `state` is that of the commit status, empty where nothing was said, and `words` say why."""

    state: State | Literal[""]
    words: str


_Outcome = tuple[State, str, str]  # state, words and comment


def by_head(requests: Iterable[PullRequest]) -> list[list[PullRequest]]:
    """Return pull requests together that are of one commit, in their order."""
    groups: dict[str, list[PullRequest]] = {}
    for pull_request in requests:
        groups.setdefault(pull_request.head, []).append(pull_request)
    return list(groups.values())


def _worst(outcomes: Mapping[int, _Outcome], alike: Collection[PullRequest]) -> tuple[State, str]:
    """Return a commit's status: the worst verdict on its pull requests, one or more."""
    bad = {number: outcome for number, outcome in sorted(outcomes.items()) if outcome[0] != "success"}
    number, (state, words, _) = next(iter((bad or outcomes).items()))
    prefix = _several(alike)
    return state, f"{prefix}#{number}: {words}" if bad and prefix else f"{prefix}{words}"


def _several(alike: Collection[PullRequest]) -> str:
    """Return how the status of a commit of several pull requests begins, which says of which; empty for one."""
    if len(alike) == 1:
        return ""
    shown = ", ".join(f"#{pull_request.number}" for pull_request in sorted(alike)[:MOST_ALIKE])
    return f"{shown}{' and more' if len(alike) > MOST_ALIKE else ''} are of this commit; "


class Reviews:
    """Reviews pull requests of one repository, one after another."""

    def __init__(
        self,
        place: Origin,
        today: Callable[[Source], datetime.date],
        budget: PlanBudget,
        cache: Path | None,
        processes: int | None = None,
        rendered: Remote | None = None,
    ) -> None:
        self._place = place
        self._rendered = rendered or place.source
        self._today = today
        self._budget = budget
        self._cache = cache
        self._processes = processes

    def review(
        self, number: int, head: str | None = None, open_requests: Iterable[PullRequest] | None = None
    ) -> Verdict:
        """Plan a pull request, and say so on the forge. `head` is the commit that an event named: another one is
        newer news.

        A commit status is of a commit, so whatever is open of that commit is planned along, and the worst counts; each
        comment says its own. `open_requests` are those that are open, if they are known.
        Raises ForgeError; what wasn't said then is said by the next review.
        """
        forge = self._place.forge
        request = forge.pull_request(number)
        if wrong := self._discarded(request, head or request.head):
            return Verdict("", wrong)
        candidates = forge.open_pull_requests(self._place.branch) if open_requests is None else open_requests
        alike = [
            request,
            *(
                pull_request
                for pull_request in candidates
                if pull_request.head == request.head and pull_request.number != number
            ),
        ]
        self.announce(alike)
        try:
            refs = self._refs(request)
            if refs is None:
                return Verdict("", "its head moved on meanwhile")
            self._bring(request, *refs)
            self._bring_published(refs[0])
            outcomes = self._all_planned(alike, *refs)
        except Unsound as error:
            outcomes = {pull_request.number: _unplanned(error) for pull_request in alike}
        except Costly as error:
            outcomes = {pull_request.number: _spent(error) for pull_request in alike}
        current_requests: dict[int, PullRequest] = {}
        for each in outcomes:
            now = forge.pull_request(each)
            if not (wrong := self._discarded(now, request.head)):
                current_requests[each] = now
            elif each == number:
                return Verdict("", wrong)
        if self._refs(request) != refs:
            return Verdict("", "its base or head moved on meanwhile")
        still = [
            pull_request
            for pull_request in alike
            if pull_request.number in current_requests or pull_request.number not in outcomes
        ]
        state, words = _worst({each: outcomes[each] for each in current_requests}, still)
        state, words = say_status(forge, request.head, CONTEXT, state, words, min(still).url)
        for each, now in current_requests.items():
            if not now.locked:
                keep(forge, each, MARKER, outcomes[each][2])
        return Verdict(state, words)

    def announce(self, alike: Collection[PullRequest]) -> None:
        """Say on the commit of some open pull requests that it waits, unless what is said there is of all of them:
        whoever opens another one of a commit that was found good may not merge it by that."""
        forge, first = self._place.forge, min(alike)
        newest = next((status for status in forge.statuses(first.head) if status.context == CONTEXT), None)
        if (
            newest is None
            or (newest.author, newest.url) != (forge.identity(), first.url)
            or not newest.description.startswith(_several(alike))
        ):
            say_status(forge, first.head, CONTEXT, "pending", WAITS, first.url)

    def withdraw(self, number: int, head: str) -> None:
        """Take back what was said of a commit that no open pull request is of any more, unless it was merged:
        whoever opens another one of it may not merge that by what was said of this one."""
        request = self._place.forge.pull_request(number)
        is_merged = request.merged and request.head == head
        if not is_merged and self._discarded(request, head):
            say_status(self._place.forge, head, CONTEXT, "pending", WITHDRAWN, request.url)

    def _all_planned(self, alike: list[PullRequest], base: str, head: str) -> dict[int, _Outcome]:
        """Return what is said of the pull requests of one commit, by number: of all, or of the first if they are
        too many. What is too much of one is of all."""
        if len(alike) > MOST_ALIKE:
            words = f"more than {MOST_ALIKE} pull requests are of this commit: close some"
            return {min(alike).number: ("failure", words, _text("This can't be merged", words))}
        outcomes: dict[int, _Outcome] = {}
        for pull_request in alike:
            spent = next((each for each in outcomes.values() if each[1] == TOO_MUCH), None)
            outcomes[pull_request.number] = spent or self._planned(pull_request, base, head)
        return outcomes

    def _discarded(self, request: PullRequest, head: str) -> str:
        """Return why nothing is to be said of a pull request; empty where something is."""
        if not request.is_open:
            return "it is not open"
        if request.base != self._place.branch:
            return f"it is not for {self._place.branch}"
        return "" if request.head == head else "its head moved on"

    def _refs(self, request: PullRequest) -> tuple[str, str] | None:
        """Return the commits of base and head; None where the head isn't the one that the forge named."""
        names = self._names(request)
        commits = self._place.source.look(*names)
        base, head = (commits.get(name) for name in names)
        if base is None:
            raise Refused(f"the source has no branch {self._place.branch}")
        return (base, head) if head is not None and head == request.head else None

    def _names(self, request: PullRequest) -> tuple[str, str]:
        return f"refs/heads/{self._place.branch}", self._place.head(request.number)

    def _bring(self, request: PullRequest, base: str, head: str) -> None:
        """Fetch base and head, each by itself. Raises Unsound and Costly where it is the head that can't be had,
        and Refused where it is the base, which is no fault of a pull request's."""
        source, names = self._place.source, self._names(request)
        if not source.repository.has(base):
            try:
                source.fetch(names[0])
            except Unsound as error:
                raise Refused(str(error)) from None
        try:
            source.fetch_within(Limit(*self._budget), names[1], head)
        except (Unsound, Costly):
            raise
        except Refused as error:
            raise Unreachable(str(error)) from None

    def _bring_published(self, base: str) -> None:
        """Fetch the rendered branches, by which a plan knows what the brake counts. Without them a plan says that it does not
        know."""
        source = CommitSource(self._place.root, base, self._place.source.repository)
        with contextlib.suppress(Refused):
            look(source.repository, self._rendered, cluster_names(source), publisher_key(source))

    def _planned(self, request: PullRequest, base: str, head: str) -> _Outcome:
        """Return state, words and comment. A bug of ours with this one is no reason to let it pass, or to stop the
        others."""
        forge = self._place.forge
        source = CommitSource(self._place.root, base, self._place.source.repository)
        review = Review(request.author, forge.pushers(request.number, head), forge.approvals(request.number, head))
        try:
            reply = plan(
                self._place.root,
                base,
                head,
                day=self._today(source),
                review=review,
                teams=self._members(forge_teams(source)),
                comment_bytes=forge.comment_bytes,
                processes=self._processes,
                budget=self._budget,
                cache=self._cache,
            )
        except Spent as error:
            return _spent(error)
        except (IsolationBroken, Refused) as error:
            return _unplanned(error)
        return ("success" if reply.allowed else "failure"), reply.verdict, reply.text

    def _members(self, teams: list[str]) -> dict[str, frozenset[Account] | None]:
        """Return the members of teams; None for one that this token may not see, which approves nothing then."""
        members_by_team: dict[str, frozenset[Account] | None] = {}
        for team in teams:
            try:
                members_by_team[team] = self._place.forge.members(team)
            except (Missing, Forbidden):
                members_by_team[team] = None
        return members_by_team


def _spent(error: AllotmentError) -> _Outcome:
    """Return state, words and comment of what takes too much."""
    return "failure", TOO_MUCH, _text("This is too large or too slow to be planned: split it", str(error))


def _unplanned(error: AllotmentError) -> tuple[State, str, str]:
    """Return state, words and comment of what can't be planned."""
    words = str(error)
    return "failure", f"can't be planned: {words}", _text("This can't be planned, so it can't be merged", words)


def plan(
    root: Path,
    base: str,
    head: str,
    *,
    day: datetime.date,
    review: Review,
    teams: Mapping[str, Collection[Account] | None],
    comment_bytes: int,
    processes: int | None,
    budget: PlanBudget,
    cache: Path | None,
) -> Planned:
    """Return the plan of a pull request, made by a process of its own. Raises what `apart.plan` does."""
    pushers = None if review.pushers is None else sorted(map(str, review.pushers))
    team_members = {team: None if members is None else sorted(map(str, members)) for team, members in teams.items()}
    plan_request = Asked(
        root=str(root),
        base=base,
        head=head,
        day=day.isoformat(),
        author=str(review.author),
        pushers=pushers,
        approvers=sorted(map(str, review.approvers)),
        teams=team_members,
        comment_bytes=comment_bytes,
        processes=processes,
    )
    return apart.plan(plan_request, budget, cache)


def _text(title: str, words: str) -> str:
    return f"{MARKER}\n\n### ❌ {title}\n\n{code(words, 1000)}\n"


def say_status(forge: Forge, commit: str, context: str, state: State, words: str, url: str) -> tuple[State, str]:
    """Set a commit's status, unless ours is the newest of its context and says so already; return state and words.

    Whoever opens and closes pull requests of one commit may not use up what the forge takes, with a success as the
    last: after so many a plan's state is a failure for good.
    """
    statuses = list(islice((status for status in forge.statuses(commit) if status.context == context), MOST_STATUSES))
    if context == CONTEXT and len(statuses) >= MOST_STATUSES:
        state, words, url = "failure", WORN, statuses[0].url
    wanted = Status(context, state, words[:MOST_VERDICT], forge.identity(), url)
    if not statuses or statuses[0] != wanted:
        forge.set_status(commit, wanted)
    return state, words


def ours(forge: Forge, number: int, marker: str) -> list[Comment]:
    """Return our comments with a marker, the oldest first; the same marker in somebody else's counts for nothing."""
    identity = same_login(forge.identity())
    return [
        comment
        for comment in forge.comments(number)
        if same_login(comment.author) == identity and comment.body.lstrip().startswith(marker)
    ]


def keep(forge: Forge, number: int, marker: str, text: str) -> None:
    """Keep one comment of ours on a pull request, with this text: written, or edited where it says something else.

    A POST that was cut off may have taken effect, and another program of ours may have been as quick: of several
    the oldest stays.
    """
    comments = ours(forge, number, marker)
    if not comments:
        forge.comment(number, text)
        comments = ours(forge, number, marker)
    for comment in comments[1:]:
        forge.remove(number, comment.id)
    if comments and _content(comments[0].body) != _content(text):
        forge.edit(number, comments[0].id, text)


def _content(text: str) -> str:
    """Return what a comment says, whatever commits it was planned of."""
    return _AT.sub("", text.replace("\r\n", "\n")).strip()
