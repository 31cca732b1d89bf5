"""`allot secret create` asks for a confirmation on a terminal, as the other commands that create a declaration."""

from __future__ import annotations

from tests.support.published import Place, git
from tests.support.terminal import answer_questions, start_dialogue

NEW = ("secret", "create", "solo-ada/keys", "--cluster", "eu-1", "--key", "token")


def test_a_secret_is_shown_and_confirmed_on_a_terminal(place: Place) -> None:
    child = start_dialogue(place.root, *NEW)
    child.expect_exact("Create it? [Y/n]:")
    assert "+    - name: token" in str(child.before), "the difference comes first"
    child.sendline("n")
    assert answer_questions(child) == (" n\nnothing was changed\n", 1)
    assert git(place.root, "status", "--short") == ""


def test_yes_answers_the_question(place: Place) -> None:
    output, status = answer_questions(start_dialogue(place.root, *NEW, "--yes"))
    assert (status, "Create it?" in output) == (0, False), output
    assert (place.root / "tenants/solo-ada/secrets/keys.yaml").is_file()
