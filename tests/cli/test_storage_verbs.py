"""`allot storage` creates, grows, snapshots, clones and deletes storages: the exact files, or nothing."""

from __future__ import annotations

import pytest
from tests.conftest import Allot, Result, edit
from tests.support.failed_preparation import recover, seen
from tests.support.published import Place, git
from tests.support.terminal import answer_questions, start_dialogue

FOLDER = "tenants/solo-ada/storages"
HEAD = """\
# yaml-language-server: $schema=../../../schemas/GPUStorage.schema.json
apiVersion: allotment.dev/v1alpha1
kind: GPUStorage
metadata:
"""
BUCKETS = """\
    - storageSpec: objects
      storageClassName: rook-ceph-bucket
      capacity: 100Ti
      objectStore:
        endpoint: http://rook-ceph-rgw-objects.rook-ceph.svc
        namespace: rook-ceph
"""
HASH = "0123456789abcdef" * 4


def run(place: Place, allot: Allot, *words: str) -> Result:
    return allot("storage", *words, "--repo", place.root)


def read(place: Place, name: str) -> str:
    return (place.root / f"{FOLDER}/{name}.yaml").read_text()


def test_create_writes_every_option(published: Place, allot: Allot) -> None:
    words = ("--cluster", "eu-1", "--size", "50Gi", "--storage-spec", "shared-files", "--label", "team=design")
    source = ("--source", f"https://models.example/a.bin#sha256={HASH}", "--display-name", "Shared")
    result = run(published, allot, "create", "solo-ada/more", *words, *source)
    assert result.code == 0, result
    assert read(published, "more") == (
        f"{HEAD}  name: more\n  labels:\n    team: design\nspec:\n  displayName: Shared\n  cluster: eu-1\n"
        "  storageSpec: shared-files\n  size: 50Gi\n  prepare:\n    source:\n      url:\n"
        f'        url: https://models.example/a.bin\n        sha256: "{HASH}"\n'
    )


def test_a_bucket_needs_no_storage_spec(published: Place, allot: Allot) -> None:
    assert run(published, allot, "create", "solo-ada/more", "--cluster", "eu-1", "--size", "50Gi", "--bucket").code == 0
    assert read(published, "more") == (
        f"{HEAD}  name: more\nspec:\n  cluster: eu-1\n  storageSpec: objects\n  size: 50Gi\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cluster", "us-1"), "--bucket: cluster us-1 offers no buckets: choose another cluster"),
        (
            ("--cluster", "eu-1", "--storage-spec", "block-ssd"),
            "--storage-spec: cluster eu-1 offers no bucket named 'block-ssd'; known: objects",
        ),
    ],
)
def test_a_bucket_is_refused(words: tuple[str, ...], message: str, published: Place, allot: Allot) -> None:
    edit(published.root, "clusters/us-1/cluster.yaml", BUCKETS, "")
    result = run(published, allot, "create", "solo-ada/more", "--size", "50Gi", "--bucket", *words)
    assert (result.code, result.err) == (2, f"allot: {message}\n")


def test_questions_lead_to_a_storage(published: Place) -> None:
    child = start_dialogue(published.root, "storage", "create", "solo-ada/more", "--cluster", "eu-1", "--commit")
    child.expect_exact("Left:          0.75 of 1 nvidia-l4, 2 of 3 instances, 3 of 5 storages")
    child.expect(r"3 +shared-files +eu-1 +ReadWriteMany +50Gi to 20Ti +0\.16 ")
    output, status = answer_questions(
        child,
        ("Kind of storage (1 to 3) [1]:", "block"),
        ("Error: 'block' is no choice: write a number from 1 to 3, or a name", "shared-files"),
        ("Size [50Gi]:", "20G"),
        ("Error: '20G' is not a size", "20Gi"),
        ("Error: write a size from 50Gi to 20Ti", "60Gi"),
        ("(empty: none) []:", "ftp://x"),
        ("Error: 'ftp://x' is not a source: write https://HOST/FILE", "storage:models"),
        ("Create it? [Y/n]:", ""),
    )
    assert status == 0, output
    assert "Create storage solo-ada/more: 1 file committed" in output
    assert read(published, "more") == (
        f"{HEAD}  name: more\nspec:\n  cluster: eu-1\n  storageSpec: shared-files\n  size: 60Gi\n  prepare:\n    source:\n"
        "      storage:\n        name: models\n"
    )


