"""Opens pull requests for changes: pushes the branch to the repository, or to a fork, and calls the forge."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from allotment.adapters.forge.forge import (
    Forbidden,
    Forge,
    ForgeError,
    ForgeUnreachable,
    Fork,
    PullRequest,
    PullRequestHead,
    RequestDeclined,
    Token,
)
from allotment.adapters.git.history import was_merged
from allotment.adapters.git.http_login import HttpLogin
from allotment.adapters.git.remote import PushForbidden, Remote
from allotment.diff.change_plan import ChangePlan
from allotment.edits.change_set import ChangeSet
from allotment.edits.operation_id import BuildChange, name_operation_branch
from allotment.problems import OperationRefused, quote_value
from allotment.reports.markdown import code_span_outside_tables, escape_markdown
from allotment.reports.plan.rows import effects_text, files_text
from allotment.services.changes.branch_change import BranchTaken, PushedBranch, push_change, push_operation
from allotment.services.changes.change_target import BranchTarget
from allotment.services.changes.operations import OperationUse, RepeatedChange

MAX_TITLE = 200  # characters; GitLab accepts 255
# The seconds before each retry. A forge knows a pushed branch a moment after the push.
_OPEN_PAUSES = (0.5, 1.0, 2.0, 4.0)
_FORK_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0)
_SUMMARY_LENGTH = 1_000  # characters
_REASON_LENGTH = 2_000
DescribeHead = Callable[[int], str]


class Destination(NamedTuple):
    """A repository that takes the branch. `fork` is None if it is the repository of the declarations."""

    remote: Remote
    fork: Fork | None


class Proposal(NamedTuple):
    """A pull request of a change, and its branch. `repeated` is the earlier change with the same operation ID.

    `pull_request` is None if the change of an earlier command was merged without a pull request.
    """

    pushed: PushedBranch
    pull_request: PullRequest | None
    repeated: RepeatedChange | None = None


class Proposer:
    """Opens pull requests into the branch of `target`.

    `url` is the declared URL of the repository, and `head_ref` returns the ref of a pull request's head there. With
    `uses_fork`, all branches go to the fork of the token's owner.
    """

    def __init__(
        self, target: BranchTarget, forge: Forge, token: Token, url: str, head_ref: DescribeHead, *, uses_fork: bool
    ) -> None:
        self.target, self.forge = target, forge
        self._token, self.url, self._head_ref, self._uses_fork = token, url, head_ref, uses_fork

    def find_repeated(self, build: BuildChange) -> RepeatedChange | None:
        """Return the change of an earlier command with the same operation ID, also from its pull request."""
        repeated = self.target.find_repeated(build)
        if repeated is None and (use := self._find_use_of_pull_request(None)):
            repeated = self.target.finder.repeat(use, build)
        return repeated

    def find_operation(self, fork: Fork | None = None) -> tuple[PullRequest, OperationUse | None] | None:
        """Return the pull request of the operation and its use of the ID; None without a pull request.

        A forge keeps the head of each pull request, also without the branch.
        """
        pull = self._find_pull_request(PullRequestHead(name_operation_branch(self.target.operation_id), fork))
        if pull is None:
            return None
        name = self._head_ref(pull.number)
        head = self.target.remote.fetch(name).get(name)
        return pull, self.target.finder.find_in_branch(head, pull.url) if head else None

    def propose(self, change_set: ChangeSet, build: BuildChange) -> Proposal:
        """Push a planned change, and open a pull request. If the branch has a pull request already, return that.

        Tries the remote of the target first, then the declared URL with the token, then the fork of the token's owner.
        The next destination is used only if the previous destination forbids the push. Raises OperationRefused, with the
        refusal of each destination, and ForgeError.
        """
        refusals: list[PushForbidden] = []
        for destination in self._list_destinations(refusals):
            try:
                repeated = self._find_repeated_in_fork(destination, build)
                pushed = self._push(destination, change_set) if repeated is None else None
            except BranchTaken:
                repeated, pushed = self._find_winner(destination, build), None
            except PushForbidden as error:
                refusals.append(error)
                continue
            except OperationRefused as error:
                raise _join_refusals([*refusals, error]) from None
            if pushed is not None:
                return self._open(pushed, change_set, destination.fork)
            assert repeated is not None
            return self.complete(repeated, destination.fork)
        raise _join_refusals(refusals)

    def complete(self, repeated: RepeatedChange, fork: Fork | None = None) -> Proposal:
        """Return the proposal of an earlier command. Open its pull request if that command ended before.

        Raises OperationRefused if the branch without a pull request has later commits.
        """
        branch = PushedBranch(name_operation_branch(self.target.operation_id), repeated.use.commit)
        pull_request = self._find_pull_request(PullRequestHead(branch.branch, fork))
        if pull_request is None and not self._is_merged(repeated.use):
            _check_tip(branch, repeated.use)
            pull_request = self._open(branch, repeated.change_set, fork).pull_request
        return Proposal(branch, pull_request, repeated)

    def _is_merged(self, use: OperationUse) -> bool:
        return was_merged(self.target.repository, use.commit, self.target.base.commit)

    def _list_destinations(self, refusals: Sequence[OperationRefused]) -> Iterator[Destination]:
        """Yield the destinations. Raises Forbidden, with the earlier refusals, if the repository can't be forked."""
        if not self._uses_fork:
            yield Destination(self.target.remote, None)
            yield Destination(self._connect(self.url), None)
        try:
            fork = self.forge.fork()
        except Forbidden as error:
            earlier = "".join(f"{refusal}; then " for refusal in dict.fromkeys(map(str, refusals)))
            raise Forbidden(f"{earlier}{error}, for a fork") from None
        remote = self._connect(fork.url)
        self._wait_for_fork(remote)
        yield Destination(remote, fork)

    def _connect(self, url: str) -> Remote:
        if urlsplit(url)[:2] != urlsplit(self.url)[:2]:
            scheme, host, *_ = urlsplit(self.url)
            raise OperationRefused(
                f"the forge names {quote_value(url)} for the fork, but spec.git.url is at {scheme}://{host}: correct the external URL"
                " of the forge"
            )
        if not url.startswith("https://"):  # a fork at a server without TLS gets no token
            return Remote(self.target.repository, url)
        return Remote(self.target.repository, url, login=HttpLogin(self.forge.identity(), self._token.secret))

    def _wait_for_fork(self, remote: Remote) -> None:
        """Wait until the forge has copied the target branch to a new fork."""
        name = f"refs/heads/{self.target.branch}"
        for pause in (*_FORK_PAUSES, None):
            try:
                if remote.look(name) or pause is None:
                    return
            except OperationRefused:
                if pause is None:
                    raise
            time.sleep(pause)

    def _push(self, destination: Destination, change_set: ChangeSet) -> PushedBranch:
        if self.target.operation_id:
            return push_operation(self.target.base, destination.remote, change_set, self.target.operation_id)

        def is_merged(branch: str) -> bool:
            pulls = self.forge.find_pull_requests(PullRequestHead(branch, destination.fork))
            return any(pull.merge_commit for pull in pulls)

        return push_change(self.target.base, destination.remote, change_set, is_merged)

    def _find_repeated_in_fork(self, destination: Destination, build: BuildChange) -> RepeatedChange | None:
        """Return the change of an earlier command that pushed to a fork. None for the repository itself."""
        if destination.fork is None or not self.target.operation_id:
            return None
        use = self._find_use_of_branch(destination) or self._find_use_of_pull_request(destination.fork)
        return self.target.finder.repeat(use, build) if use else None

    def _find_use_of_branch(self, destination: Destination) -> OperationUse | None:
        branch = name_operation_branch(self.target.operation_id)
        head = destination.remote.fetch(f"refs/heads/{branch}").get(f"refs/heads/{branch}")
        return self.target.finder.find_in_branch(head, f"branch {branch} of {destination.remote}") if head else None

    def _find_use_of_pull_request(self, fork: Fork | None) -> OperationUse | None:
        """Return the use in a pull request. Its branch may be deleted."""
        pull = self.find_operation(fork)
        return pull[1] if pull else None

    def _find_winner(self, destination: Destination, build: BuildChange) -> RepeatedChange:
        """Return the change of the process that pushed the same operation first."""
        if destination.fork is None:
            self.target.refresh()
            use = self.target.find_use()
        else:
            use = self._find_use_of_branch(destination)
        if use is None:
            raise OperationRefused("another process has removed the branch of this operation: run the command again")
        return self.target.finder.repeat(use, build)

    def _find_pull_request(self, head: PullRequestHead) -> PullRequest | None:
        """Return the pull request of a branch. Open pull requests come first, then merged, then closed pull requests."""
        pulls = list(self.forge.find_pull_requests(head))
        return min(pulls, key=lambda pull: (not pull.is_open, not pull.merge_commit), default=None)

    def _open(self, pushed: PushedBranch, change_set: ChangeSet, fork: Fork | None) -> Proposal:
        """Open the pull request of a pushed branch. The body is written only if there is none."""
        head = PullRequestHead(pushed.branch, fork)
        body = ""
        for pause in (*_OPEN_PAUSES, None):
            if (existing := self._find_pull_request(head)) is not None:
                return Proposal(pushed, existing)
            body = body or self._describe(pushed, change_set)
            try:
                created = self.forge.create_pull_request(head, self.target.branch, _shorten(change_set.title), body)
            except (RequestDeclined, ForgeUnreachable) as error:
                if pause is None or isinstance(error, Forbidden):
                    raise
                time.sleep(pause)
            else:
                return Proposal(pushed, self._find_oldest(head, created))
        raise ForgeError("the forge opened no pull request")

    def _find_oldest(self, head: PullRequestHead, created: PullRequest) -> PullRequest:
        """Return the oldest open pull request of a branch, and close the created one if it is younger.

        A forge may accept two pull requests of a branch if two processes ask at the same moment.
        """
        others = [pull for pull in self.forge.find_pull_requests(head) if pull.is_open and pull.base == created.base]
        oldest = min((created, *others), key=lambda pull: pull.number)
        if oldest.number != created.number:
            self.forge.close_pull_request(created.number)
        return oldest

    def _describe(self, pushed: PushedBranch, change_set: ChangeSet) -> str:
        parent = self.target.repository.parents(pushed.commit)[0]
        return _render_body(self.target.plan_on(parent, change_set), change_set.reason, self.target.operation_id)


