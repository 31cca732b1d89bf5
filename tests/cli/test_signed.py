"""Where the platform declares its publisher's key, what that key hasn't signed was never published, whatever refs say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.adapters.git.malformed import entry, replaced, write, write_commit
from tests.conftest import edit
from tests.support.brake_limits import GROUPS, brake, put_back, remove
from tests.support.published import Place, Running, git
from tests.support.signing_keys import declare, new_key

from allotment.branches import rendered_branches
from allotment.branches.rendered_branches import SOURCE_REF

ROOT = "tenants/solo-ada/compute/root.yaml"
BOTH = ("refs/heads/rendered/eu-1", "refs/allotment/published/eu-1")
WEBUI = "tenants/solo-ada/instances/webui.yaml"


@pytest.fixture
def key(place: Place, tmp_path: Path) -> Path:
    """Return the key that the platform declares; nothing is published yet."""
    key_path = new_key(tmp_path, "key")
    declare(place, key_path)
    place.merge()
    return key_path


def forge(place: Place, *refs: str, parent: str = "rendered/eu-1", also: str = "") -> str:
    """Write a commit as who may push anything would, with a binding of cluster-admin, and point refs at it."""
    remote = place.remote
    tip = git(remote, "rev-parse", parent)
    blob = write(remote, "blob", b"kind: ClusterRoleBinding\n")
    folder = git(remote, "rev-parse", f"{tip}:tenants/solo-ada/compute")
    lines = [line.split() for line in git(remote, "ls-tree", folder).splitlines() if not line.endswith("\troot.yaml")]
    entries = sorted([("root.yaml", blob), *((name, object_id) for _, _, object_id, name in lines)])
    tree = write(
        remote, "tree", b"".join(entry("100644", name, bytes.fromhex(object_id)) for name, object_id in entries)
    )
    commit = write_commit(
        remote, replaced(remote, tip, "tenants/solo-ada/compute", tree), tip, *([also] if also else [])
    )
    for ref in refs:
        git(remote, "update-ref", ref, commit)
    return commit


def test_publish_signs_commits_and_refuses_another_key(place: Place, key: Path, tmp_path: Path) -> None:
    for words in ((), ("--signing-key", new_key(tmp_path, "other"))):
        result = place.publish(*words)
        assert (result.code, "name the private key that belongs to it with --signing-key" in result.err) == (2, True)
    assert place.refs() == {}
    assert place.publish("--dry-run").code == 0
    assert place.publish("--signing-key", key).code == 0
    signers = tmp_path / "signers"
    signers.write_text(f"publisher {key.with_suffix('.pub').read_text()}")
    for cluster in ("eu-1", "us-1"):
        git(place.remote, "-c", f"gpg.ssh.allowedSignersFile={signers}", "verify-commit", f"rendered/{cluster}")
    assert "gpgsign" not in git(place.root, "config", "--list", "--local"), "the checkout's own configuration stays"
    assert place.publish("--signing-key", key).out == "2 clusters: nothing changed\n"


def test_both_refs_moved_by_somebody_else_are_told_and_replaced(place: Place, key: Path) -> None:
    place.publish("--signing-key", key)
    before = git(place.remote, "rev-parse", "rendered/eu-1^{tree}")
    forged = forge(place, *BOTH)
    assert ROOT in place.tree("eu-1")
    result = place.publish("--signing-key", key)
    assert (result.code, f"; it replaces {forged[:12]}, which Allotment didn't write" in result.out) == (4, True), (
        result.err
    )
    assert place.publish("--signing-key", key).code == 0
    assert git(place.remote, "rev-parse", "rendered/eu-1^{tree}") == before
    assert git(place.remote, "merge-base", "--is-ancestor", forged, "rendered/eu-1") == "", "nothing was forced"
    assert place.publish("--signing-key", key).out == "2 clusters: nothing changed\n"


@pytest.mark.parametrize("refs", [BOTH[:1], BOTH[1:]], ids=["the branch", "our ref"])
def test_one_ref_moved_by_somebody_else_is_told_and_replaced(place: Place, key: Path, refs: tuple[str, ...]) -> None:
    place.publish("--signing-key", key)
    before = git(place.remote, "rev-parse", "rendered/eu-1^{tree}")
    forged = forge(place, *refs)
    assert f"it replaces {forged[:12]}" in place.publish("--signing-key", key).out
    place.publish("--signing-key", key)
    assert git(place.remote, "rev-parse", "rendered/eu-1^{tree}") == before
    assert place.publish("--signing-key", key).out == "2 clusters: nothing changed\n"


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(b"x" * (2 << 20), id="more than we read"),
        pytest.param(
            b"gpgsig -----BEGIN SSH SIGNATURE-----\n AAAA\n -----END SSH SIGNATURE-----\n", id="not signed by us"
        ),
    ],
)
def test_a_strange_commit_at_our_ref_stops_nobody(more: bytes, place: Place, key: Path) -> None:
    place.publish("--signing-key", key)
    before = git(place.remote, "rev-parse", "rendered/eu-1^{tree}")
    plain = subprocess.run(
        ["git", "cat-file", "commit", forge(place)], cwd=place.remote, check=True, capture_output=True
    ).stdout
    header, _, _ = plain.partition(b"\n\n")
    text = b"Publish eu-1: forged\n"
    strange = header + b"\n\n" + text + more if more.startswith(b"x") else header + b"\n" + more + b"\n" + text
    forged = write(place.remote, "commit", strange)
    for ref in BOTH:
        git(place.remote, "update-ref", ref, forged)
    result = place.publish("--signing-key", key)
    assert (result.code, f"it replaces {forged[:12]}" in result.out) == (4, True), result.err
    place.publish("--signing-key", key)
    assert git(place.remote, "rev-parse", "rendered/eu-1^{tree}") == before
    assert place.publish("--signing-key", key).out == "2 clusters: nothing changed\n"


@pytest.mark.parametrize("kind", ["blob", "tag"])
def test_publish_reports_and_replaces_a_ref_without_a_commit(place: Place, key: Path, kind: str) -> None:
    place.publish("--signing-key", key)
    before = place.tree("eu-1")
    tip = git(place.remote, "rev-parse", "rendered/eu-1")
    tag = f"object {tip}\ntype commit\ntag x\ntagger a <a@b.example> 1 +0000\n\nx\n"
    strange = write(place.remote, kind, tag.encode() if kind == "tag" else b"x\n")
    git(place.remote, "update-ref", BOTH[1], strange)
    result = place.publish("--signing-key", key)
    assert (result.code, f"it replaces {strange[:12]}" in result.out) == (4, True), result
    place.publish("--signing-key", key)
    refs = place.refs()
    assert (refs[BOTH[0]], place.tree("eu-1")) == (refs[BOTH[1]], before)
    assert place.publish("--signing-key", key).out == "2 clusters: nothing changed\n"


def test_our_refs_that_are_gone_come_back_from_the_branches(place: Place, key: Path) -> None:
    place.publish("--signing-key", key)
    before = place.refs()
    for cluster in ("eu-1", "us-1"):
        git(place.remote, "update-ref", "-d", f"refs/allotment/published/{cluster}")
    assert place.publish("--signing-key", key).out == "2 clusters: nothing changed\n"
    assert place.refs() == before


def test_publish_retains_an_invalid_tenant_after_deletion_of_a_ref(place: Place, key: Path) -> None:
    place.publish("--signing-key", key)
    before = place.tree("eu-1")
    git(place.remote, "update-ref", "-d", BOTH[1])
    (place.root / WEBUI).write_text("nonsense")
    assert "retained: tenant solo-ada" in place.merged("--signing-key", key).err
    assert place.tree("eu-1") == before


def test_publish_deletes_no_tenant_after_deletion_of_refs(place: Place, key: Path) -> None:
    place.publish("--signing-key", key)
    shutil.rmtree(place.root / "tenants/solo-ada")
    for ref in place.refs():
        if not ref.startswith("refs/heads/"):
            git(place.remote, "update-ref", "-d", ref)
    before = place.refs()
    result = place.merged("--signing-key", key)
    assert (result.code, "first merge lifecycle: Retired" in result.err) == (4, True)
    assert {name: place.refs()[name] for name in before} == before


def test_a_cluster_of_which_all_is_gone_waits_for_a_person_and_a_new_one_for_nobody(place: Place, key: Path) -> None:
    place.publish("--signing-key", key)
    for ref in BOTH:
        git(place.remote, "update-ref", "-d", ref)
    refs = place.refs()
    result = place.publish("--signing-key", key)
    assert (result.code, "`allot publish --adopt` once" in result.err, place.refs()) == (2, True, refs), result
    assert place.publish("--signing-key", key, "--adopt").code == 0
    assert place.publish("--signing-key", key).out == "2 clusters: nothing changed\n"
    shutil.copytree(place.root / "clusters/us-1", place.root / "clusters/us-2")
    for file in (place.root / "clusters/us-2").rglob("*.yaml"):
        file.write_text(file.read_text().replace("us-1", "us-2"))
    result = place.merged("--signing-key", key)
    assert result.code == 0, result.err
    assert "refs/allotment/published/us-2" in place.refs()


def test_a_ref_that_was_put_back_undoes_nothing_that_the_branch_proves(place: Place, key: Path) -> None:
    place.publish("--signing-key", key)
    older = place.refs()[BOTH[1]]
    edit(place.root, WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    place.merged("--signing-key", key)
    newer = place.refs()[BOTH[0]]
    git(place.remote, "update-ref", BOTH[1], older)
    result = place.publish("--signing-key", key)
    assert (result.code, "replaces" in result.out) == (0, False), (
        "a push that moved the branch alone leaves the same refs"
    )
    assert (place.refs()[BOTH[0]], place.refs()[BOTH[1]]) == (newer, newer)


@pytest.mark.parametrize("to", ["aside", "on top", "a blob", "back", "nowhere"])
def test_publish_works_and_refuses_rewinds_despite_a_moved_source_ref(place: Place, key: Path, to: str) -> None:
    place.publish("--signing-key", key)
    first = git(place.root, "rev-parse", "main")
    edit(place.root, WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    place.merged("--signing-key", key)
    tree, last = (git(place.root, "rev-parse", revision) for revision in ("main^{tree}", "main"))
    moved = {
        "aside": lambda: write_commit(place.remote, tree),
        "on top": lambda: write_commit(place.remote, tree, last),
        "a blob": lambda: write(place.remote, "blob", b"x"),
        "back": lambda: first,
        "nowhere": lambda: "",
    }[to]()
    git(place.remote, "update-ref", *((SOURCE_REF, moved) if moved else ("-d", SOURCE_REF)))
    edit(place.root, WEBUI, "state: Stopped", "state: Running")
    assert place.merged("--signing-key", key).code == 0
    assert place.refs()[SOURCE_REF] == git(place.root, "rev-parse", "main")
    git(place.remote, "update-ref", *((SOURCE_REF, moved) if moved else ("-d", SOURCE_REF)))
    git(place.root, "reset", "-q", "--hard", last)
    git(place.root, "push", "-q", "--force", "origin", "main")
    refs = place.refs()
    result = place.publish("--signing-key", key)
    assert (result.code, "the source was rewound" in result.err, place.refs()) == (2, True, refs), "the key proves it"
    assert place.publish("--signing-key", key, "--adopt").code == (0 if to in ("back", "nowhere") else 2)


@pytest.mark.parametrize("to", ["our last", "a stranger's", "a blob"])
def test_brake_stops_publish_despite_a_moved_approval_ref(place: Place, key: Path, to: str) -> None:
    ref = "refs/allotment/approved/eu-1"
    brake(place, 60, 4)
    place.merged("--signing-key", key, hours_ago=20)
    for path in GROUPS[:2]:
        remove(place, [path])
        assert place.merged("--signing-key", key, hours_ago=1).code == 0
    moved = {
        "our last": lambda: place.refs()[BOTH[0]],
        "a stranger's": lambda: forge(place),
        "a blob": lambda: write(place.remote, "blob", b"x"),
    }[to]()
    git(place.remote, "update-ref", ref, moved)
    last = remove(place, GROUPS[2:])
    result = place.merged("--signing-key", key)
    assert (result.code, "the brake stops this: 4 of 4 instances of tenant uni-lab" in result.err) == (4, True), result
    put_back(last)
    brake(place, 60, 4, result.checksum)
    place.merged("--signing-key", key)
    remove(place, GROUPS[2:])
    result = place.merged("--signing-key", key)
    assert result.code == 0, result.err
    refs = place.refs()
    assert refs[ref] == refs[BOTH[0]] != moved
    assert "Brake: approved" in git(place.remote, "log", "-1", "--format=%B", ref).splitlines()
    remove(place, [WEBUI])
    assert place.merged("--signing-key", key).code == 0, "what was approved counts no more"


def test_brake_counts_no_approval_of_a_commit_that_its_pull_request_reverts(place: Place, key: Path) -> None:
    """Nobody reviewed such a commit, and the source ref can be moved to it."""
    brake(place, 60, 4)
    place.merged("--signing-key", key)
    last = remove(place, GROUPS)
    refused = place.merged("--signing-key", key)
    assert refused.code == 4, refused
    put_back(last)
    assert place.merged("--signing-key", key).code == 0
    git(place.root, "checkout", "-q", "-b", "feature")
    brake(place, 60, 4, refused.checksum)
    identity = ("-c", "user.name=Mallory", "-c", "user.email=m@evil.example")
    git(place.root, *identity, "commit", "-q", "-am", "Approve")
    approving = git(place.root, "rev-parse", "HEAD")
    git(place.root, *identity, "revert", "--no-edit", "HEAD")
    git(place.root, *identity, "commit", "-q", "--allow-empty", "-m", "More")
    git(place.root, "checkout", "-q", "main")
    git(place.root, *identity, "merge", "-q", "--no-ff", "-m", "Merge", "feature")
    remove(place, GROUPS)
    place.merge()
    git(place.remote, "update-ref", SOURCE_REF, approving)
    assert place.publish("--signing-key", key).code == 4


def test_a_crowd_of_false_signatures_is_no_way_to_keep_us_busy(
    place: Place, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendered_branches, "MOST_FORGED", 3)
    place.publish("--signing-key", key)
    for _ in range(4):
        forge(place, *BOTH)
    refs = place.refs()
    result = place.publish("--signing-key", key)
    assert (result.code, "none of the newest 3 commits" in result.err) == (2, True)
    assert place.refs() == refs


def test_publish_refuses_a_commit_with_a_signature_for_another_cluster(place: Place, key: Path) -> None:
    place.publish("--signing-key", key)
    other = git(place.remote, "rev-parse", "rendered/us-1")
    for ref in BOTH:
        git(place.remote, "update-ref", ref, other)
    refs = place.refs()
    result = place.publish("--signing-key", key)
    assert (result.code, "nothing was published" in result.err) == (2, True)
    assert f"refs/allotment/published/eu-1 is at {other[:12]}" in result.err
    assert place.refs() == refs


def test_nothing_signed_before_stops_until_a_person_believes_it(published: Place, tmp_path: Path) -> None:
    before = {
        name: git(published.remote, "rev-parse", f"{name}^{{tree}}") for name in ("rendered/eu-1", "rendered/us-1")
    }
    key = new_key(tmp_path, "key")
    declare(published, key)
    published.merge()
    refs = published.refs()
    result = published.publish("--signing-key", key)
    assert (result.code, "`allot publish --adopt --signing-key FILE` once" in result.err) == (2, True)
    assert published.refs() == refs
    assert published.publish("--signing-key", key, "--adopt").code == 0
    assert {name: git(published.remote, "rev-parse", f"{name}^{{tree}}") for name in before} == before
    assert published.publish("--signing-key", key).out == "2 clusters: nothing changed\n", "once is enough"
    edit(published.root, WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    assert published.merged("--signing-key", key).code == 0


@pytest.mark.process
def test_a_running_publisher_tells_it(place: Place, key: Path, tmp_path: Path) -> None:
    running = Running(place.remote.as_uri(), tmp_path / "data", 1, "--signing-key", str(key))
    try:
        running.event("published", cluster="eu-1")
        forged = forge(place, *BOTH)
        running.event("foreign commit replaced", cluster="eu-1", commit=forged)
        assert running.metric('allotment_foreign_commits_total{cluster="eu-1"}') == 1
    finally:
        running.end()
    assert ROOT not in place.tree("eu-1")


def test_the_way_out_of_rewound_is_what_the_message_says(published: Place) -> None:
    """A source ref that somebody moved away stops publishing until it is gone; deleting it loses nothing that runs."""
    branches = {name: commit for name, commit in published.refs().items() if name != SOURCE_REF}
    orphan = write_commit(published.remote, git(published.remote, "rev-parse", "main^{tree}"))
    git(published.remote, "update-ref", SOURCE_REF, orphan)
    result = published.publish()
    assert (result.code, "the source was rewound" in result.err) == (2, True)
    command = result.err.partition("`git push ")[2].partition("`")[0].split()
    git(published.root, "push", "-q", *command)
    assert published.publish().out == "2 clusters: nothing changed\n"
    assert published.refs() == {**branches, SOURCE_REF: git(published.root, "rev-parse", "main")}


AS_IMAGE_USER = ("unshare", "--user", "--map-user=65532", "--map-group=65532")  # who has no line in /etc/passwd


@pytest.mark.process
@pytest.mark.parametrize("user", ["without a line in /etc/passwd", "without ssh-keygen"])
def test_a_signature_that_cannot_be_checked_is_not_missing(place: Place, key: Path, tmp_path: Path, user: str) -> None:
    assert place.publish("--signing-key", key).code == 0
    before, prefix, environment = place.refs(), AS_IMAGE_USER, dict(os.environ)
    if user == "without ssh-keygen":
        prefix = ()
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/git").symlink_to(str(shutil.which("git")))
        environment["PATH"] = str(tmp_path / "bin")

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [*prefix, sys.executable, "-m", "allotment", *map(str, words), "--repo", str(place.root)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    for words in (("publish", "--signing-key", key), ("publish", "--dry-run"), ("status",), ("doctor",)):
        done = run(*words)
        text = done.stdout + done.stderr
        assert done.returncode in (0, 1, 2, 4), text
        assert "signatures can't be checked: ssh-keygen" in text, text
        assert "--adopt" not in text
    assert place.refs() == before
