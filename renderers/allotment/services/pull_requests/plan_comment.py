"""Reviews a pull request: plans it, and reports the plan in one comment and one commit status."""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from allotment.adapters.declaration_source import Source
from allotment.adapters.forge.forge import (
    Comment,
    CommitStatus,
    Forbidden,
    Forge,
    ForgeUnreachable,
    NotFound,
    PullRequest,
    StatusState,
)
from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.remote import FetchTooCostly, Remote, UnsoundObjects
from allotment.adapters.processes import Limit
from allotment.branches.platform_settings import list_cluster_names, read_publisher_key, read_reporter_keys
from allotment.branches.rendered_branches import read_rendered_branches
from allotment.branches.status_branches import read_status_branches
from allotment.declared.people import Account, normalize_login
from allotment.problems import AllotmentError, IsolationBroken, OperationRefused
from allotment.reports.markdown import code_span
from allotment.reports.plan.comment import MARKER
from allotment.rules.ownership import Review
from allotment.services.pull_requests import plan_sandbox
from allotment.services.pull_requests.authorization import list_forge_teams
from allotment.services.pull_requests.joint_claims import ClaimedUnits, JointClaims
from allotment.services.pull_requests.plan_sandbox import (
    MAX_STATUS_LENGTH,
    TOO_LARGE,
    PlanBudget,
    PlanBudgetExceeded,
    PlanReply,
    PlanRequest,
    SelfServiceMerge,
)
from allotment.services.pull_requests.self_service_merge import SELF_SERVICE_CONTEXT, MergeDeclined, SelfServiceMerger

STATUS_CONTEXT = "allot/plan"
WAITING_MESSAGE = "waits for its plan"
RETRACTED_MESSAGE = "no open pull request has this commit"
MAX_STATUSES = 500  # statuses that this program sets for a commit; GitHub accepts a thousand
STATUS_LIMIT_REACHED = f"{MAX_STATUSES} statuses are the limit for a commit: push a new commit"
MAX_ENDING_BYTES = 2_000  # of a comment: what follows the plan
MAX_SAME_HEAD = 10  # if more pull requests have the same head commit, none of them is planned
_DECLINED = "⚠️ It doesn't merge by itself:"
# The reason of a forge can contain a number or an ID of the request. A comment is not written again for such a difference.
_DECLINED_LINE = re.compile(rf"^{_DECLINED}.*$", re.MULTILINE)
_VARIABLE_PART = re.compile(r"[0-9a-fA-F-]{6,}|[0-9]+")
_COMMITS_LINE = re.compile(r"^Plan of `[0-9a-f]+` merged into `[0-9a-f]+`", re.MULTILINE)


MergeOutcome = Literal["", "merged", "declined"]


class PullRequestSource(NamedTuple):
    """The source of pull requests: the local clone, the repository on the forge, and the branch of the declarations.

    `find_head_ref` returns the ref of a pull request's head.
    """

    root: Path
    remote: Remote
    branch: str
    forge: Forge
    find_head_ref: Callable[[int], str]


class ReviewResult(NamedTuple):
    """The result of a review.

    `state` is the state of the commit status; empty if no status was set. `message` is the text of the status, or the
    reason why no status was set. `merge` is the outcome of a merge by self service, empty without an attempt, and `order` describes the
    allowed merge. `outdated` are pull requests with outdated comments, because they claim the same units.
    """

    state: StatusState | Literal[""]
    message: str
    merge: MergeOutcome = ""
    outdated: frozenset[int] = frozenset()
    order: SelfServiceMerge | None = None


class _PlanResult(NamedTuple):
    """The state and the summary of a plan, its comment, the merge if self service merges the change, and the claimed units."""

    state: StatusState
    summary: str
    text: str
    merge: SelfServiceMerge | None = None
    claims: tuple[ClaimedUnits, ...] = ()


