"""A commit whose trees Git doesn't write: refused by plan, validate and publish, whatever way it comes to the branch
that counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.adapters.git.malformed import entry, replaced, write, write_commit
from tests.conftest import DAY, Allot
from tests.support.published import INSTANCE, Place, git

from allotment.manifests.paths import resource_file

EVIL = "tenants/northlight/instances/evil.yaml"


@pytest.fixture
def place(published: Place) -> Place:
    return published


def raw(folder: Path, tree: str) -> list[tuple[str, str, bytes]]:
    """Return mode, name and raw id of what a tree has."""
    lines = [line.replace("\t", " ").split(" ", 3) for line in git(folder, "ls-tree", tree).splitlines()]
    return [(mode.lstrip("0"), name, bytes.fromhex(id_)) for mode, _, id_, name in lines]


def with_twin(folder: Path, tree: str, name: str, twin: str) -> str:
    """Return a tree like another one, with an entry of a name that it has before its own."""
    data = b""
    for mode, entry_name, id_ in raw(folder, tree):
        if entry_name == name:
            data += entry("40000", name, bytes.fromhex(twin))
        data += entry(mode, entry_name, id_)
    return write(folder, "tree", data)


def folders(folder: Path, path: str, text: str) -> str:
    """Return a tree with nothing but a file below it."""
    name, _, rest = path.partition("/")
    inner = folders(folder, rest, text) if rest else write(folder, "blob", text.encode())
    return write(folder, "tree", entry("40000" if rest else "100644", name, bytes.fromhex(inner)))


def twin_of_a_tenant(folder: Path) -> tuple[str, str]:
    """Return the tree of main with two folders `northlight`, the first with an instance, and the malformed tree."""
    evil = folders(folder, "instances/evil.yaml", INSTANCE.format(name="evil", labels=""))
    bad = with_twin(folder, "main:tenants", "northlight", evil)
    return replaced(folder, "main", "tenants", bad), bad


def twin_of_a_root(name: str, path: str) -> Callable[[Path], tuple[str, str]]:
    """Return what returns the tree of main with two folders of a root's name, the first with a file, and the
    malformed tree."""

    def build(folder: Path) -> tuple[str, str]:
        original = git(folder, "show", f"main:{name}/{path}") + "\n"
        bad = with_twin(folder, "main^{tree}", name, folders(folder, path, original))
        return bad, bad

    return build


BUILDS = {
    "a tenant": twin_of_a_tenant,
    "tenants": twin_of_a_root("tenants", "northlight/tenant.yaml"),
    "platform": twin_of_a_root("platform", "plans/team.yaml"),
    "clusters": twin_of_a_root("clusters", "eu-1/cluster.yaml"),
}


def merge(folder: Path, head: str) -> str:
    """Return what a forge's merge makes of a head whose base moved on: a tree with both, by whoever reads the first
    of two."""
    tree = git(folder, "rev-parse", f"{head}^{{tree}}")
    return write_commit(folder, tree, git(folder, "rev-parse", "main"), head)


def squash(folder: Path, head: str) -> str:
    return write_commit(folder, git(folder, "rev-parse", f"{head}^{{tree}}"), git(folder, "rev-parse", "main"))


def fast_forward(_: Path, head: str) -> str:
    return head


@pytest.mark.parametrize("what", BUILDS)
@pytest.mark.parametrize("way", [merge, squash, fast_forward], ids=lambda way: way.__name__)
def test_two_entries_of_one_name_reach_nothing(
    what: str, way: Callable[[Path, str], str], place: Place, allot: Allot
) -> None:
    before = place.refs()
    root = place.root
    tree, bad = BUILDS[what](root)
    head = write_commit(root, tree, git(root, "rev-parse", "main"))
    planned = allot("plan", "--repo", root, "--base", "main", "--head", head, "--author", "ada-k", "--as-of", DAY)
    assert planned.code == 1
    assert f"tree {bad} is malformed: the name" in planned.out
    assert "can't be merged" in planned.out
    came = way(root, head)
    git(root, "update-ref", "refs/heads/main", came)
    for commit in (head, came):
        checked = allot("validate", "--repo", root, "--commit", commit, "--as-of", DAY)
        assert (checked.code, f"tree {bad} is malformed" in checked.err) == (2, True)
    result = place.publish("--commit", "main", "--to", place.remote)
    assert (result.code, f"tree {bad} is malformed" in result.err) == (2, True)
    assert "go back to the commit before it" in result.err
    assert place.refs() == before
    reversed_plan = allot("plan", "--repo", root, "--base", "main", "--head", head, "--as-of", DAY)
    assert (reversed_plan.code, f"tree {bad} is malformed" in reversed_plan.err) == (2, True), (
        "a base that is malformed takes nothing"
    )


def test_a_merge_of_what_moved_on_is_refused_too(place: Place, allot: Allot) -> None:
    root = place.root
    tree, bad = twin_of_a_tenant(root)
    head = write_commit(root, tree, git(root, "rev-parse", "main"))
    (root / "tenants/solo-ada/instances/another.yaml").write_text(INSTANCE.format(name="another", labels=""))
    place.merge()
    planned = allot("plan", "--repo", root, "--base", "main", "--head", head, "--as-of", DAY)
    assert (planned.code, f"tree {bad} is malformed" in planned.out) == (1, True)


def test_publish_replaces_a_malformed_tip_with_the_same_tree(place: Place) -> None:
    root, remote = place.root, place.remote
    before = git(remote, "rev-parse", "rendered/eu-1^{tree}")
    tip = git(remote, "rev-parse", "rendered/eu-1")
    evil = folders(remote, "root.yaml", "kind: ClusterRoleBinding\n")
    bad = with_twin(remote, "rendered/eu-1^{tree}", "tenants", evil)
    foreign = write_commit(remote, bad, tip)
    git(remote, "update-ref", "refs/heads/rendered/eu-1", foreign)
    result = place.publish()
    assert (result.code, f"it replaces {foreign[:12]}" in result.out) == (4, True), result.err
    assert place.publish().code == 0
    assert git(remote, "rev-parse", "rendered/eu-1^{tree}") == before
    assert place.publish().out == "2 clusters: nothing changed\n"
    assert not (root / "root.yaml").exists()


def test_a_malformed_status_is_not_believed_and_stops_nobody(place: Place, allot: Allot) -> None:
    remote = place.remote
    seen = place.report("eu-1")
    bad = write(remote, "tree", 2 * entry("100644", "stocks.yaml", raw(remote, seen)[0][2]))
    forged = write_commit(remote, bad, seen)
    for name in ("refs/heads/status/eu-1", "refs/allotment/status/eu-1"):
        git(remote, "update-ref", name, forged)
    (place.root / "tenants/solo-ada/instances/another.yaml").write_text(INSTANCE.format(name="another", labels=""))
    assert place.merged().code == 0
    assert resource_file("solo-ada", "compute", "another") in place.tree("eu-1")
    result = allot("status", "--repo", place.root)
    assert f"tree {bad} is malformed" in result.out + result.err