def _join_refusals(refusals: Sequence[OperationRefused]) -> OperationRefused:
    """Return an error with the refusal of each destination. Each refusal names its destination."""
    if len(refusals) == 1:
        return refusals[0]
    return OperationRefused("; then ".join(dict.fromkeys(str(refusal) for refusal in refusals)))


def _check_tip(branch: PushedBranch, use: OperationUse) -> None:
    if use.tip != use.commit:
        raise OperationRefused(
            f"branch {branch.branch} has commits after {use.commit}, the commit of the operation, so no pull request was"
            " opened: delete the branch and run the command again, or open the pull request at the forge"
        )


def _shorten(title: str) -> str:
    return title if len(title) <= MAX_TITLE else f"{title[:MAX_TITLE]}…"


def _render_body(plan: ChangePlan, reason: str, operation_id: str) -> str:
    """Return the text of a pull request in Markdown. An empty reason and an empty operation ID are left out."""
    lines = [f"Reason: {escape_markdown(reason, _REASON_LENGTH)}"] if reason else []
    lines += [f"This {escape_markdown(plan.summary, _SUMMARY_LENGTH)}.", effects_text(plan), files_text(plan)]
    if operation_id:
        lines.append(f"Operation ID: {code_span_outside_tables(operation_id)}")
    return "\n\n".join(line for line in lines if line) + "\n"
