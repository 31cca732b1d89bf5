"""`allot instance show` and `allot storage show`: status, declared facts and cost of one resource."""

from __future__ import annotations

import re

import pytest
import yaml
from tests.conftest import Allot, Result, checked
from tests.support.published import Place, git

from allotment.observed.status import Storage, TenantStatus


@pytest.fixture
def run_show(place: Place, allot: Allot) -> Allot:
    def run(kind: str, *words: object) -> Result:
        return allot(kind, "show", "--repo", place.root, *words)

    return run


def test_an_instance_has_its_facts_and_its_cost(run_show: Allot) -> None:
    result = run_show("instance", "ml-orbit/chat")
    assert result.code == 0, result.err
    facts = dict(line.split(":", 1) for line in result.out.splitlines() if ":" in line)
    values = {name: text.strip() for name, text in facts.items()}
    assert (values["State"], values["Declared state"], values["GPU"]) == ("Merged", "Running", "nvidia-h100-80gb, 80Gi")
    assert (values["Labels"], values["Cost per hour"], values["Storages"]) == ("team=serving", "13.60 EUR", "weights")


def test_a_storage_has_its_declared_url_without_a_report(run_show: Allot, place: Place, allot: Allot) -> None:
    url = "https://models--files--solo-ada.eu-1.gpu.northlight.example/"
    for result in run_show("storage", "solo-ada/models"), allot("status", "solo-ada/models", "--repo", place.root):
        assert [line.split() for line in result.out.splitlines() if line.lstrip().startswith("URL")] == [
            ["URL:", url]
        ], result.out
    assert "URL" not in run_show("storage", "studio-kite/base").out


@pytest.mark.parametrize(
    ("capacity", "text"), [("61440Mi", "60Gi"), ("64Gi", "60Gi"), ("40Gi", "40Gi of 60Gi exist"), ("", "60Gi")]
)
def test_a_storage_names_the_missing_part_of_its_size(capacity: str, text: str, published: Place, allot: Allot) -> None:
    blob = git(published.root, "rev-parse", "HEAD:tenants/solo-ada/storages/models.yaml")
    models = Storage("models", blob, "Ready", "", size="60Gi", capacity=capacity)
    published.report("eu-1", TenantStatus("solo-ada", "eu-1", storages=(models,)))
    result = allot("storage", "show", "solo-ada/models", "--repo", published.root)
    assert f"\nSize: {text}\n" in re.sub(" +", " ", result.out)


@pytest.mark.parametrize(("kind", "name"), [("instance", "solo-ada/webui"), ("storage", "solo-ada/models")])
def test_json_has_the_row_of_the_list_and_the_status(
    kind: str, name: str, run_show: Allot, place: Place, allot: Allot
) -> None:
    output = checked(f"{kind} show", run_show(kind, name, "-o", "json").out)
    assert yaml.safe_load(run_show(kind, name, "-o", "yaml").out) == output
    (row,) = output[f"{kind}s"]
    listed = checked(
        f"{kind} list", allot(kind, "list", "--repo", place.root, "--tenant", "solo-ada", "-o", "json").out
    )
    (expected,) = [each for each in listed[f"{kind}s"] if each["name"] == row["name"]]
    assert {**row, "message": ""} == {**expected, "message": ""}, "show explains why it is not published"
    assert output["status"][0][f"{kind}s"][0]["state"] == "Merged"


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (
            "instance",
            "solo-ada/webu",
            "allot: solo-ada has no resource named 'webu': no such name is declared, published or reported; did you mean 'webui'?",
        ),
        (
            "instance",
            "solo-ada/models",
            "allot: solo-ada/models is no instance, but has the kind storage: run `allot status solo-ada/models`",
        ),
        ("storage", "solo-ada", "Error: solo-ada is not in the format TENANT/NAME, such as solo-ada/webui"),
    ],
)
def test_a_wrong_name_is_an_error(kind: str, name: str, message: str, run_show: Allot) -> None:
    result = run_show(kind, name)
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1] == message
