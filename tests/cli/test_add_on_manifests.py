"""The manifests in argo/add-ons agree with the program: permissions, options and environment variables."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import yaml
from tests.conftest import PROJECT

from allotment.manifests import names
from allotment.observed.decoding import CLUSTER_KINDS, HUB_KINDS

ADD_ONS = PROJECT / "argo/add-ons"


def read_manifests(add_on: str, file_name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ADD_ONS / add_on / file_name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("add_on", ["allot-run", "allot-report"])
def test_a_reporter_may_list_and_watch_exactly_the_kinds_that_it_reads(add_on: str) -> None:
    (rules,) = (role["rules"] for role in read_manifests(add_on, "rbac.yaml") if role["kind"] == "ClusterRole")
    granted = {f"{group}/{kind}" for rule in rules for group in rule["apiGroups"] for kind in rule["resources"]}
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list", "watch"}
    paths = [
        watched_kind.path.removeprefix("/apis/").removeprefix("/api/").split("/")
        for watched_kind in (*CLUSTER_KINDS, *HUB_KINDS)
    ]
    assert granted == {f"{'' if parts[0] == 'v1' else parts[0]}/{parts[-1]}" for parts in paths}


@pytest.mark.parametrize(
    ("add_on", "command_module"),
    [
        ("allot-run", "run"),
        ("allot-report", "report"),
        ("allot-comment", "run"),
        ("allot-portal", "run"),
        ("allot-cordons", "run"),
        ("allot-ssh", "ssh_gateway"),
    ],
)
def test_the_command_accepts_each_option_and_variable_of_its_add_on(add_on: str, command_module: str) -> None:
    (deployment,) = read_manifests(add_on, "deployment.yaml")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    command = import_module(f"allotment.cli.{command_module}").command
    assert container["args"][0] == command_module.replace("_", "-")
    options = {word for word in container["args"] if word.startswith("--")}
    assert options <= {option for parameter in command.params for option in parameter.opts}
    (kustomization,) = read_manifests(add_on, "kustomization.yaml")
    literals = [literal for generator in kustomization["configMapGenerator"] for literal in generator["literals"]]
    variables = {literal.partition("=")[0] for literal in literals if literal.startswith("ALLOT_")}
    assert variables
    assert {variable.removeprefix("ALLOT_").lower() for variable in variables} <= {
        parameter.name for parameter in command.params
    }


def test_the_ssh_gateway_may_read_the_config_map_that_is_rendered() -> None:
    rules = [rule for role in read_manifests("allot-ssh", "rbac.yaml") for rule in role.get("rules", ())]
    assert [rule["resourceNames"] for rule in rules if rule["resources"] == ["configmaps"]] == [[names.SSH_GATEWAY]]
