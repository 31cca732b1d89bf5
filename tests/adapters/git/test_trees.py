"""Trees that Git doesn't write are refused, by whatever way they are read: listed, compared, or looked into."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.adapters.git.conftest import git
from tests.adapters.git.malformed import LINKS, REFUSED, entry, named, write, write_commit, write_tree

from allotment.adapters.declaration_source import MAX_FILES
from allotment.adapters.git.commit_source import TreeSource
from allotment.adapters.git.merge import list_changed_files
from allotment.adapters.git.object_reader import MAX_BATCH_BYTES, LimitExceeded, ObjectInfo, ObjectReader
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.trees import MAX_NAME_BYTES, MalformedTree
from allotment.problems import OperationRefused


def fsck(folder: Path, tree: str) -> set[str]:
    """Return the words that Git has for a tree."""
    result = subprocess.run(
        ["git", "-C", str(folder), "fsck", "--strict", "--full"], capture_output=True, text=True, check=False
    )
    words = set(re.findall(rf"in tree {tree}: (\w+):", result.stderr))
    return words | ({"badTree"} if "badTree" in result.stderr else set())


def faults(repository: Repository, folder: str, tree: str) -> list[str]:
    """Return what each way of reading a tree says of it, as the only folder of a commit."""
    raw = bytes.fromhex(write(repository.folder, "tree", entry("40000", "solo-ada", bytes.fromhex(tree))))
    root = write(repository.folder, "tree", entry("40000", folder, raw))
    commit = write_commit(repository.folder, root)
    empty = write(repository.folder, "tree", b"")
    messages = []
    for read in (
        lambda: TreeSource(repository, root).scopes(),
        lambda: repository.listing(commit),
        lambda: repository.listing(commit, f"{folder}/solo-ada"),
        lambda: repository.read_at(commit, f"{folder}/solo-ada/x.yaml"),
        lambda: repository.tree_of(commit, f"{folder}/solo-ada/x"),
        lambda: list_changed_files(repository, empty, root),
        lambda: list_changed_files(repository, commit, empty),
    ):
        with pytest.raises(MalformedTree) as refused:
            read()
        messages.append(str(refused.value))
    return messages


@pytest.mark.parametrize("case", REFUSED)
def test_every_reader_refuses_a_tree_that_git_fsck_reports(case: str, repository: Repository) -> None:
    word, words, build = REFUSED[case]
    tree = write_tree(repository.folder, build)
    assert fsck(repository.folder, tree) & set(word.split("|")), "the corpus is what it says"
    messages = faults(repository, "tenants", tree)
    assert len(set(messages)) == 1
    assert f"tree {tree} is malformed: " in messages[0]
    assert words in messages[0]


@pytest.mark.parametrize("word", LINKS)
def test_a_link_is_a_link_to_both(word: str, repository: Repository) -> None:
    blob = write(repository.folder, "blob", b"target")
    tree = write(repository.folder, "tree", entry("120000", LINKS[word], bytes.fromhex(blob)))
    assert word in fsck(repository.folder, tree)
    root = write(repository.folder, "tree", entry("40000", "platform", bytes.fromhex(tree)))
    path = f"platform/{LINKS[word]}"
    assert [(problem.path, problem.message) for problem in TreeSource(repository, root).scopes()[1]] == [
        (path, "is a symbolic link: replace it by the file itself")
    ]
    assert [
        (change.path, change.mode)
        for change in list_changed_files(repository, write(repository.folder, "tree", b""), root)
    ] == [(path, "120000")]


def test_every_word_of_git_fsck_for_trees_is_in_the_corpus() -> None:
    words = (
        "badFilemode badTree duplicateEntries emptyName fullPathname hasDot hasDotdot hasDotgit nullSha1 treeNotSorted"
    )
    assert {alternative for word, *_ in REFUSED.values() for alternative in word.split("|")} == {
        *words.split(),
        "zeroPaddedFilemode",
    }


def test_a_name_that_is_too_long_is_refused(repository: Repository) -> None:
    tree = write_tree(repository.folder, named("a" * (MAX_NAME_BYTES + 1)))
    assert all("has more than 4,096 bytes" in fault for fault in faults(repository, "tenants", tree))


def test_names_that_only_look_like_gits_are_names(repository: Repository) -> None:
    names = (".gitx", ".github", "git", "git~10", "git~2", ".gitignore", "git.", "x.git", "\u00e4.git", "a.", "...")
    tree = write_tree(repository.folder, named(*sorted(names, key=str.encode)))
    assert not fsck(repository.folder, tree)
    assert set(repository.listing(write_commit(repository.folder, tree))) == set(names)


def test_an_object_is_what_the_tree_says(repository: Repository) -> None:
    blob = write(repository.folder, "blob", b"x")
    root = write(repository.folder, "tree", entry("40000", "tenants", bytes.fromhex(blob)))
    with pytest.raises(OperationRefused, match=f"object {blob} is a blob where a tree should be"):
        TreeSource(repository, root).scopes()
    inner = write(repository.folder, "tree", b"")
    commit = write_commit(
        repository.folder, write(repository.folder, "tree", entry("100644", "a", bytes.fromhex(inner)))
    )
    with pytest.raises(OperationRefused, match=f"object {inner} is a tree where a blob should be"):
        repository.read(repository.listing(commit)["a"])


def test_replaced_objects_and_grafts_count_for_nothing(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = repository.folder
    good, evil = (write_commit(folder, write_tree(folder, named(name))) for name in ("good.yaml", "evil.yaml"))
    child = write_commit(folder, write_tree(folder, named("child.yaml")), good)
    git(folder, "replace", good, evil)
    git(
        folder,
        "replace",
        git(folder, "--no-replace-objects", "rev-parse", f"{child}^{{tree}}"),
        git(folder, "rev-parse", f"{evil}^{{tree}}"),
    )
    (folder / ".git/info").mkdir(exist_ok=True)
    (folder / ".git/info/grafts").write_text(f"{child} {evil}\n")
    assert set(repository.listing(good)) == {"good.yaml"}
    assert set(repository.listing(child)) == {"child.yaml"}
    assert repository.is_ancestor(good, child)
    assert not repository.is_ancestor(evil, child)


# What unfolds without end


class Counted:
    """What was read of a repository: objects by id, and bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ids: list[str] = []
        self.bytes = 0
        contents = ObjectReader._contents

        def counted(of: ObjectReader, infos: dict[str, ObjectInfo]) -> list[tuple[str, bytes]]:
            batch = contents(of, infos)
            held = sum(len(data) for _, data in batch)
            assert held <= MAX_BATCH_BYTES, "more is held at once than may be"
            self.ids += infos
            self.bytes += held
            return batch

        monkeypatch.setattr(ObjectReader, "_contents", counted)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def many(count: int, mode: str = "100644") -> list[bytes]:
    return [f"{mode} n{number:07}\0".encode() for number in range(count)]


