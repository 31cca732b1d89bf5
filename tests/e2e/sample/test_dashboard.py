"""Argo CD's dashboard: people of a tenant see their own Applications, as their role allows, and nothing of others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.argocd import ArgoCD
from tests.controlplane.cluster import Cluster
from tests.e2e.people import Person, logged_in
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
ADMIN, MEMBER, VIEWER, STRANGER = "00u1mio", "kite-designers", "kite-clients", "nobody0"
OWN, OTHERS = "studio-kite--eu-1--compute", "film-house--eu-1--compute"


@pytest.fixture(scope="module")
def people(sample_cluster: Cluster, argocd: ArgoCD) -> Iterator[dict[str, Person]]:
    """Return people who are logged in: three of studio-kite's, and one whom no tenant knows."""
    with logged_in(argocd, (ADMIN, MEMBER, VIEWER, STRANGER)) as people_by_name:
        yield people_by_name


@pytest.mark.parametrize("who", [ADMIN, MEMBER, VIEWER])
def test_people_see_their_own_tenants_applications_and_no_others(who: str, people: dict[str, Person]) -> None:
    person = people[who]
    eventually(lambda: person.sees() == ["studio-kite--eu-1--compute", "studio-kite--eu-1--storage"], "the list")
    assert person.ask(f"applications/{OWN}")["metadata"]["name"] == OWN
    assert person.ask(f"applications/{OTHERS}") == 403
    assert person.ask(f"applications/{OTHERS}/resource-tree") == 403
    assert person.ask(f"applications/{OTHERS}/logs?namespace=t-film-house&container=main") == 403


def test_a_person_without_a_tenant_sees_nothing(people: dict[str, Person]) -> None:
    assert people[STRANGER].sees() == []
    assert people[STRANGER].ask(f"applications/{OWN}") == 403


@pytest.mark.parametrize("who", [ADMIN, MEMBER, VIEWER])
def test_nobody_changes_anything_there(who: str, people: dict[str, Person]) -> None:
    person = people[who]
    assert person.ask(f"applications/{OWN}/sync", {}) == 403
    assert person.ask(f"applications/{OWN}", method="DELETE") == 403
    assert person.ask(f"applications/{OWN}/spec", {"project": "default"}, "PUT") == 403
    pod = "namespace=t-studio-kite&resourceName=x&version=v1&kind=Pod"
    assert person.ask(f"applications/{OWN}/resource?{pod}", method="DELETE") == 403
    assert [project["metadata"]["name"] for project in person.ask("projects")["items"]] == ["studio-kite--eu-1"]
    assert person.ask("projects/studio-kite--eu-1/roles/admin/token", {"expiresIn": 60}) == 403
    assert not person.ask("clusters")["items"]
    assert not person.ask("repositories")["items"]


@pytest.mark.parametrize(("who", "reads"), [(ADMIN, True), (MEMBER, True), (VIEWER, False)])
def test_logs_and_terminals_are_for_members(who: str, reads: bool, people: dict[str, Person]) -> None:
    """KWOK's pods have no log and no shell, so whoever may gets another answer than 403."""
    can = people[who].ask("account/can-i/logs/get/studio-kite--eu-1/compute")
    assert can == {"value": "yes" if reads else "no"}
    assert people[who].ask(f"account/can-i/exec/create/studio-kite--eu-1/{OWN}") == can
    assert people[who].ask("account/can-i/logs/get/film-house--eu-1/compute") == {"value": "no"}
    assert people[who].ask(f"account/can-i/exec/create/film-house--eu-1/{OTHERS}") == {"value": "no"}
    # In a preparation a terminal would read the keys that it fetches with, and write what nobody reviewed.
    storage = "studio-kite--eu-1/studio-kite--eu-1--storage"
    assert people[who].ask(f"account/can-i/exec/create/{storage}") == {"value": "no"}
    assert people[who].ask(f"account/can-i/logs/get/{storage}") == can
    logs = people[who].ask(f"applications/{OWN}/logs?namespace=t-studio-kite&podName=x&container=main")
    assert (logs == 403) is not reads


def test_the_sample_is_what_they_see(sample_tree: Path, people: dict[str, Person]) -> None:
    """What the tests above rely on is declared: these subjects, in these roles."""
    text = (sample_tree / "control/argo/s/studio-kite.rendered.yaml").read_text()
    assert all(f"- {name}" in text or f'- "{name}"' in text for name in (ADMIN, MEMBER, VIEWER))