def test_given_values_are_not_asked_for(published: Place) -> None:
    words = ("storage", "create", "solo-ada/more", "--cluster", "eu-1", "--size", "50Gi")
    child = start_dialogue(published.root, *words)
    child.expect_exact("Create it? [Y/n]:")
    assert "Size [" not in str(child.before)
    assert "+  size: 50Gi" in str(child.before), "the difference comes first"
    child.sendline("n")
    assert answer_questions(child) == (" n\nnothing was changed\n", 1)
    output, status = answer_questions(
        start_dialogue(published.root, "storage", "create", "solo-ada/more", "--no-input")
    )
    assert (output, status) == ("allot: add --cluster: eu-1, us-1\nadd --size: a size such as 50Gi\n", 2)
    assert git(published.root, "status", "--short") == ""


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("storage:models", ["storage:", "  name: models"]),
        ("storage:northlight/base-models", ["storage:", "  name: base-models", "  tenant: northlight"]),
        (
            "s3:https://s3.example/bucket/models/",
            ["s3:", "  endpoint: https://s3.example", "  bucket: bucket", "  prefix: models/"],
        ),
        (
            f"image:registry.example/tools/a@sha256:{HASH}",
            ["image:", f"  image: registry.example/tools/a@sha256:{HASH}"],
        ),
    ],
)
def test_create_fills_a_storage(source: str, lines: list[str], published: Place, allot: Allot) -> None:
    words = ("--cluster", "eu-1", "--size", "300Gi", "--source", source, "--dry-run")
    result = run(published, allot, "create", "solo-ada/more", *words)
    assert "".join(f"+      {line}\n" for line in lines) in result.out, result


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "add --cluster: eu-1, us-1\nadd --size: a size such as 50Gi"),
        (("--cluster", "eu-2", "--size", "50Gi"), "--cluster: no cluster is named 'eu-2'; did you mean 'eu-1'?"),
        (("--cluster", "eu-1", "--size", "50"), "--size: '50' is not a size: write a whole number with Mi, Gi or Ti"),
        (
            ("--cluster", "eu-1", "--size", "50Gi", "--storage-spec", "block"),
            "--storage-spec: cluster eu-1 offers no StorageSpec named 'block'; did you mean 'block-ssd'?",
        ),
        (
            ("--cluster", "eu-1", "--size", "50Gi", "--source", "models"),
            "--source: 'models' is not a source: write https://",
        ),
        (("--cluster", "eu-1", "--size", "50Gi", "--label", "a"), "--label: 'a' is not in the format KEY=VALUE"),
        (("--cluster", "eu-1", "--size", "50Gi", "--display-name", "x" * 101), "--display-name: "),
        (("--cluster", "eu-1", "--size", "1Gi"), "the change is invalid, so nothing was changed:\ntenants/solo-ada/"),
    ],
)
def test_create_names_a_wrong_option(words: tuple[str, ...], problem: str, published: Place, allot: Allot) -> None:
    result = run(published, allot, "create", "solo-ada/more", *words)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"allot: {problem}"), result.err
    assert git(published.root, "status", "--short") == ""


def test_grow_changes_one_line(published: Place, allot: Allot) -> None:
    before = read(published, "models")
    assert run(published, allot, "grow", "solo-ada/models", "100Gi").code == 0
    assert read(published, "models") == before.replace("size: 60Gi", "size: 100Gi")
    for size, problem in (
        (
            "50Gi",
            "SIZE: 50Gi is less than the 100Gi of solo-ada/models, and a storage never shrinks: write a larger size",
        ),
        ("huge", "SIZE: 'huge' is not a size: write a whole number with Mi, Gi or Ti, such as 200Gi"),
    ):
        result = run(published, allot, "grow", "solo-ada/models", size)
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith(f"allot: {problem}")