def bombs(folder: Path) -> dict[str, tuple[str, int]]:
    """Return trees that hold more than anybody may read, each with how many bytes of trees may be read of it."""
    blob = bytes.fromhex(write(folder, "blob", b"x\n"))

    def tree(heads: list[bytes], raw: bytes) -> str:
        return write(folder, "tree", b"".join(head + raw for head in heads))

    inner = tree(many(9_900), blob)
    doubled = tree(many(2), blob)
    for _ in range(30):
        doubled = tree(many(2, "40000"), bytes.fromhex(doubled))
    deep = tree(many(1), blob)
    for _ in range(200):
        deep = tree(many(1, "40000"), bytes.fromhex(deep))
    long = tree([f"100644 {number:03}{'x' * 4000}\0".encode() for number in range(200)], blob)
    for _ in range(2):
        long = tree([f"40000 {number:03}{'x' * 4000}\0".encode() for number in range(50)], bytes.fromhex(long))
    return {
        "names of one tree": (tree(many(9_900, "40000"), bytes.fromhex(inner)), 800_000),
        "one large tree": (tree(many(300_000), blob), 0),
        "200,000 files": (tree(many(200_000), blob), 8 << 20),
        "doubled and doubled": (doubled, 5_000),
        "deep": (deep, 5_000),
        "long names": (long, 2_000_000),
    }


