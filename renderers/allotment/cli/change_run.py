"""Runs the course of every command that edits declarations: diff, plan, commit, push, pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allotment.cli.change_options import ChangeOptions, CheckFirst, Confirm, open_branch_target, open_folder_target

if TYPE_CHECKING:
    from allotment.edits.operation_id import BuildChange
    from allotment.reports.outputs.change import ChangeStage


def run_change(
    options: ChangeOptions, build: BuildChange, confirm: Confirm | None = None, check_first: CheckFirst | None = None
) -> None:
    """Build a change from the declarations, print its difference and its plan, and apply it.

    If an earlier command has applied a change with the same operation ID, change nothing and print its result.

    `check_first` is called before the change is built. `confirm` is called before it is applied. Both raise an exception to
    prevent the change. Raises InvalidChange, and
    changes nothing, if the change causes an error in the declarations.
    """
    if options.proposes and not options.is_dry_run:
        from allotment.cli.change_proposal import run_proposal

        run_proposal(options, build, confirm, check_first)
    elif options.changes_folder:
        _change_folder(options, build, confirm, check_first)
    else:
        _push(options, build, confirm, check_first)


def _push(options: ChangeOptions, build: BuildChange, confirm: Confirm | None, check_first: CheckFirst | None) -> None:
    from allotment.cli.change_output import ChangeResult, print_moved, print_result, review
    from allotment.services.changes.branch_change import BranchTaken

    target = open_branch_target(options)
    repeated = target.find_repeated(build) if options.operation_id else None
    if repeated is None:
        if check_first is not None:
            check_first(target.declarations)
        planned = target.plan(build(target.declarations))
        if not review(planned, options, confirm):
            return
        try:
            pushed = target.push(planned.change_set)
        except BranchTaken:
            target.refresh()
            repeated = target.find_repeated(build)
            if repeated is None:
                raise
        else:
            print_result(options, ChangeResult(planned.change_set, planned.before, "Branch", pushed.branch))
            print_moved(target.remove_written_files(planned))
            return
    print_result(options, ChangeResult.of_repeated(repeated, "Branch", options.operation_id))


def _change_folder(
    options: ChangeOptions, build: BuildChange, confirm: Confirm | None, check_first: CheckFirst | None
) -> None:
    from allotment.cli.change_output import ChangeResult, print_result, review

    target = open_folder_target(options)
    repeated = target.find_repeated(build) if options.operation_id else None
    if repeated is not None:
        is_committed = repeated.use.is_committed
        if options.commits and not (is_committed or options.is_dry_run):
            target.commit(repeated.change_set)
            is_committed = True
        stage: ChangeStage = "Commit" if options.commits and is_committed else "Folder"
        print_result(options, ChangeResult.of_repeated(repeated, stage))
        return
    if check_first is not None:
        check_first(target.declarations)
    change_set = target.build_for_commit(build) if options.commits else build(target.declarations)
    planned = target.plan(change_set, commits=options.commits)
    if review(planned, options, confirm):
        target.write(planned)
        if options.commits:
            target.commit(planned.change_set)
        result = ChangeResult(planned.change_set, planned.before, "Commit" if options.commits else "Folder")
        print_result(options, result)
        if confirm is not None and not options.commits:
            _offer_pull_request(options, build)


def _offer_pull_request(options: ChangeOptions, build: BuildChange) -> None:
    from allotment.cli.prompts import wants_pull_request

    if wants_pull_request():
        run_change(options._replace(proposes=True, is_reviewed=True), build)