def group_by_head(requests: Iterable[PullRequest]) -> list[list[PullRequest]]:
    """Return the pull requests in groups with the same head commit. Their order stays the same."""
    groups: dict[str, list[PullRequest]] = {}
    for pull_request in requests:
        groups.setdefault(pull_request.head, []).append(pull_request)
    return list(groups.values())


def _combine_results(outcomes: Mapping[int, _PlanResult], alike: Collection[PullRequest]) -> tuple[StatusState, str]:
    """Return the status of a commit: the worst verdict on its pull requests."""
    bad = {number: outcome for number, outcome in sorted(outcomes.items()) if outcome.state != "success"}
    number, (state, message, *_) = next(iter((bad or outcomes).items()))
    prefix = _format_shared_prefix(alike)
    return state, f"{prefix}#{number}: {message}" if bad and prefix else f"{prefix}{message}"


def _format_shared_prefix(alike: Collection[PullRequest]) -> str:
    """Return the prefix of a commit's status that lists its pull requests; empty for a single pull request."""
    if len(alike) == 1:
        return ""
    references = ", ".join(f"#{pull_request.number}" for pull_request in sorted(alike)[:MAX_SAME_HEAD])
    return f"{references}{' and more' if len(alike) > MAX_SAME_HEAD else ''} have this commit; "


