"""`allot publish`: renders a commit, and commits the manifests to the branches that Argo CD syncs."""

from __future__ import annotations

import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.crash import report_tenant_bugs
from allotment.cli.formats import CheckedScope, as_text
from allotment.cli.options import (
    EXIT_WITH_WARNINGS,
    Day,
    choose_day,
    create_cache_opener,
    find_repository,
    output_option,
    print_note,
    repository_option,
)
from allotment.cli.progress import show_progress
from allotment.problems import OperationRefused, escape_unprintable, pluralize, pronoun_for

if TYPE_CHECKING:
    from allotment.adapters.git.remote import Remote
    from allotment.services.publish.publisher import ClusterCommit, PublishResult
    from allotment.services.publish.release import Release

_PROTECT_ADVICE = "Protect the branch at the forge, so that only the publisher can push"


@click.command()
@repository_option
@click.option("--commit", "ref", default="HEAD", metavar="REF", show_default=True, help="The commit to publish.")
@click.option(
    "--to",
    "url",
    metavar="URL",
    help="The repository to publish to. Default: spec.git.rendered of the platform, or origin.",
)
@click.option(
    "--status",
    metavar="URL",
    help="The repository of the status branches. Default: spec.git.status of the platform, or the repository of --to.",
)
@click.option("--as-of", type=Day(), help="Use the prices of this day. Default: today in the billing time zone.")
@click.option(
    "--plan",
    "checksum",
    metavar="CHECKSUM",
    help="Publish only if the changes to the published manifests have the checksum of this plan.",
)
@click.option(
    "--signing-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The private SSH key that signs the rendered commits. It belongs to spec.publisher.publicKey of the platform.",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Trust rendered branches without a signature of this key, or without the refs of Allotment.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Write nothing. Print the commits that a publish would create. The commit may be unmerged.",
)
@output_option()
def command(
    *,
    repo: Path | None,
    ref: str,
    url: str | None,
    status: str | None,
    as_of: datetime.date | None,
    checksum: str | None,
    signing_key: Path | None,
    adopt: bool,
    dry_run: bool,
    style: str,
) -> None:
    """Render a commit, and commit the manifests to the branch rendered/CLUSTER of each cluster.

    An invalid tenant keeps its published manifests, and all other tenants are published. A branch that somebody else changed,
    reset or deleted is restored. In both cases, the exit status is 4. No push
    is forced: if another publish is faster, this one starts again, and the newer source wins. Without --to, the commit must
    be in the branch of declarations of origin: the branch that the default branch of origin names in spec.git.branch.

    \b
    Examples:
      allot publish --dry-run
      allot publish
      allot publish --to /srv/git/trial.git --commit HEAD~1
    """
    from allotment.adapters.git.commit_source import CommitSource
    from allotment.adapters.git.remote import Remote
    from allotment.branches.merged_branch import fetch_origin_branch, fetch_tip, select_merged_commit
    from allotment.branches.platform_settings import BranchUrls, resolve_branch_urls
    from allotment.services.publish.publisher import Publisher
    from allotment.services.publish.release_builder import ReleaseBuilder
    from allotment.services.publish.tenant_retention import PlatformInvalid

    root = find_repository(repo)
    source = CommitSource(root, ref)
    branch = fetch_origin_branch(root, source) if url is None else None
    settings = select_merged_commit(root, source, branch)
    is_unmerged = settings is not None and settings is not source
    if branch is not None and is_unmerged:
        unmerged = (
            f"{source.commit[:12]} isn't in the branch {branch.name} of origin. Publishing it would block later merges to this"
            " branch: merge it first, or name another repository with --to"
        )
        if source.repository.is_shallow():
            unmerged = f"{source.commit[:12]} may not be merged, and this clone is shallow: run `git fetch --unshallow`"
        if not dry_run:
            raise OperationRefused(unmerged)
        click.echo(f"warning: allot publish will refuse this commit: {unmerged}", err=True)
    if signing_key and settings is not source:
        fault = (
            "isn't merged" if is_unmerged else "may not be merged, because origin doesn't answer or lacks the branch"
        )
        raise OperationRefused(
            f"{source.commit[:12]} {fault}, and every repository would trust its signature: omit --signing-key for a trial"
        )
    if settings is None:  # with --to
        if status is None:
            click.echo(
                "warning: origin doesn't name the repository of the status branches: they are read from that of --to",
                err=True,
            )
        to, seen_at = BranchUrls(str(url), status or str(url))
    else:
        to, seen_at = resolve_branch_urls(settings, "origin", url, status)
    remote = Remote(source.repository, to)
    with show_progress("Rendering tenants") as progress:
        publisher = Publisher(
            root,
            remote,
            ReleaseBuilder(report_progress=progress, open_cache=create_cache_opener(root, "-publish")),
            lambda source: choose_day(source, as_of),
            status=Remote(source.repository, seen_at),
            dry_run=dry_run,
            signing_key=signing_key,
            needs_key=settings is source,
            adopt=adopt,
            find_tip=partial(fetch_tip, root, source),
            check_precondition=partial(_check_preconditions, root, checksum, choose_day(source, as_of)),
        )
        try:
            outcome = publisher.publish(source.commit)
        except PlatformInvalid as error:
            click.echo(as_text(error.problems, CheckedScope(error.file_count, error.tenant_count)), nl=False, err=True)
            raise click.exceptions.Exit(1) from None
    if style == "json":
        click.echo(_as_json(outcome, dry_run), nl=False)
    else:
        _print_result(outcome, remote, dry_run)
    for cluster, message in sorted(publisher.status_reader.state.troubles.items()):
        click.echo(f"status of {cluster}: {message}", err=True)
    if outcome.record_trouble:
        click.echo(f"record in doubt: {escape_unprintable(outcome.record_trouble, 1000)}", err=True)
    faulty = [cluster_commit for cluster_commit in outcome.commits if cluster_commit.branch_fault]
    for cluster_commit in faulty:
        verb = "to restore" if dry_run else "restored"
        click.echo(
            f"{verb}: rendered/{cluster_commit.cluster}, which {cluster_commit.branch_fault}. {_PROTECT_ADVICE}",
            err=True,
        )
    is_retained = outcome.release is not None and (
        outcome.release.retained_tenants or outcome.release.retained_clusters
    )
    if outcome.release is not None:
        report_tenant_bugs(outcome.release.tracebacks)
    if is_retained or faulty:
        raise click.exceptions.Exit(EXIT_WITH_WARNINGS)


