"""Where the platform declares its publisher's key, what that key hasn't signed was never published, whatever refs say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.adapters.git.malformed import entry, replaced, write, write_commit
from tests.conftest import edit
from tests.published import Place, Running, git

from allotment.adapters.git import rendered
from allotment.adapters.git.rendered import SOURCE

ROOT = "tenants/solo-ada/compute/root.yaml"
BOTH = ("refs/heads/rendered/eu-1", "refs/allotment/published/eu-1")
WEBUI = "tenants/solo-ada/instances/webui.yaml"


def new_key(folder: Path, name: str) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)], check=True)
    return folder / name


@pytest.fixture
def key(place: Place, tmp_path: Path) -> Path:
    """Return the key that the platform declares; nothing is published yet."""
    found = new_key(tmp_path, "key")
    declare(place, found)
    place.merge()
    return found


def declare(place: Place, key: Path) -> None:
    public = key.with_suffix(".pub").read_text().strip()
    edit(place.root, "platform/platform.yaml", "spec:\n", f"spec:\n  publisher:\n    publicKey: {public}\n")


def forge(place: Place, *refs: str, parent: str = "rendered/eu-1", also: str = "") -> str:
    """Write a commit as who may push anything would, with a binding of cluster-admin, and point refs at it."""
    remote = place.remote
    tip = git(remote, "rev-parse", parent)
    blob = write(remote, "blob", b"kind: ClusterRoleBinding\n")
    folder = git(remote, "rev-parse", f"{tip}:tenants/solo-ada/compute")
    lines = [line.split() for line in git(remote, "ls-tree", folder).splitlines() if not line.endswith("\troot.yaml")]
    several = sorted([("root.yaml", blob), *((name, one) for _, _, one, name in lines)])
    tree = write(remote, "tree", b"".join(entry("100644", name, bytes.fromhex(one)) for name, one in several))
    commit = write_commit(
        remote, replaced(remote, tip, "tenants/solo-ada/compute", tree), tip, *([also] if also else [])
    )
    for ref in refs:
        git(remote, "update-ref", ref, commit)
    return commit


def test_what_is_published_is_signed_and_another_key_publishes_nothing(place: Place, key: Path, tmp_path: Path) -> None:
    for words in ((), ("--signing-key", new_key(tmp_path, "other"))):
        said = place.publish(*words)
        assert (said.code, "name the private key of that one with --signing-key" in said.err) == (2, True)
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
    said = place.publish("--signing-key", key)
    assert (said.code, f"; it replaces {forged[:12]}, which Allotment didn't write" in said.out) == (0, True), said.err
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
    said = place.publish("--signing-key", key)
    assert (said.code, f"it replaces {forged[:12]}" in said.out) == (0, True), said.err
    place.publish("--signing-key", key)
    assert git(place.remote, "rev-parse", "rendered/eu-1^{tree}") == before
    assert place.publish("--signing-key", key).out == "2 clusters: nothing changed\n"


def test_a_crowd_of_false_signatures_is_no_way_to_keep_us_busy(
    place: Place, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendered, "MOST_FORGED", 3)
    place.publish("--signing-key", key)
    for _ in range(4):
        forge(place, *BOTH)
    refs = place.refs()
    said = place.publish("--signing-key", key)
    assert (said.code, "none of the newest 3 commits" in said.err) == (2, True)
    assert place.refs() == refs


def test_what_was_signed_for_another_cluster_counts_for_none(place: Place, key: Path) -> None:
    place.publish("--signing-key", key)
    other = git(place.remote, "rev-parse", "rendered/us-1")
    for ref in BOTH:
        git(place.remote, "update-ref", ref, other)
    refs = place.refs()
    said = place.publish("--signing-key", key)
    assert (said.code, "nothing was published" in said.err) == (2, True)
    assert f"refs/allotment/published/eu-1 is at {other[:12]}" in said.err
    assert place.refs() == refs


def test_nothing_signed_before_stops_until_a_person_believes_it(place: Place, tmp_path: Path) -> None:
    assert place.publish().code == 0
    before = {name: git(place.remote, "rev-parse", f"{name}^{{tree}}") for name in ("rendered/eu-1", "rendered/us-1")}
    key = new_key(tmp_path, "key")
    declare(place, key)
    place.merge()
    refs = place.refs()
    said = place.publish("--signing-key", key)
    assert (said.code, "`allot publish --adopt --signing-key FILE`, once" in said.err) == (2, True)
    assert place.refs() == refs
    assert place.publish("--signing-key", key, "--adopt").code == 0
    assert {name: git(place.remote, "rev-parse", f"{name}^{{tree}}") for name in before} == before
    assert place.publish("--signing-key", key).out == "2 clusters: nothing changed\n", "once is enough"
    edit(place.root, WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    assert place.merged("--signing-key", key).code == 0


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


def test_the_way_out_of_rewound_is_what_the_message_says(place: Place) -> None:
    """A source ref that somebody moved away stops publishing until it is gone; deleting it loses nothing that runs."""
    place.publish()
    branches = {name: commit for name, commit in place.refs().items() if name != SOURCE}
    orphan = write_commit(place.remote, git(place.remote, "rev-parse", "main^{tree}"))
    git(place.remote, "update-ref", SOURCE, orphan)
    said = place.publish()
    assert (said.code, "the source was rewound" in said.err) == (2, True)
    command = said.err.partition("`git push ")[2].partition("`")[0].split()
    git(place.root, "push", "-q", *command)
    assert place.publish().out == "2 clusters: nothing changed\n"
    assert place.refs() == {**branches, SOURCE: git(place.root, "rev-parse", "main")}
