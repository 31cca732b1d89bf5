"""Trees that Git doesn't write, by the word that `git fsck` has for each, and how to write them all the same."""

from __future__ import annotations

import hashlib
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

from tests.adapters.git.conftest import git

Build = Callable[[bytes, bytes], bytes]  # from the raw ids of a blob and of a tree to a tree's bytes


def entry(mode: str, name: str | bytes, raw: bytes) -> bytes:
    """Return an entry of a tree, whatever it is."""
    return mode.encode() + b" " + (name if isinstance(name, bytes) else name.encode()) + b"\0" + raw


def named(*names: str | bytes, mode: str = "100644") -> Build:
    """Return what builds a tree of blobs with some names, in this order."""
    return lambda blob, _: b"".join(entry(mode, name, blob) for name in names)


# By fsck's word (a newer Git may have two of them for one fault), how the reader says it, and the tree.
REFUSED: dict[str, tuple[str, str, Build]] = {
    "a name twice": ("duplicateEntries", "the name 'webui.yaml' stands there twice", named("webui.yaml", "webui.yaml")),
    "a file and a folder": (
        "duplicateEntries",
        "the name 'webui' stands there twice",
        lambda blob, tree: entry("100644", "webui", blob) + entry("40000", "webui", tree),
    ),
    "a file and a folder, apart": (
        "duplicateEntries",
        "the name 'webui' stands there twice",
        lambda blob, tree: (
            entry("100644", "webui", blob) + entry("100644", "webui-b", blob) + entry("40000", "webui", tree)
        ),
    ),
    "not sorted": (
        "treeNotSorted",
        "the name 'a.yaml' isn't in its place: names are sorted",
        named("b.yaml", "a.yaml"),
    ),
    "a folder sorted as a file": (
        "treeNotSorted",
        "the name 'a-b' isn't in its place: names are sorted",
        lambda blob, tree: entry("40000", "a", tree) + entry("100644", "a-b", blob),
    ),
    "a slash": ("fullPathname", "the name 'a/b.yaml' has a slash", named("a/b.yaml")),
    "no name": ("emptyName|badTree", "an entry has no name", named("")),
    "a dot": ("hasDot", "an entry is named '.'", lambda _, tree: entry("40000", ".", tree)),
    "two dots": ("hasDotdot", "an entry is named '..'", lambda _, tree: entry("40000", "..", tree)),
    **{
        f"git's own folder, {name!r}": (
            "hasDotgit",
            "is Git's own folder, as some file systems read it",
            lambda _, tree, name=name: entry("40000", name, tree),  # type: ignore[misc]  # a default binds it
        )
        for name in (
            ".git",
            ".GIT",
            ".gIt",
            "git~1",
            "GIT~1",
            ".git ",
            ".git. .",
            "git~1.",
            ".git::$INDEX_ALLOCATION",
            "a\\.git",
            ".git\\x",
            ".g\u200cit",
            "\ufeff.git",
            ".git\u206f",
            b".git\xff",
            b".git\xef\xbf\xbf",
        )
    },
    "no object": (
        "nullSha1",
        "'a.yaml' has no object: its id is all zeros",
        lambda blob, _: entry("100644", "a.yaml", bytes(len(blob))),
    ),
    "a zero in front": ("zeroPaddedFilemode", "'a' has the mode 040000", lambda _, tree: entry("040000", "a", tree)),
    "an early mode": ("badFilemode", "'a.yaml' has the mode 100664", named("a.yaml", mode="100664")),
    "a mode of no kind": ("badFilemode", "'a.yaml' has the mode 170000", named("a.yaml", mode="170000")),
    "set user id": ("badFilemode", "'a.yaml' has the mode 104755", named("a.yaml", mode="104755")),
    "cut in an id": ("badTree", "byte 0 begins no entry", lambda blob, _: entry("100644", "a.yaml", blob)[:-1]),
    "cut in a name": (
        "badTree",
        "byte 34 begins no entry",
        lambda blob, _: entry("100644", "a.yaml", blob)[:34] + b"100644 b",
    ),
    "no mode": ("badTree", "byte 0 begins no entry", lambda blob, _: entry("", "a.yaml", blob)),
    "no octal mode": ("badTree", "byte 0 begins no entry", named("a.yaml", mode="100x44")),
}

# What Git writes where it is told to, and fsck has a word for: links, which nothing here follows. They are shown as what they are.
LINKS = {
    "gitmodulesSymlink": ".gitmodules",
    "gitattributesSymlink": ".gitattributes",
    "gitignoreSymlink": ".gitignore",
    "mailmapSymlink": ".mailmap",
}


def write(folder: Path, kind: str, data: bytes) -> str:
    """Write an object as it is, and return its id."""
    whole = f"{kind} {len(data)}\0".encode() + data
    name = hashlib.sha1(whole).hexdigest()
    bare = folder / "objects"
    file = (bare if bare.is_dir() else folder / ".git/objects") / name[:2] / name[2:]
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(zlib.compress(whole, 1))
    return name


def write_tree(folder: Path, build: Build) -> str:
    """Write a tree of the corpus, with what it names, and return its id."""
    blob = write(folder, "blob", b"kind: Nothing\n")
    tree = write(folder, "tree", entry("100644", "x.yaml", bytes.fromhex(blob)))
    return write(folder, "tree", build(bytes.fromhex(blob), bytes.fromhex(tree)))


def write_commit(folder: Path, tree: str, *parents: str) -> str:
    """Write a commit of a tree, which Git needn't be able to read."""
    lines = [
        f"tree {tree}",
        *(f"parent {parent}" for parent in parents),
        *(f"{who} a <a@b.example> 1 +0000" for who in ("author", "committer")),
    ]
    return write(folder, "commit", ("\n".join(lines) + "\n\nx\n").encode())


def replaced(folder: Path, commit: str, path: str, tree: str) -> str:
    """Return the tree of a commit with another tree at a path, all else as it was."""
    name, _, rest = path.partition("/")
    below = git(folder, "rev-parse", f"{commit}:{name}") if rest else ""
    new = replaced(folder, below, rest, tree) if rest else tree
    lines = [line for line in git(folder, "ls-tree", commit).splitlines() if line.partition("\t")[2] != name]
    text = "\n".join([*lines, f"040000 tree {new}\t{name}"]) + "\n"
    words = ["git", "-C", str(folder), "mktree", "--missing"]
    return subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout.strip()