def _check_preconditions(
    root: Path,
    checksum: str | None,
    day: datetime.date,
    published: str | None,
    commit: str,
) -> None:
    """Raise OperationRefused if the plan is another."""
    if checksum is not None:
        _check_plan(root, checksum, day, published, commit)


def _check_plan(root: Path, checksum: str, day: datetime.date, published: str | None, commit: str) -> None:
    """Raise OperationRefused if the plan from the published commit to `commit` does not have `checksum`."""
    from allotment.cli.options import create_cache_opener
    from allotment.services.pull_requests.change_plan import plan_change

    if published is None:
        raise OperationRefused(
            "nothing has been published yet, so no plan can refer to it: publish without --plan first"
        )
    merge_plan = plan_change(root, published, commit, day, open_cache=create_cache_opener(root, "-plan"))
    if merge_plan.checksum != checksum:
        raise OperationRefused(
            f"the plan holds no more: from {published[:12]}, which is published, to {commit[:12]} it is"
            f" {merge_plan.checksum or 'none'}. Look at `allot plan --base {published[:12]} --head {commit[:12]}`"
        )


def _as_json(outcome: PublishResult, dry_run: bool) -> str:
    from allotment.manifests.names import rendered_branch
    from allotment.reports import outputs
    from allotment.reports.outputs.publish import CommittedOutput, KeptOutput, PublishOutput, RetainedClusterOutput
    from allotment.reports.outputs.validate import problem_output

    def files(cluster_commit: ClusterCommit, letter: str) -> tuple[str, ...]:
        return tuple(path for path, each in cluster_commit.changes.items() if each == letter)

    release = outcome.release
    committed = tuple(
        CommittedOutput(
            cluster=cluster_commit.cluster,
            branch=rendered_branch(cluster_commit.cluster).removeprefix("refs/heads/"),
            commit=cluster_commit.commit,
            added=files(cluster_commit, "A"),
            changed=files(cluster_commit, "M"),
            removed=files(cluster_commit, "D"),
            replaced=cluster_commit.foreign_commit,
        )
        for cluster_commit in outcome.commits
    )
    moved = {cluster_output.cluster for cluster_output in committed}
    retained_tenants = () if release is None else release.retained_tenants.items()
    clusters = () if release is None else release.retained_clusters.items()
    output = PublishOutput(
        source=outcome.source,
        newer=outcome.newer_source,
        dry_run=dry_run,
        committed=committed,
        unchanged=() if release is None else tuple(sorted(release.files.keys() - moved)),
        retained_tenants=tuple(
            KeptOutput(tenant, tuple(map(problem_output, problems)), reason)
            for tenant, (reason, problems) in retained_tenants
        ),
        waiting=() if release is None else (*release.waiting_instances, *release.pending_changes),
        holding=() if release is None else tuple(release.leaked_units),
        leaving=() if release is None else tuple(release.pending_deletions),
        warnings=() if release is None else tuple(map(problem_output, release.problems)),
        retained_clusters=tuple(
            RetainedClusterOutput(cluster, tuple(map(problem_output, problems))) for cluster, problems in clusters
        ),
    )
    return outputs.as_json(output)


