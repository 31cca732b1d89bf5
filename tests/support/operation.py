"""A change of an instance with an operation ID, from the branch to the merge."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Allot, Result
from tests.support.published import Place, git

ID = "deploy-2026.11_a"
WEBUI = "tenants/solo-ada/instances/webui.yaml"
STOP = ("instance", "stop", "solo-ada/webui", "--operation-id", ID, "-o", "json")


def push(allot: Allot, root: Path, *words: object) -> Result:
    return allot(*(words or STOP), "--push", "--repo", root)


def branches(place: Place) -> list[str]:
    names = git(place.remote, "for-each-ref", "--format=%(refname:short)", "refs/heads/allot/").split()
    return [name for name in names if name.startswith("allot/")]


def merge(place: Place, *options: str) -> None:
    """Merge the only branch of a command as a forge does, and delete the branch."""
    (branch,) = branches(place)
    git(place.root, "fetch", "-q", "origin")
    git(place.root, "checkout", "-q", "--detach", "origin/main")
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@northlight.example")
    git(place.root, *identity, "merge", "-q", *options, f"origin/{branch}")
    if "--squash" in options:
        git(place.root, *identity, "commit", "-q", "-m", "Squashed (#1)")
    git(place.root, "push", "-q", "origin", "HEAD:main", f":{branch}")
    git(place.root, "checkout", "-q", "main")
