"""`allot cluster add`, `pool add` and `tariff add`: a second cluster that is valid, and errors that name the option."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import Allot
from tests.support.published import Place, git

CLUSTER = ("cluster", "add", "us-2", "--domain", "us-2.gpu.acme.dev", "--oidc-issuer", "https://id.acme.dev")
POOL = ("pool", "add", "us-2/l4-nodes", "--gpu", "nvidia-l4", "--gpu-count", "4", "--cpu", "46", "--memory", "190Gi")
PLAN = ("tariff", "add", "course", "--gpu", "nvidia-l4=1", "--instances", "2", "--storages", "2", "--storage", "100Gi")


def test_a_second_cluster_gets_a_pool_and_units(place: Place, allot: Allot) -> None:
    here = ("--commit", "--repo", place.root)
    result = allot(*CLUSTER, *here, "-o", "json")
    assert result.code == 0, result
    answer = json.loads(result.out)
    assert (answer["stage"], answer["title"], answer["resources"]) == ("Commit", "Add cluster us-2", ["Cluster us-2"])
    assert len([note for note in answer["notes"] if note.startswith("Replace ")]) == 5
    assert allot(*POOL, "--nodes", "2", *here).code == 0
    assert allot("stock", "add", "us-2/l4-whole", "--spec", "l4-whole", "--count", "8", *here).code == 0
    assert git(place.root, "log", "-3", "--format=%s").splitlines() == [
        "Add stock us-2/l4-whole",
        "Add node pool us-2/l4-nodes",
        "Add cluster us-2",
    ]
    assert allot("validate", place.root / "clusters/us-2", "--repo", place.root).code == 0


def test_a_tenant_uses_a_new_plan(place: Place, allot: Allot) -> None:
    result = allot(*PLAN, "--budget", "50", "--repo", place.root)
    assert result.code == 0, result
    assert "`allot tenant create TENANT --plan course` puts a tenant on the plan.\n" in result.out
    words = ("tenant", "create", "blue-fox", "--plan", "course", "--admin", "fay", "--no-input", "--repo", place.root)
    assert allot(*words).code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (CLUSTER[:3], "2 options missing: add --domain (a domain such as"),
        (("pool", "add", "us-2"), "'us-2' is not in the format CLUSTER/NAME, such as eu-1/l4-whole"),
        (("pool", "add", "eu-1/l4-more"), "5 options missing: add --gpu (a GPU model such as nvidia-a100-80gb, "),
        (PLAN[:5], "3 options missing: add --instances"),
    ],
)
def test_an_error_names_the_missing_options(words: tuple[str, ...], message: str, sample: Path, allot: Allot) -> None:
    result = allot(*words, "--repo", sample)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