def test_a_snapshot_and_its_clone(published: Place, allot: Allot) -> None:
    result = run(published, allot, "snapshot", "solo-ada/models", "models-1", "--commit")
    assert result.code == 0, result
    assert (published.root / "tenants/solo-ada/snapshots/models-1.yaml").read_text() == (
        "# yaml-language-server: $schema=../../../schemas/GPUStorageSnapshot.schema.json\n"
        "apiVersion: allotment.dev/v1alpha1\nkind: GPUStorageSnapshot\nmetadata:\n  name: models-1\n"
        "spec:\n  storage: models\n"
    )
    result = run(published, allot, "clone", "solo-ada/models", "models-old", "--snapshot", "models-1", "--size", "80Gi")
    assert result.code == 0, result
    assert read(published, "models-old") == (
        f"{HEAD}  name: models-old\nspec:\n  cluster: eu-1\n  storageSpec: block-ssd\n  size: 80Gi\n"
        "  prepare:\n    source:\n      snapshot:\n        name: models-1\n"
    )
    result = run(published, allot, "clone", "solo-ada/styles", "styles-old", "--snapshot", "models-1")
    assert (result.code, result.out) == (2, "")
    assert result.err == "allot: --snapshot: models-1 is a snapshot of models, not of styles\n"


def test_a_clone_of_a_shared_storage_names_its_tenant(published: Place, allot: Allot) -> None:
    result = run(published, allot, "clone", "northlight/base-models", "solo-ada/base", "--dry-run")
    assert "+      storage:\n+        name: base-models\n+        tenant: northlight\n" in result.out, result
    result = run(published, allot, "clone", "solo-ada/models", "models-2", "--size", "10Gi")
    assert result.err == "allot: --size: 10Gi is less than the 60Gi of solo-ada/models: write at least that size\n"
    result = run(published, allot, "clone", "solo-ada/models", "styles")
    assert result.err.startswith(f"allot: {FOLDER}/styles.yaml exists already")


def test_a_deletion_takes_two_merges(published: Place, allot: Allot) -> None:
    before = read(published, "styles")
    result = run(published, allot, "delete", "solo-ada/styles")
    assert result.code == 0, result
    assert read(published, "styles") == before + "  deletionPolicy: Delete\n"
    assert "The volume is deleted at the earliest 1h after the cluster reports the policy." in result.out
    unmerged = f"allot: {FOLDER}/styles.yaml has deletionPolicy: Delete, which is not merged yet: merge it first"
    result = run(published, allot, "delete", "solo-ada/styles")
    assert (result.code, result.out, result.err.startswith(unmerged)) == (2, "", True)
    (published.root / f"{FOLDER}/styles.yaml").write_text(before)
    assert run(published, allot, "delete", "solo-ada/styles", "--commit").code == 0
    result = run(published, allot, "delete", "solo-ada/styles")  # the target branch does not have the commit
    assert (result.code, result.out, result.err.startswith(unmerged)) == (2, "", True)
    git(published.root, "push", "--quiet", "origin", "HEAD:main")
    result = run(published, allot, "delete", "solo-ada/styles", "--commit")
    assert result.code == 0, result
    assert "\n⚠ Destroyed\n  storage solo-ada/styles in eu-1 is deleted with its volume of 10Gi" in result.out
    assert git(published.root, "show", "--name-status", "--format=%s", "HEAD") == (
        f"Delete storage solo-ada/styles\n\nD\t{FOLDER}/styles.yaml"
    )


