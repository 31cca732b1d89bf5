"""The instances that a command changes: names, or selectors in place of names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import click

from allotment.cli.completers import (
    complete_clusters,
    complete_gpu_specs,
    complete_tenants,
    create_resource_completer,
)
from allotment.cli.edit_commands.field_options import require_resource_name

if TYPE_CHECKING:
    from allotment.edits.declarations import Declarations


class FindTargets(Protocol):
    """Finds the instances that the user named or selected."""

    def __call__(self, declarations: Declarations, default_states: tuple[str, ...] = ()) -> list[tuple[str, str]]:
        """Return the tenant and the name of each instance.

        If the user selects without --state, only instances in `default_states` are selected; empty for all states.
        """
        ...


_STATES = ("Running", "Stopped", "OnHold")


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the names and the selectors of instances. The command gets them as its parameter `find_targets`."""

    @functools.wraps(command)
    def run(
        *,
        targets: tuple[str, ...],
        tenants: tuple[str, ...],
        clusters: tuple[str, ...],
        gpu_specs: tuple[str, ...],
        states: tuple[str, ...],
        labels: tuple[str, ...],
        selects_all: bool,
        **values: Any,
    ) -> Any:
        selectors = {
            "tenants": tenants,
            "clusters": clusters,
            "gpu_specs": gpu_specs,
            "states": states,
            "labels": labels,
        }
        has_selector = selects_all or any(selectors.values())
        if targets and has_selector:
            raise click.UsageError("names and selectors exclude each other: omit the names, or all selectors")
        if not targets and not has_selector:
            raise click.UsageError("name the instances as TENANT/NAME, or select them by --tenant, -l or --all")
        names = [require_resource_name(target) for target in targets]

        def find_targets(declarations: Declarations, default_states: tuple[str, ...] = ()) -> list[tuple[str, str]]:
            return names or _select(declarations, selectors | {"states": states or default_states})

        return command(find_targets=find_targets, **values)

    for option in (
        click.option("--all", "selects_all", is_flag=True, help="Select the instances of all tenants."),
        click.option("-l", "--label", "labels", multiple=True, metavar="KEY[=VALUE]", help="Select by labels."),
        click.option(
            "--state",
            "states",
            multiple=True,
            type=click.Choice(_STATES, case_sensitive=False),
            help="Select by state.",
        ),
        click.option(
            "--spec",
            "gpu_specs",
            multiple=True,
            metavar="NAME",
            shell_complete=complete_gpu_specs,
            help="Select by GPUSpec.",
        ),
        click.option(
            "--cluster",
            "clusters",
            multiple=True,
            metavar="NAME",
            shell_complete=complete_clusters,
            help="Select by cluster.",
        ),
        click.option(
            "--tenant",
            "tenants",
            multiple=True,
            metavar="NAME",
            shell_complete=complete_tenants,
            help="Select by tenant.",
        ),
        click.argument(
            "targets", metavar="[TENANT/NAME]...", nargs=-1, shell_complete=create_resource_completer("instances")
        ),
    ):
        run = option(run)
    return run


def _select(declarations: Declarations, selectors: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    from allotment.declared.instance_selection import InstanceSelector, parse_label_requirements
    from allotment.edits.instance_edits import find_instances

    selector = InstanceSelector(
        tenants=selectors["tenants"],
        clusters=selectors["clusters"],
        gpu_specs=selectors["gpu_specs"],
        states=selectors["states"],
        labels=[requirement for text in selectors["labels"] for requirement in parse_label_requirements(text)],
    )
    return find_instances(declarations, selector)
