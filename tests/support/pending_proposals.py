"""Pull requests that propose a file, and their URLs in the list of pending changes."""

from __future__ import annotations

from allotment.adapters import forge
from allotment.adapters.forge.forge import Token
from tests.adapters.forge.server import REPOSITORY, TOKEN
from tests.support.comment_desk import Desk
from tests.support.published import git


def propose_new(desk: Desk, number: int, path: str, text: str) -> None:
    """Open a pull request that adds a file."""
    root = desk.place.root
    git(root, "checkout", "-q", "-B", f"change-{number}")
    (root / path).write_text(text, encoding="utf-8")
    git(root, "add", path)
    desk.open(number, "ada-k")


def find_urls(desk: Desk) -> dict[int, str]:
    """Return the URL of each open pull request, as the forge's adapter reads it."""
    connection = forge.connect(desk.world.kind, f"https://forge.example/{REPOSITORY}", Token(TOKEN), desk.world.api)
    return {request.number: request.url for request in connection.open_pull_requests("main")}