def test_a_deletion_of_a_snapshot_takes_two_merges(published: Place, allot: Allot) -> None:
    words = ("delete", "studio-kite/outputs", "--snapshot", "before-upgrade", "--commit")
    result = run(published, allot, *words)
    assert result.code == 0, result
    assert "The snapshot is deleted at the earliest 1h after the cluster reports the policy." in result.out
    assert "storage outputs-restored uses it, and the second merge is refused until then" in result.out
    result = run(published, allot, *words)
    assert (result.code, "which is not merged yet: merge it first" in result.err) == (2, True)
    git(published.root, "push", "--quiet", "origin", "HEAD:main")
    result = run(published, allot, *words)
    use = "storage outputs-restored uses studio-kite/before-upgrade"
    assert (
        result.err
        == f"allot: {use}: first run `allot set storage/studio-kite/outputs-restored prepare-` once it is Ready\n"
    )
    words_of_use = ("set", "storage/studio-kite/outputs-restored", "prepare-", "--commit", "--repo", published.root)
    assert allot(*words_of_use).code == 0
    assert run(published, allot, *words).code == 0
    assert git(published.root, "show", "--name-status", "--format=%s", "HEAD") == (
        "Delete snapshot studio-kite/before-upgrade\n\nD\ttenants/studio-kite/snapshots/before-upgrade.yaml"
    )


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (("studio-kite/base",), "allot: --snapshot: before-upgrade is a snapshot of outputs, not of base"),
        (("studio-kite/outputs", "studio-kite/base"), "Error: --snapshot needs one storage, and 2 are named"),
    ],
)
def test_a_snapshot_of_another_storage_is_not_deleted(
    targets: tuple[str, ...], message: str, published: Place, allot: Allot
) -> None:
    result = run(published, allot, "delete", *targets, "--snapshot", "before-upgrade")
    assert (result.code, message in result.err) == (2, True), result.err


def test_a_mounted_storage_is_not_removed(published: Place, allot: Allot) -> None:
    assert run(published, allot, "delete", "solo-ada/models", "--commit").code == 0
    git(published.root, "push", "--quiet", "origin", "HEAD:main")
    result = run(published, allot, "delete", "solo-ada/models")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "allot: instance webui uses solo-ada/models: first run `allot instance unmount solo-ada/webui models`\n"
    )
    assert allot("instance", "unmount", "solo-ada/webui", "models", "--repo", published.root).code == 0
    assert run(published, allot, "delete", "solo-ada/models").code == 0
    assert not (published.root / FOLDER / "models.yaml").exists()


def test_a_storage_of_a_snapshot_and_a_copy_is_not_removed(published: Place, allot: Allot) -> None:
    assert run(published, allot, "snapshot", "solo-ada/styles", "keep", "--commit").code == 0
    assert run(published, allot, "clone", "solo-ada/styles", "twin", "--commit").code == 0
    first = run(published, allot, "delete", "solo-ada/styles", "--commit")
    assert first.code == 0
    assert "the second merge is refused until then" in first.out + first.err
    assert "snapshot keep" in first.out + first.err
    git(published.root, "push", "--quiet", "origin", "HEAD:main")
    result = run(published, allot, "delete", "solo-ada/styles")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "allot: snapshot keep, storage twin use solo-ada/styles: first delete the snapshot with `allot storage delete"
        " solo-ada/styles --snapshot keep`, then run `allot set storage/solo-ada/twin prepare-` once it is Ready\n"
    )


def test_recover_is_the_same_command(published: Place, allot: Allot) -> None:
    seen(published)
    expected = recover(published, allot, "-o", "json")
    branch = "recover/studio-kite/model-cache-2"
    first = git(published.root, "rev-parse", branch)
    git(published.root, "branch", "--quiet", "-D", branch)
    words = ("studio-kite/model-cache", "--reason", "The volume is larger now.", "-o", "json")
    result = run(published, allot, "recover", *words)
    assert (result.code, result.err) == (0, "")
    second = git(published.root, "rev-parse", branch)  # the time of the commit differs
    assert first in expected.out
    assert result.out.replace(second, "") == expected.out.replace(first, "")