class PlanCommenter:
    """Reviews the pull requests of one repository in sequence."""

    def __init__(
        self,
        place: PullRequestSource,
        today: Callable[[Source], datetime.date],
        budget: PlanBudget,
        cache: Path | None,
        processes: int | None = None,
        *,
        rendered: Remote | None = None,
        status: Remote | None = None,
        merger: SelfServiceMerger | None = None,
    ) -> None:
        self._pull_source = place
        self._merger = merger
        self.joint_claims = JointClaims()
        self._rendered_remote = rendered or place.remote
        self._status_remote = status or place.remote
        self._find_date = today
        self._budget = budget
        self._cache = cache
        self._processes = processes

    def review(
        self, number: int, head: str | None = None, open_requests: Iterable[PullRequest] | None = None
    ) -> ReviewResult:
        """Plan a pull request, and report the plan on the forge.

        An event caused the review, and `head` is the commit that the event named. If the pull request has another head
        by now, nothing is reported.

        Pull requests with the same head commit share the commit status, so all open pull requests of the commit are
        planned together. The status has the worst verdict, and the comment on each pull request has its own verdict.
        `open_requests` are the open pull requests, if the caller knows them.

        Raises ForgeError. After an error, the next review reports the missing parts.
        """
        forge = self._pull_source.forge
        request = forge.pull_request(number)
        if wrong := self._find_skip_reason(request, head or request.head):
            return ReviewResult("", wrong)
        candidates = forge.open_pull_requests(self._pull_source.branch) if open_requests is None else open_requests
        alike = [
            request,
            *(
                pull_request
                for pull_request in candidates
                if pull_request.head == request.head and pull_request.number != number
            ),
        ]
        self.announce_pending(alike)
        try:
            refs = self._find_commits(request)
            if refs is None:
                return ReviewResult("", "its head has changed")
            self._fetch_commits(request, *refs)
            self._fetch_published_and_reported(refs[0])
            outcomes = self._plan_requests(alike, *refs)
        except UnsoundObjects as error:
            outcomes = {pull_request.number: _build_refused_result(error) for pull_request in alike}
        except FetchTooCostly as error:
            outcomes = {pull_request.number: _build_budget_result(error) for pull_request in alike}
        current_requests: dict[int, PullRequest] = {}
        for each in outcomes:
            now = forge.pull_request(each)
            if not (wrong := self._find_skip_reason(now, request.head)):
                current_requests[each] = now
            elif each == number:
                return ReviewResult("", wrong)
        if self._find_commits(request) != refs:
            return ReviewResult("", "its base or head has changed")
        still = [
            pull_request
            for pull_request in alike
            if pull_request.number in current_requests or pull_request.number not in outcomes
        ]
        state, message = _combine_results({each: outcomes[each] for each in current_requests}, still)
        state, message = set_commit_status(forge, request.head, STATUS_CONTEXT, state, message, min(still).url)
        ending = ""
        merge_outcome: MergeOutcome = ""
        order = outcomes[number].merge
        if self._merger is not None and order is not None and refs is not None and state == "success":
            ending, merge_outcome = self._merge(self._merger, current_requests, number, order, refs)
        outdated: set[int] = set()
        for each, now in current_requests.items():
            joint, others = self.joint_claims.record(each, outcomes[each].claims)
            outdated |= others
            if not now.is_locked:
                upsert_comment(forge, each, MARKER, f"{outcomes[each].text}{joint}{ending}")
        return ReviewResult(state, message, merge_outcome, frozenset(outdated - outcomes.keys()), order)

    def _merge(
        self,
        merger: SelfServiceMerger,
        requests: Mapping[int, PullRequest],
        number: int,
        order: SelfServiceMerge,
        refs: tuple[str, str],
    ) -> tuple[str, MergeOutcome]:
        """Merge a pull request by self service. Return the end of its comment, and the outcome. `refs` are the planned commits.

        Raises ForgeError. The merge may then have taken effect, which the next round sees.
        """
        forge = self._pull_source.forge
        request, description = requests[number], f"{order.tenant}: {', '.join(order.changes)}"

        def is_current() -> bool:
            now = forge.pull_request(number)
            return not self._find_skip_reason(now, request.head) and self._find_commits(now) == refs

        try:
            if len(requests) > 1:
                raise MergeDeclined("other pull requests have the same commit: close them")
            merger.check(request, order)
            set_commit_status(forge, request.head, SELF_SERVICE_CONTEXT, "success", description, request.url)
            if not merger.merge(request, order, is_current):
                return "", ""  # the next round plans it again
        except MergeDeclined as error:
            return f"\n{_DECLINED} {code_span(str(error), MAX_ENDING_BYTES // 4)}\n", "declined"
        return f"\nMerged by self service of tariff plan {code_span(order.plan)}.\n", "merged"

    def announce_pending(self, alike: Collection[PullRequest]) -> None:
        """Set the status of a commit to pending, unless the status already covers all open pull requests (`alike`).

        If the status stayed, a new pull request with this head commit could be merged because of an older success.
        """
        forge, first = self._pull_source.forge, min(alike)
        newest = next((status for status in forge.list_statuses(first.head) if status.context == STATUS_CONTEXT), None)
        if (
            newest is None
            or (newest.author, newest.url) != (forge.identity(), first.url)
            or not newest.description.startswith(_format_shared_prefix(alike))
        ):
            set_commit_status(forge, first.head, STATUS_CONTEXT, "pending", WAITING_MESSAGE, first.url)

    def retract(self, number: int, head: str) -> None:
        """If a commit is no longer the head of the open pull request `number`, set the status of the commit to pending.

        If the status stayed, a new pull request with this head commit could be merged because of this status. The
        status of a merged commit stays.
        """
        request = self._pull_source.forge.pull_request(number)
        is_merged = request.merge_commit and request.head == head
        if not is_merged and self._find_skip_reason(request, head):
            set_commit_status(self._pull_source.forge, head, STATUS_CONTEXT, "pending", RETRACTED_MESSAGE, request.url)

    def _plan_requests(self, alike: list[PullRequest], base: str, head: str) -> dict[int, _PlanResult]:
        """Return the results of the pull requests with the same head commit, by number.

        If there are more than MAX_SAME_HEAD, return a failure for one pull request, and no results for the others. If
        one plan is too large, all remaining pull requests get the result of this plan.
        """
        if len(alike) > MAX_SAME_HEAD:
            message = f"more than {MAX_SAME_HEAD} pull requests have this commit: close some"
            refused = _PlanResult("failure", message, _format_failure("This can't be merged", message))
            return {min(alike).number: refused}
        outcomes: dict[int, _PlanResult] = {}
        for pull_request in alike:
            spent = next((each for each in outcomes.values() if each.summary == TOO_LARGE), None)
            outcomes[pull_request.number] = spent or self._plan_request(pull_request, base, head)
        return outcomes

    def _find_skip_reason(self, request: PullRequest, head: str) -> str:
        """Return the reason why nothing is reported about a pull request; empty if there is no such reason."""
        if not request.is_open:
            return "it is not open"
        if request.base != self._pull_source.branch:
            return f"it is not for {self._pull_source.branch}"
        return "" if request.head == head else "its head has changed"

    def _find_commits(self, request: PullRequest) -> tuple[str, str] | None:
        """Return the commits of base and head; None if the head's ref differs from the head that the forge named."""
        names = self._list_refs(request)
        commits = self._pull_source.remote.look(*names)
        base, head = (commits.get(name) for name in names)
        if base is None:
            raise OperationRefused(f"the source has no branch {self._pull_source.branch}")
        return (base, head) if head is not None and head == request.head else None

    def _list_refs(self, request: PullRequest) -> tuple[str, str]:
        return f"refs/heads/{self._pull_source.branch}", self._pull_source.find_head_ref(request.number)

    def _fetch_commits(self, request: PullRequest, base: str, head: str) -> None:
        """Fetch base and head separately.

        Raises UnsoundObjects, FetchTooCostly or ForgeUnreachable if the head can't be fetched. Raises OperationRefused
        if the base can't be fetched, because that is not the pull request's fault.
        """
        source, names = self._pull_source.remote, self._list_refs(request)
        if not source.repository.has_object(base):
            try:
                source.fetch(names[0])
            except UnsoundObjects as error:
                raise OperationRefused(str(error)) from None
        try:
            source.fetch_limited(Limit(*self._budget), names[1], head)
        except (UnsoundObjects, FetchTooCostly):
            raise
        except OperationRefused as error:
            raise ForgeUnreachable(str(error)) from None

    def _fetch_published_and_reported(self, base: str) -> None:
        """Fetch the rendered branches, which hold the items that the brake counts, and the status branches with the usage.

        If this fails, the plan names the check that it skips.
        """
        source = CommitSource(self._pull_source.root, base, self._pull_source.remote.repository)
        with contextlib.suppress(OperationRefused):
            read_rendered_branches(
                source.repository, self._rendered_remote, list_cluster_names(source), read_publisher_key(source)
            )
        with contextlib.suppress(OperationRefused):
            read_status_branches(source.repository, self._status_remote, read_reporter_keys(source))

    def _plan_request(self, request: PullRequest, base: str, head: str) -> _PlanResult:
        """Return state, summary and comment of one pull request.

        If a bug prevents the plan, raises the error. Then the commit status stays pending, so the pull request doesn't
        pass.
        """
        forge = self._pull_source.forge
        source = CommitSource(self._pull_source.root, base, self._pull_source.remote.repository)
        review = Review(request.author, forge.pushers(request.number, head), forge.approvals(request.number, head))
        try:
            reply = run_plan(
                self._pull_source.root,
                base,
                head,
                day=self._find_date(source),
                review=review,
                teams=self._read_team_members(list_forge_teams(source)),
                comment_bytes=forge.comment_bytes - MAX_ENDING_BYTES,
                processes=self._processes,
                budget=self._budget,
                cache=self._cache,
            )
        except PlanBudgetExceeded as error:
            return _build_budget_result(error)
        except (IsolationBroken, OperationRefused) as error:
            return _build_refused_result(error)
        return _PlanResult(
            "success" if reply.allowed else "failure", reply.verdict, reply.text, reply.merge, reply.claims
        )

    def _read_team_members(self, teams: list[str]) -> dict[str, frozenset[Account] | None]:
        """Return the members of teams; None for a team that the token can't read. Such a team approves nothing."""
        members_by_team: dict[str, frozenset[Account] | None] = {}
        for team in teams:
            try:
                members_by_team[team] = self._pull_source.forge.members(team)
            except (NotFound, Forbidden):
                members_by_team[team] = None
        return members_by_team


