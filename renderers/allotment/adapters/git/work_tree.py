"""What lies in a work tree now, as a commit that is thrown away: nothing of it is written into the repository, nor is its
index touched."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from allotment.adapters.git.commands import QUIET, Ended
from allotment.adapters.git.repository import Repository
from allotment.problems import Refused

_SETTINGS = (*QUIET, "core.fsmonitor=false", "core.safecrlf=false", "advice.addEmbeddedRepo=false")
_SAID = {f"GIT_{who}_{what}": "allotment" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@contextmanager
def written_apart(repository: Repository) -> Iterator[Path]:
    """Let all that Git writes in a repository meanwhile lie in a folder of its own, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="allot-plan-") as folder:
        objects = Path(folder) / "objects"
        objects.mkdir()
        repository.git.write_to(objects)
        try:
            yield Path(folder)
        finally:
            repository.git.write_here()


def commit_of_folder(repository: Repository, root: Path, folders: Iterable[str], apart: Path) -> str:
    """Return a commit, after the one that is checked out, of what Git would add here: in some folders of `root` every file,
    ignored ones too, and elsewhere those that it knows. `apart` is the folder of `written_apart`. Raises Refused."""
    top = repository.git.work_tree
    if top is None:
        raise Refused("this repository has no work tree: name the commit to plan with --head")
    if not repository.has_commits():
        raise Refused("nothing is committed here yet, so nothing can be compared with it: commit first")
    environment = {**_index_in(repository, apart), **_SAID}

    def done(command: str, *arguments: str) -> str:
        ended: Ended = repository.git.run(command, *arguments, settings=_SETTINGS, environment=environment)
        if ended.status:
            raise Refused(f"Git can't read the work tree: {' '.join(ended.said.split())[-400:]}")
        return ended.out.decode("utf-8", "surrogateescape").strip()

    done("add", "--update", "--", str(top))
    inside = os.path.relpath(root.resolve(), top.resolve())
    for name in folders:
        if (root / name).is_dir() and not (root / name).is_symlink():
            done("add", "--all", "--force", "--", os.path.normpath(f"{inside}/{name}"))
    return done("commit_tree", "-p", "HEAD", "-m", "Work tree", done("write_tree"))


def differing(repository: Repository, commit: str, folders: Iterable[str]) -> int:
    """Return how many files in some folders of the work tree aren't as a commit has them, ignored ones left out."""
    with tempfile.TemporaryDirectory(prefix="allot-look-") as folder:
        environment = _index_in(repository, Path(folder))
        asked = ("--no-ext-diff", "--no-textconv", "--name-only", "-z", commit, "--", *folders)
        changed = repository.git.run("diff", *asked, settings=_SETTINGS, environment=environment)
        new = repository.git.text("ls_files", "--others", "--exclude-standard", "-z", "--", *folders)
    return changed.out.count(b"\0") + new.count("\0")


def _index_in(repository: Repository, folder: Path) -> dict[str, str]:
    """Return the environment in which Git has a copy of the repository's index, in a folder: what Git notes there as it
    looks, its owner may be writing."""
    index = folder / "index"
    own = repository.git.folder / repository.git.text("rev_parse", "--git-path", "index")
    if own.exists():
        shutil.copy2(own, index)  # with its time, by which Git tells what may have changed since
    return {"GIT_INDEX_FILE": str(index)}
