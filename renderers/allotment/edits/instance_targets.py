"""Finds the declared instances that a selector selects, for commands that change many instances."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.declared.instance_selection import InstanceSelector, check_label_names, select_instances
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.layout import Scope
from allotment.declared.tenant_facts import InstanceFacts, summarize_instance
from allotment.edits.declarations import Declarations
from allotment.edits.option_values import OptionParser
from allotment.problems import OperationRefused


def find_instances(declarations: Declarations, selector: InstanceSelector) -> list[tuple[str, str]]:
    """Return the tenant and the name of each selected instance, sorted.

    Raises OperationRefused if the selector names something unknown, if it selects nothing, or if a file of a tenant that it
    may select can't be read.
    """
    parser = OptionParser()
    _check_names(parser, "--tenant", selector.tenants, declarations.list_scopes("tenant"), "no tenant is named")
    _check_names(parser, "--cluster", selector.clusters, declarations.list_scopes("cluster"), "no cluster is named")
    _check_names(parser, "--spec", selector.gpu_specs, declarations.list_names(GPUSpec), "no GPUSpec is named")
    parser.raise_problems()
    tenants = sorted(set(selector.tenants)) or declarations.list_scopes("tenant")
    instances = [facts for tenant in tenants for facts in _list_instances(declarations, tenant)]
    check_label_names(selector.labels, instances)
    selected = select_instances(instances, selector, {})
    if not selected:
        raise OperationRefused("no instance has all of these properties: `allot instance list` lists the instances")
    return [(facts.tenant, facts.name) for facts in selected]


def _check_names(
    parser: OptionParser, option: str, given_names: Iterable[str], names: Iterable[str], owner: str
) -> None:
    for name in given_names:
        parser.check_name(option, name, list(names), owner)


def _list_instances(declarations: Declarations, tenant: str) -> list[InstanceFacts]:
    scope = Scope("tenant", tenant)
    names = declarations.list_names(GPUInstance, scope)
    return [summarize_instance(tenant, declarations.find(GPUInstance, scope, name).model) for name in names]