def _build_budget_result(error: AllotmentError) -> _PlanResult:
    """Return state, summary and comment of a plan that exceeds its budget."""
    return _PlanResult(
        "failure",
        TOO_LARGE,
        _format_failure("The plan of this change is too large or too slow: split the change", str(error)),
    )


def _build_refused_result(error: AllotmentError) -> _PlanResult:
    """Return state, summary and comment of a change that can't be planned."""
    message = str(error)
    return _PlanResult(
        "failure",
        f"no plan: {message}",
        _format_failure("The plan of this change failed, so it can't be merged", message),
    )


def run_plan(
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
) -> PlanReply:
    """Return the plan of a pull request, made by a separate process. Raises the errors of `plan_sandbox.plan_in_sandbox`."""
    pushers = None if review.pushers is None else sorted(map(str, review.pushers))
    team_members = {team: None if members is None else sorted(map(str, members)) for team, members in teams.items()}
    plan_request = PlanRequest(
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
    return plan_sandbox.plan_in_sandbox(plan_request, budget, cache)


def _format_failure(title: str, message: str) -> str:
    return f"{MARKER}\n\n### ❌ {title}\n\n{code_span(message, 1000)}\n"


def set_commit_status(
    forge: Forge, commit: str, context: str, state: StatusState, message: str, url: str
) -> tuple[StatusState, str]:
    """Set a commit's status, unless the newest status of `context` is the same. Return the state and the message.

    The forge limits the number of statuses of a commit. If somebody exhausted the limit by opening and closing pull
    requests, a success could stay the last status. Therefore each plan after MAX_STATUSES statuses is a failure.
    """
    statuses = list(
        islice((status for status in forge.list_statuses(commit) if status.context == context), MAX_STATUSES)
    )
    if context == STATUS_CONTEXT and len(statuses) >= MAX_STATUSES:
        state, message, url = "failure", STATUS_LIMIT_REACHED, statuses[0].url
    new_status = CommitStatus(context, state, message[:MAX_STATUS_LENGTH], forge.identity(), url)
    if not statuses or statuses[0] != new_status:
        forge.set_status(commit, new_status)
    return state, message


def find_own_comments(forge: Forge, number: int, marker: str) -> list[Comment]:
    """Return our own comments that begin with a marker, the oldest first. Ignores the comments of other accounts."""
    identity = normalize_login(forge.identity())
    return [
        comment
        for comment in forge.list_comments(number)
        if normalize_login(comment.author) == identity and comment.body.lstrip().startswith(marker)
    ]


def upsert_comment(forge: Forge, number: int, marker: str, text: str) -> None:
    """Keep a single comment of our own on a pull request: create it, or edit it if its text differs.

    An interrupted POST may have created a comment, or another instance of the program may have commented at the same
    time. If there are several comments, only the oldest stays.
    """
    comments = find_own_comments(forge, number, marker)
    if not comments:
        forge.create_comment(number, text)
        comments = find_own_comments(forge, number, marker)
    for comment in comments[1:]:
        forge.delete_comment(number, comment.id)
    if comments and _normalize_comment(comments[0].body) != _normalize_comment(text):
        forge.update_comment(number, comments[0].id, text)


def _normalize_comment(text: str) -> str:
    """Return the text of a comment without the names of the planned commits and the numbers of a declined merge."""
    text = _COMMITS_LINE.sub("", text.replace("\r\n", "\n")).strip()
    return _DECLINED_LINE.sub(lambda line: _VARIABLE_PART.sub("", line[0]), text)
