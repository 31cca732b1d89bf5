"""A tenant's pull request from its plan to its URL: real forge, real Argo CD, real API server; nobody runs a command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.gitea import ADMIN
from tests.e2e.cloud import REPOSITORY, Cloud
from tests.e2e.pulls import Person
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("restored_declarations")]
ADA = "tenants/solo-ada"
WEBUI = f"{ADA}/instances/webui.yaml"


@pytest.fixture(scope="module")
def ada(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    person = Person(cloud.gitea, "ada", REPOSITORY, tmp_path_factory.mktemp("people") / "ada")
    yield person
    person.forget()


@pytest.fixture(scope="module")
def admin(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    person = Person(cloud.gitea, ADMIN, REPOSITORY, tmp_path_factory.mktemp("people") / "admin")
    yield person
    person.forget()


def wait_for_comment(person: Person, number: int, marker: str, *texts: str, seconds: float = 120) -> str:
    """Return the bot's comment with a marker, once all these texts are in it."""

    def find_comment() -> str:
        text = person.comment(number, marker)
        assert all(expected_text in text for expected_text in texts), text
        return text

    return eventually(find_comment, f"{texts} on #{number}", seconds, pause=0.5)


def merged(cloud: Cloud, admin: Person, number: int, style: str = "merge") -> None:
    """Merge a pull request, and wait until what is published of it is synced."""
    admin.merge(number, style)

    def published() -> bool:
        refs = cloud.published()
        return refs["refs/allotment/source"] == refs["refs/heads/main"]

    eventually(published, f"#{number} to be published", 60)
    cloud.changes_synced()


def test_a_pull_request_is_planned_merged_and_followed_to_its_url(cloud: Cloud, ada: Person, admin: Person) -> None:
    ada.sync()
    (ada.root / WEBUI).unlink()
    ada.write(
        f"{ADA}/instances/sketch.yaml",
        (Path(cloud.root) / WEBUI).read_text().replace("name: webui\n", "name: sketch\n", 1),
    )
    number = ada.open("sketch")
    wait_for_comment(ada, number, "plan", "### ✅ This can be merged", "`instance solo-ada/webui in eu-1` is removed")
    assert eventually(lambda: ada.status(number)[0], "a verdict") == "success"
    merged(cloud, admin, number)
    url = "<https://sketch--solo-ada.eu-1.gpu.northlight.example/>"
    text = wait_for_comment(ada, number, "rollout", "1 running", url, "| gone |", seconds=180)
    assert text.startswith("<!-- allotment:rollout -->\n\n### ✅ Rollout of `")
    assert eventually(lambda: ada.status(number, "allot/rollout")[0] == "success", "the last word", 60)
    assert len(ada.comments(number)) == 2, "one plan, one rollout"


def test_a_failure_is_told_with_reason_and_remedy_and_then_that_the_instance_runs(
    cloud: Cloud, ada: Person, admin: Person
) -> None:
    ada.sync()
    ada.edit(
        f"{ADA}/instances/sketch.yaml", "  name: sketch\n", "  name: sketch\n  labels:\n    simulate: image-missing\n"
    )
    number = ada.open("fails")
    wait_for_comment(ada, number, "plan", "This can be merged")
    merged(cloud, admin, number, "squash")
    wait_for_comment(ada, number, "rollout", "1 failed", "→ correct the image's name and digest", seconds=180)
    assert eventually(lambda: ada.status(number, "allot/rollout")[0] == "failure", "a failure", 60)
    ada.sync()
    ada.edit(f"{ADA}/instances/sketch.yaml", "  labels:\n    simulate: image-missing\n", "")
    other = ada.open("mended")
    merged(cloud, admin, other, "rebase")
    wait_for_comment(ada, number, "rollout", "overtaken", seconds=180)
    wait_for_comment(ada, other, "rollout", "1 running", seconds=180)


def test_a_rollout_whose_comment_a_person_took_away_is_silent(cloud: Cloud, ada: Person, admin: Person) -> None:
    with cloud.publisher_stopped():
        ada.sync()
        ada.edit(f"{ADA}/instances/sketch.yaml", "spec:\n", "spec:\n  state: Stopped\n")
        number = ada.open("stopped")
        admin.merge(number)
    wait_for_comment(ada, number, "rollout")
    (mine,) = [comment for comment in ada.comments(number) if "allotment:rollout" in comment["body"]]
    admin.api(f"issues/comments/{mine['id']}", method="DELETE")
    cloud.changes_synced()
    ada.sync()
    ada.edit("tenants/solo-ada/storages/models.yaml", "spec:\n", "spec:\n  description: Mine.\n")
    other = ada.open("another")
    merged(cloud, admin, other)
    wait_for_comment(ada, other, "rollout", seconds=180)
    assert not [comment for comment in ada.comments(number) if "allotment:rollout" in comment["body"]]