@pytest.mark.parametrize("bomb", ["names of one tree", "one large tree", "200,000 files", "long names"])
def test_readers_stop_at_the_limits_of_an_endless_tree(bomb: str, repository: Repository, read: Counted) -> None:
    tree, most = bombs(repository.folder)[bomb]
    tenants = write(repository.folder, "tree", entry("40000", "solo-ada", bytes.fromhex(tree)))
    root = write(repository.folder, "tree", entry("40000", "tenants", bytes.fromhex(tenants)))
    empty = write(repository.folder, "tree", b"")
    for ends in (lambda: TreeSource(repository, root).scopes(), lambda: list_changed_files(repository, empty, root)):
        read.ids.clear()
        read.bytes = 0
        with pytest.raises(LimitExceeded):
            ends()
        assert read.bytes <= most + 200
        assert len(set(read.ids)) == len(read.ids), "an object is read once"


def test_a_listing_that_was_refused_is_refused_again(repository: Repository) -> None:
    link = write(repository.folder, "tree", entry("120000", "a", bytes.fromhex(write(repository.folder, "blob", b"x"))))
    bad = write_tree(repository.folder, REFUSED["a name twice"][2])
    inner = write(repository.folder, "tree", entry("40000", "solo-ada", bytes.fromhex(bad)))
    data = entry("40000", "platform", bytes.fromhex(link)) + entry("40000", "tenants", bytes.fromhex(inner))
    source = TreeSource(repository, write(repository.folder, "tree", data))
    for _ in range(2):
        with pytest.raises(MalformedTree):
            source.scopes()


@pytest.mark.parametrize(("bomb", "words"), [("deep", "64 deep"), ("doubled and doubled", "more than 10,000 files")])
def test_readers_report_a_tree_too_deep_to_read(bomb: str, words: str, repository: Repository, read: Counted) -> None:
    tree, most = bombs(repository.folder)[bomb]
    root = write(repository.folder, "tree", entry("40000", "platform", bytes.fromhex(tree)))
    assert {problem.message for problem in TreeSource(repository, root).scopes()[1]} == {
        "no declaration lies so deep: remove it"
    }
    assert len(read.ids) < 12
    with pytest.raises(LimitExceeded, match=words):
        list_changed_files(repository, write(repository.folder, "tree", b""), root)
    assert read.bytes < most


def test_as_many_files_as_may_be_are_listed(repository: Repository) -> None:
    blob = bytes.fromhex(write(repository.folder, "blob", b"x\n"))
    inner = write(repository.folder, "tree", b"".join(head + blob for head in many(MAX_FILES // 100)))
    subtree = write(repository.folder, "tree", b"".join(head + bytes.fromhex(inner) for head in many(100, "40000")))
    root = write(repository.folder, "tree", entry("40000", "platform", bytes.fromhex(subtree)))
    source = TreeSource(repository, root)
    assert len(source.files(source.scopes()[0][0]).paths) == MAX_FILES


def test_a_large_blob_is_never_read(repository: Repository, read: Counted) -> None:
    blob = write(repository.folder, "blob", b"a: 1\n" * 10_000_000)
    root = write(repository.folder, "tree", entry("40000", "platform", bytes.fromhex(write(repository.folder, "tree", entry("100644", "platform.yaml", bytes.fromhex(blob))))))  # fmt: skip
    source = TreeSource(repository, root)
    assert len(source.read("platform/platform.yaml")) == 256 * 1024 + 1
    assert blob not in read.ids
    with pytest.raises(LimitExceeded):
        repository.read(blob)
    assert blob not in read.ids
