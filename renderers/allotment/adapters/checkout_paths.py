"""Refuses paths through which the files of a checkout, which a stranger may have committed, lead elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from allotment.problems import OperationRefused, escape_unprintable, quote_value


def find_work_trees(folder: Path) -> Iterator[Path]:
    """Yield the work trees of Git around an absolute folder, the innermost first. The folder itself may be one of them."""
    return (each for each in (folder, *folder.parents) if os.path.lexists(each / ".git"))


def is_in_checkout(folder: Path) -> bool:
    """Return whether a folder is in a work tree, so that a stranger may have committed its files.

    A work tree that is the home of the person doesn't count, because nobody checks out pull requests there.
    """
    return any(not _is_home(tree) for tree in find_work_trees(Path(os.path.realpath(folder))))


def config_folder(program: str) -> Path:
    """Return the folder of a program in the person's configuration. The XDG specification ignores a relative path.

    Raises OperationRefused if XDG_CONFIG_HOME leads into a work tree: a stranger may have committed the folder.
    """
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):
        return home_folder() / ".config" / program
    if is_in_checkout(Path(base)):
        raise OperationRefused(
            f"XDG_CONFIG_HOME is {quote_value(base)}, which is in a work tree, and a stranger may have committed it: name another folder"
        )
    return Path(base) / program


def home_folder() -> Path:
    """Return the home of the person. Raises OperationRefused if this user has none."""
    try:
        return Path.home()
    except RuntimeError:
        raise OperationRefused("this user has no home folder: set the environment variable HOME") from None


def _is_home(folder: Path) -> bool:
    try:
        return folder == home_folder().resolve()
    except OperationRefused:
        return False


def refuse_committed_repository(url: str, here: Path) -> None:
    """Raise OperationRefused if a URL is a path into a work tree: the repository there may have hooks of a stranger.

    A relative path begins at the folder `here`.
    """
    if url.startswith("file://"):
        path = unquote(f"/{url.removeprefix('file://').partition('/')[2]}")
    elif "://" in url or ":" in url.partition("/")[0]:
        return  # the URL of a server, also in the form host:path
    else:
        path = url
    folder = Path(os.path.realpath(here / path))
    # Nobody can commit a file with the name `.git`.
    if folder.name != ".git" and not os.path.lexists(folder / ".git") and is_in_checkout(folder):
        raise OperationRefused(
            f"{quote_value(url)} is a repository in a work tree, and a stranger may have committed its hooks: name a folder outside"
        )


def is_regular(root: Path, path: str) -> bool:
    """Return whether a path below `root` is a regular file, and no part of the path is a symbolic link."""
    *above, _ = PurePosixPath(path).parents
    if any((root / place).is_symlink() for place in [PurePosixPath(path), *above]):
        return False
    return (root / path).is_file()


def check_place(root: Path, path: str) -> None:
    """Raise OperationRefused if a path below `root` leads through a link, or is another thing than a regular file.

    A stranger may have committed a link that leads out of the folder.
    """
    for part in reversed(PurePosixPath(path).parents[:-1]):
        folder = root / part
        if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
            raise OperationRefused(f"{escape_unprintable(str(part))} is not a folder: remove it first")
    if os.path.lexists(root / path) and not is_regular(root, path):
        raise OperationRefused(f"{escape_unprintable(path)} is not a regular file: remove it first")


def refuse_committed_links(path: Path) -> None:
    """Raise OperationRefused if a path leads through a link that lies in a work tree.

    Such a link could lead a command to the files of the person, such as those in the home folder. The path counts as it is
    written, because the system follows a link before a `..` after it.
    """
    written = Path(os.getcwd(), path)
    for folder in reversed([written, *written.parents]):
        if folder.is_symlink() and is_in_checkout(folder.parent):
            raise OperationRefused(
                f"{escape_unprintable(str(folder))} is a link in a work tree, and a stranger may have committed it: name its target"
            )


def check_outside_sources(root: Path, out: Path) -> None:
    """Raise OperationRefused if the folder `out` contains declarations or a repository, or is inside a folder of them."""
    target, top = Path(os.path.realpath(out)), Path(os.path.realpath(root))
    sources = [top / name for name in ("platform", "clusters", "tenants")]
    sources += [folder / ".git" for folder in find_work_trees(top)]
    is_repository = target == top or os.path.lexists(target / ".git")
    if is_repository or any(
        source in (target, *target.parents) or target in source.parents for source in sources if os.path.lexists(source)
    ):
        raise OperationRefused(
            f"{quote_value(str(out))} contains declarations or is inside a folder of declarations: name another folder"
        )


def refuse_submodule(root: Path) -> None:
    """Raise OperationRefused if a root is in a submodule. A stranger may have added it in a pull request, with its own origin."""
    tree = next(find_work_trees(root), None)
    if tree is None or not (tree / ".git").is_file():
        return
    repository = Path(
        os.path.normpath(tree / os.fsdecode((tree / ".git").read_bytes()).removeprefix("gitdir: ").strip())
    )
    # Git keeps the repository of a submodule in `modules/` of the outer repository.
    if any(folder.name == "modules" and (folder.parent / "HEAD").is_file() for folder in repository.parents):
        raise OperationRefused(
            f"{escape_unprintable(str(tree))} is a submodule of another repository, and a stranger may have added it: name the"
            " folder of your declarations with --repo"
        )
