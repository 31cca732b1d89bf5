"""Reads and maintains a local Git repository: resolves names, lists and reads commits, and signs. Checks nothing out."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from allotment.adapters.git.commands import QUIET_SETTINGS, GitCommands, GitFailed
from allotment.adapters.git.object_reader import OBJECT_ID, LimitExceeded, ObjectReader
from allotment.adapters.git.ssh_signatures import read_public_key, verify_signature
from allotment.adapters.git.tree_comparison import TreeComparison
from allotment.adapters.git.trees import MAX_COMMIT_BYTES, MAX_DEPTH, REGULAR, TREE, TreeReader, check_limits
from allotment.problems import OperationRefused, escape_unprintable, quote_value

_BROKEN_REF = "broken ref"  # in Git's warning about a file below .git/refs that has no object id
NO_COMMIT_TEXT = "nothing is committed here yet: run `git add --all` and `git commit` first"
_REVISION_SIGNS = re.compile(r"[~^:]|@\{")  # a name of a ref has none of them
MOST_FILES = 1_000_000  # files of a listing
MAX_LISTINGS = 4  # cached listings: enough for two branches, each before and after a commit
_SSH_PROGRAM = "gpg.ssh.program=ssh-keygen"
_SIGNATURE_BEGIN = b"-----BEGIN SSH SIGNATURE-----"
UNKNOWN_KEY = ""  # stands for a public key that can't be read
MAX_READ_BYTES = 32 << 20  # bytes of a file
MAX_PREFETCH_BYTES = 256 << 10  # bytes of a file that is read before its caller asks for it
_COMMITTER_TIME = re.compile(rb"^committer [^\0]*> ([0-9]{1,11}) [+-][0-9]{4}$")
_PARENT_LINE = re.compile(rb"parent ([0-9a-f]{40}|[0-9a-f]{64})")
_IDENTITY = re.compile(rb"[^<>\0]+ <[^<>\0]*> [0-9]{1,11} [+-][0-9]{4}")


class Repository:
    """The repository around a folder. If there is no repository, the first access raises OperationRefused.

    `git` runs Git's commands. By default, they run in the nearest repository from the folder upwards. As a context
    manager, the repository ends its object reader at the end of the `with` block.
    """

    def __init__(self, folder: Path, git: GitCommands | None = None) -> None:
        self.folder = folder
        self.git = git or GitCommands(folder)
        self._committer: bytes | None = None
        self._signs_commits: bool | None = None
        self._signature_checks: dict[tuple[str, str], bool] = {}
        self.signing: tuple[str, ...] = ()  # the settings with which Git signs
        self.objects = ObjectReader(folder, self.git.start_object_reader)
        self.trees = TreeReader(self.objects)
        self._listings: dict[str, Mapping[str, str]] = {}  # by tree, from the oldest to the newest use
        self._listed_commits: dict[str, str] = {}  # the tree of each listed commit, from the oldest to the newest

    @classmethod
    def open_or_create(cls, folder: Path) -> Repository:
        """Return the repository at a folder. Creates a bare repository if there is none."""
        if not (folder / "HEAD").exists():
            GitCommands.init(folder)
        return cls(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End Git's object reader. The next read starts it again."""
        self.objects.close()

    def clear_cache(self) -> None:
        """Clear all caches, because the repository no longer has the cached objects."""
        self.objects.close()
        self.git.reset()
        self._listings.clear()
        self._listed_commits.clear()
        self._signature_checks.clear()
        self.trees.forget()

    def run_maintenance(self) -> None:
        """Run `git gc --auto` and wait for its end.

        Strangers pushed some of the objects. The settings therefore limit the memory for deltas, and Git tries no
        deltas between large objects.
        """
        settings = ["gc.autoDetach=false", "core.bigFileThreshold=8m", "pack.windowMemory=64m"]
        self.git.run_text("gc", "--auto", "--quiet", settings=settings)

    def resolve(self, name: str, otherwise: str) -> str:
        """Return the id of the commit that a name resolves to. If there is none, raises OperationRefused(otherwise), or
        OperationRefused with the broken ref."""
        if "\n" in name or "\0" in name or not _is_utf8(name):
            raise OperationRefused(otherwise)
        commit = self.find_commit(name)
        if commit is None:
            self.check_refs()
            raise OperationRefused(otherwise)
        return commit

    def find_commit(self, name: str) -> str | None:
        """Return the id of the commit that a name resolves to; None if there is none. A full name of a ref is only that ref."""
        if not name.startswith("refs/"):
            return self.objects.resolve_commit(name)
        ref = _REVISION_SIGNS.split(name, maxsplit=1)[0]
        commit = self.find_refs(ref).get(ref)
        return commit if commit is None or ref == name else self.objects.resolve_commit(name)

    def find_refs(self, *names: str) -> dict[str, str]:
        """Return the commits at which refs point, by the full names of the refs. Raises OperationRefused."""
        targets = self.find_ref_targets(*names)
        commits = {name: self.objects.resolve_commit(target) for name, target in targets.items()}
        return {name: commit for name, commit in commits.items() if commit}

    def find_ref_targets(self, *names: str) -> dict[str, str]:
        """Return the ids of the objects at which refs point, by the full names of the refs.

        If `refs/X` is missing, Git also takes a tag that is named `refs/X`, which a stranger may have pushed. This function
        doesn't. Raises OperationRefused if Git can't read the repository.
        """
        if not names:
            return {}  # without a name, Git lists all refs
        try:
            output = self.git.run_text("for-each-ref", "--format=%(objectname) %(refname)", *names)
        except GitFailed as error:
            raise self._refs_error(str(error)) from None
        targets = {name: target for target, _, name in (line.partition(" ") for line in output.splitlines())}
        return {name: targets[name] for name in names if name in targets}

    def resolve_named_commit(self, name: str) -> str:
        """Return the id of the commit that a user's name resolves to. Raises OperationRefused, with a remedy, if there
        is none."""
        missing = f"{quote_value(name)} names no commit here"
        return self.resolve(
            name, f"{missing}: fetch it, or write another" if self.has_commits() else f"{missing}, as {NO_COMMIT_TEXT}"
        )

    def create_ref(self, name: str, commit: str) -> bool:
        """Point a new ref of this repository at a commit, and return True. Return False if the ref exists.

        Raises OperationRefused if Git can't write the ref.
        """
        ended = self.git.run("update-ref", name, commit, self.git.null_id, settings=QUIET_SETTINGS)
        if ended.exit_code and self.find_commit(name) is None:
            raise OperationRefused(f"Git can't create {name}: {escape_unprintable(ended.stderr.strip(), 400)}")
        return ended.exit_code == 0

    def list_refs(self, prefix: str) -> list[str]:
        """Return the full names of the refs of this repository that begin with `prefix`, which ends with a slash."""
        return self.git.run_text("for-each-ref", "--format=%(refname)", prefix.removesuffix("/")).splitlines()

    def folder_prefix(self, folder: Path) -> str:
        """Return the path that a folder of the work tree has in the commits; empty for the root of the work tree."""
        tree = self.git.work_tree
        path = folder.resolve().relative_to(tree.resolve()).as_posix() if tree else "."
        return "" if path == "." else path

    def listing(self, commit: str, folder: str = "") -> Mapping[str, str]:
        """Return the path and the blob id of every file in a commit, or in a folder of the commit, sorted by path.

        If a parent of the commit was listed recently, only the differences are read. Raises OperationRefused if the
        commit or folder is missing, and MalformedTree.
        """
        tree = self.tree_of(commit, folder)
        if tree is None:
            raise OperationRefused(f"commit {commit} has no folder {quote_value(folder)}")
        if folder:
            return self._walk_listing(commit, tree, f"{folder}/")
        files = self._listings.pop(tree, None)
        if files is None:
            files = self._listing_from_parent(commit, tree)
        if files is None:
            files = self._walk_listing(commit, tree)
        self._listings[tree], self._listed_commits[commit] = files, tree
        for cache in (self._listings, self._listed_commits):
            while len(cache) > MAX_LISTINGS:
                del cache[next(iter(cache))]
        return files

    def _walk_listing(self, commit: str, tree: str, prefix: str = "") -> dict[str, str]:
        files = {}
        for path, mode, blob in self.trees.walk(tree, MOST_FILES):
            if mode == TREE:
                raise LimitExceeded(f"commit {commit} has folders more than {MAX_DEPTH} deep")
            files[prefix + path] = blob
        return {path: files[path] for path in sorted(files)}

    def _listing_from_parent(self, commit: str, tree: str) -> dict[str, str] | None:
        """Return the listing of a commit: the cached listing of a parent with the differences applied.

        Return None if no listing of a parent is cached, or if there are too many differences. Apart from the trees,
        only the header of `commit` is read, because a stranger may have written the commit and its history.
        """
        parents = list[str]()
        with contextlib.suppress(OperationRefused):
            parents = self.parents(commit) if self.objects.info([commit])[commit].kind == "commit" else []
        parent_tree = next(
            (self._listed_commits[parent] for parent in parents if self._listed_commits.get(parent) in self._listings),
            None,
        )
        if parent_tree is None:
            return None
        files = dict(self._listings[parent_tree])
        try:
            for change in TreeComparison(self.trees).compare(parent_tree, tree):
                if "\\" in change.path:  # a backslash may be the escape of a byte that is not UTF-8
                    return None
                if change.blob:
                    files[change.path] = change.blob
                else:
                    files.pop(change.path, None)
            if files.keys() == self._listings[parent_tree].keys():
                return files  # the listing of the parent is sorted and within the limits
            check_limits(files, MOST_FILES)
        except LimitExceeded:
            return None
        return {path: files[path] for path in sorted(files)}

    def read(self, blob: str) -> bytes:
        """Return a blob's bytes."""
        return self.read_all([blob])[0]

    def read_all(self, blobs: Sequence[str]) -> list[bytes]:
        """Return the bytes of several blobs with one request to Git's object reader.

        Raises OperationRefused if a blob is missing, and LimitExceeded if a blob has more than MAX_READ_BYTES.
        """
        contents: dict[str, bytes] = {}
        for blob, data in self.objects.read(blobs, "blob", MAX_READ_BYTES):
            if data is None:
                raise LimitExceeded(f"object {blob} has more than {MAX_READ_BYTES:,} bytes: no file of ours does")
            contents[blob] = data
        return [contents[blob] for blob in blobs]

    def read_small(self, blobs: Iterable[str]) -> dict[str, bytes]:
        """Return, by blob, the bytes of the blobs that have at most MAX_PREFETCH_BYTES.

        Raises OperationRefused if a blob is missing.
        """
        contents = self.objects.read(blobs, "blob", MAX_PREFETCH_BYTES)
        return {blob: data for blob, data in contents if data is not None}

    def read_at(self, commit: str, path: str) -> bytes | None:
        """Return the bytes of a file in a commit; None if the file or the commit is missing."""
        if not OBJECT_ID.fullmatch(commit) or not self.objects.info([commit])[commit].kind:
            return None
        entry = self.trees.find_entry(self.trees.root(commit), path)
        return self.read(entry.id) if entry is not None and entry.mode in REGULAR else None

    def has_object(self, commit: str) -> bool:
        """Return whether the repository has an object with this id."""
        return OBJECT_ID.fullmatch(commit) is not None and self.objects.info([commit])[commit].kind != ""

    def peel_to_commit(self, object_id: str) -> str | None:
        """Return the commit that has this id, or at which the tag with this id points; None if there is no commit."""
        kind = self.objects.info([object_id])[object_id].kind
        if kind == "tag":
            return self._try_git("rev-parse", "--verify", "--quiet", f"{object_id}^{{commit}}")
        return object_id if kind == "commit" else None

    def is_ancestor(self, commit: str, other: str) -> bool:
        """Return whether `commit` is `other` or an ancestor of it. Raises OperationRefused if the history can't be
        read."""
        if commit == other:
            return True
        if any(info.kind not in ("", "commit", "tag") for info in self.objects.info([commit, other]).values()):
            return False  # a ref may point at a tree or a blob, which has no ancestors
        ended = self.git.run("merge-base", "--is-ancestor", commit, other)
        if ended.exit_code > 1 and self.has_object(commit) and self.has_object(other):
            raise OperationRefused(
                f"the history of commit {other} can't be read: {escape_unprintable(ended.stderr, 400)}"
            )
        return ended.exit_code == 0

    def newest_commits(self, commits: Iterable[str]) -> tuple[str, ...]:
        """Return the given commits without the ancestors of other given commits. Missing commits are returned too."""
        candidates = list(dict.fromkeys(commits))
        here = [commit for commit, info in self.objects.info(candidates).items() if info.kind == "commit"]
        ends = self.git.run_text("merge-base", "--independent", *here).split() if len(here) > 1 else here
        return (*ends, *(commit for commit in candidates if commit not in here))

    def count_between(self, old: str, new: str) -> int:
        """Return the number of commits that `new` contains and `old` does not."""
        return int(self.git.run_text("rev-list", "--count", new, f"^{old}"))

    def author(self, commit: str) -> bytes:
        """Return a commit's author and author time, as in its header: `name <mail> time zone`.

        The author line may contain anything, because the pusher wrote it. If the line is malformed, return the current
        committer.
        """
        line = next(line for line in self.trees.header(commit) if line.startswith(b"author "))
        author = line.removeprefix(b"author ")
        return author if _IDENTITY.fullmatch(author) else self.committer()

    def parents(self, commit: str) -> list[str]:
        """Return a commit's parents. Raises OperationRefused if a `parent` line is malformed.

        Like Git, this method reads only the `parent` lines that directly follow the `tree` line.
        """
        lines = itertools.takewhile(lambda line: line.startswith(b"parent "), self.trees.header(commit)[1:])
        matches = [(line, _PARENT_LINE.fullmatch(line)) for line in lines]
        for line, parent in matches:
            if parent is None:
                raise OperationRefused(
                    f"commit {commit} names no parent in {quote_value(line.decode('utf-8', 'backslashreplace'))}"
                )
        return [parent[1].decode("ascii") for _, parent in matches if parent]

    def subject(self, commit: str) -> str:
        """Return the first line of a commit's message."""
        return self.trees.message(commit).partition(b"\n")[0].decode("utf-8", "replace")

    def list_ancestors(self, commit: str, most: int) -> list[str]:
        """Return a commit and its ancestors, at most `most` commits in total, each before its parents."""
        return self.git.run_text("rev-list", "--topo-order", f"--max-count={most}", commit).split()

    def committed_at(self, commit: str) -> int:
        """Return the commit time in seconds since 1970; 0 if the header is malformed."""
        matches = [_COMMITTER_TIME.search(line) for line in self.trees.header(commit)]
        return next((int(match[1]) for match in matches if match), 0)

    def tree_of(self, commit: str, folder: str) -> str | None:
        """Return the id of a folder's tree in a commit, or in a tree; None if there is no such folder.

        Raises OperationRefused if the commit is missing, and MalformedTree.
        """
        entry = self.trees.find_entry(self.trees.root(commit), folder)
        return entry.id if entry is not None and entry.mode == TREE else None

    def last_message(self, commit: str, folder: str) -> str:
        """Return the message of the last commit that changed a folder; empty if there is none.

        Only `commit` and its ancestors are searched.
        """
        return self.git.run_text("log", "-1", "--no-show-signature", "--format=%B", commit, "--", folder)

    def sign_with(self, key: Path, *, keep: bool = True) -> str:
        """Sign every later commit in this repository with a private SSH key, and return its public key.

        With `keep`, the settings are written into the repository's own configuration. Otherwise, they apply only to
        this Python object.
        """
        public_key = read_public_key(key)
        settings = (("gpg.format", "ssh"), ("user.signingKey", str(key.resolve())), ("commit.gpgSign", "true"))
        if keep:
            self.git.configure(settings)
        self.signing = (*(f"{name}={value}" for name, value in settings), _SSH_PROGRAM)
        self._signs_commits = True
        return public_key

    def has_signature(self, commit: str) -> bool:
        """Return whether a commit has a signature, valid or not."""
        return any(line.startswith(b"gpgsig") for line in self.trees.header(commit))

    def is_signed_by(self, commit: str, key: str) -> bool:
        """Return whether a commit has a valid signature by the owner of a public SSH key. Each commit is verified once.

        UNKNOWN_KEY signs nothing.
        Raises SignaturesUnavailable.
        """
        if (commit, key) not in self._signature_checks:
            payload, signature = self.trees.signed_text(commit)
            self._signature_checks[commit, key] = bool(key and signature) and verify_signature(payload, signature, key)
        return self._signature_checks[commit, key]

    def is_tag_signed_by(self, tag: str, name: str, key: str) -> bool:
        """Return whether a tag object has this name and a valid signature by the owner of a public SSH key.

        The owner may have signed tags with other names. Raises SignaturesUnavailable.
        """
        (info,) = self.objects.info([tag]).values()
        if info.kind != "tag":
            return False
        ((_, data),) = self.objects.read([tag], "tag", MAX_COMMIT_BYTES)
        header = (data or b"").partition(b"\n\n")[0].split(b"\n")
        payload, begin, rest = (data or b"").partition(_SIGNATURE_BEGIN)
        return header[2:3] == [f"tag {name}".encode()] and bool(begin) and verify_signature(payload, begin + rest, key)

    def has_commits(self) -> bool:
        """Return whether HEAD points at a commit. A new repository has no commit. Raises OperationRefused if a ref is broken."""
        if self.objects.resolve_commit("HEAD") is not None:
            return True
        self.check_refs()
        return False

    def check_refs(self) -> None:
        """Raise OperationRefused if Git can't read the refs, ignores a broken ref as if it were missing, or lacks the commit of
        HEAD."""
        ended = self.git.run("for-each-ref", "--format=")
        if ended.exit_code or _BROKEN_REF in ended.stderr:
            raise self._refs_error(ended.message)
        # This resolves the name, but doesn't look for the commit.
        head = self.git.run("rev-parse", "--verify", "--quiet", "HEAD")
        if head.exit_code == 0 and self.objects.resolve_commit("HEAD") is None:
            raise self._refs_error("the commit of HEAD is missing: fetch it, or clone the repository again")

    def _refs_error(self, message: str) -> OperationRefused:
        return OperationRefused(
            f"Git can't read the refs of {quote_value(str(self.folder))}: {escape_unprintable(message, 400)}"
        )

    def is_shallow(self) -> bool:
        """Return whether the clone is shallow. Git lists the oldest commits of a shallow clone in a file."""
        noted = self.git.common_folder / "shallow"
        return noted.exists() and noted.stat().st_size > 0

    def committer(self) -> bytes:
        """Return the current committer and time. Raises OperationRefused if Git knows no identity.

        The identity is read from Git once. If GIT_COMMITTER_DATE is set, identity and time are read from Git at each
        call.
        """
        if self._committer is None or "GIT_COMMITTER_DATE" in os.environ:
            try:
                identity = self.git.run_text("var", "GIT_COMMITTER_IDENT")
            except GitFailed as error:
                reason = escape_unprintable(str(error).rpartition("fatal: ")[2], 400)
                raise OperationRefused(
                    f"Git can't name the committer: {reason}: set user.name and user.email with git config, or correct"
                    " GIT_COMMITTER_NAME, GIT_COMMITTER_EMAIL and GIT_COMMITTER_DATE"
                ) from None
            line = os.fsencode(identity)  # the name of a person may be in another encoding than UTF-8
            self._committer = line.rpartition(b"> ")[0]
            return line
        return b"%s> %d +0000" % (self._committer, time.time())

    def disable_signing(self) -> None:
        """Sign no commit, also if Git is configured to sign commits."""
        self._signs_commits = False

    def is_signing_configured(self) -> bool:
        """Return whether Git is configured to sign commits (commit.gpgSign). The setting is read once."""
        if self._signs_commits is None:
            self._signs_commits = self._try_git("config", "--type=bool", "--get", "commit.gpgsign") == "true"
        return self._signs_commits

    def _try_git(self, command: str, *arguments: str) -> str | None:
        """Return the output of a Git command, or None if it fails."""
        try:
            return self.git.run_text(command, *arguments)
        except GitFailed:
            return None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # Python reads a byte that is not UTF-8 as a surrogate, which can't be encoded
        return False
    return True