def _print_result(outcome: PublishResult, remote: Remote, dry_run: bool) -> None:
    source = outcome.source[:12]
    tell = click.echo if dry_run else print_note
    if outcome.release is None:
        tell(
            f"Nothing to do: the newer commit {(outcome.newer_source or '')[:12]} is already published; this is {source}."
        )
        return
    for cluster_commit in outcome.commits:
        tell(_format_commit(cluster_commit, dry_run))
        if dry_run:
            for path, letter in cluster_commit.changes.items():
                tell(f"  {letter} {path}")
    if outcome.commits:
        tell(f"{'To' if dry_run else 'Pushed to'} {remote.display_url}, of {source}")
    same = len(outcome.release.files) - len(outcome.commits)
    if same:
        tell(f"{pluralize(same, 'cluster')}{' more' if outcome.commits else ''}: nothing changed")
    _print_exceptions(outcome.release)


def _format_commit(cluster_commit: ClusterCommit, dry_run: bool) -> str:
    counts = f"{cluster_commit.count_files('A'):,} added, {cluster_commit.count_files('M'):,} changed, {cluster_commit.count_files('D'):,} removed"
    where = (
        f"rendered/{cluster_commit.cluster} would be committed"
        if dry_run
        else f"rendered/{cluster_commit.cluster} is {cluster_commit.commit[:12]}"
    )
    replaced = (
        f"; it replaces {cluster_commit.foreign_commit[:12]}, which Allotment didn't write"
        if cluster_commit.foreign_commit
        else ""
    )
    return f"{cluster_commit.cluster}: {counts}: {where}{replaced}"


def _print_exceptions(assembly: Release) -> None:
    """Print to standard error the tenants and resources that are not published as declared."""
    for problem in assembly.problems:
        click.echo(f"warning: {problem}", err=True)
    for message in assembly.waiting_instances:
        click.echo(f"waits: {message}", err=True)
    for message in assembly.pending_changes:
        click.echo(f"waits: {message}", err=True)
    for message in assembly.leaked_units:
        click.echo(f"holds: {message}", err=True)
    for message in assembly.pending_deletions:
        click.echo(f"leaving: {message}", err=True)
    for cluster, problems in assembly.retained_clusters.items():
        click.echo(f"retained: cluster {escape_unprintable(cluster)}, {pluralize(len(problems), 'problem')}:", err=True)
        for problem in problems:
            click.echo(f"  {problem}", err=True)
    for tenant, (_, problems) in assembly.retained_tenants.items():
        click.echo(f"retained: tenant {escape_unprintable(tenant)}, {pluralize(len(problems), 'problem')}:", err=True)
        for problem in problems:
            click.echo(f"  {problem}", err=True)
    if assembly.retained_tenants:
        published_count = len(assembly.declared_tenants - assembly.retained_tenants.keys())
        click.echo(
            f"{pluralize(len(assembly.retained_tenants), 'tenant')} retained, {published_count} published."
            f" Correct {pronoun_for(len(assembly.retained_tenants))} and publish again.",
            err=True,
        )
