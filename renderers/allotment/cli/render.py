"""`allot render`: the manifests, into a folder or to standard output."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from allotment.cli.formats import Judged, as_text, counted
from allotment.cli.options import day_of, repository, source_of, source_options
from allotment.cli.progress import on_terminal
from allotment.manifests.paths import stem_of
from allotment.problems import Refused, quoted

if TYPE_CHECKING:
    import datetime

    from allotment.adapters.source import Source
    from allotment.adapters.tree_folder import Written
    from allotment.pipeline.check.survey import Survey
    from allotment.pipeline.render import Keep

READER_GONE = 141  # as a shell says of SIGPIPE
COPIED = 1 << 20  # bytes at a time
Selection = tuple[frozenset[str], frozenset[str]]  # clusters and tenants; empty means all


@click.command()
@source_options
@click.option("--cluster", "clusters", multiple=True, metavar="NAME", help="Only this cluster; may be given again.")
@click.option("--tenant", "tenants", multiple=True, metavar="NAME", help="Only this tenant; may be given again.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="The folder to write; it must be empty or a tree written before."
)
@click.option("--stdout", is_flag=True, help="Write one YAML stream instead of a folder.")
def command(
    repo: Path | None,
    commit: str | None,
    as_of: datetime.date | None,
    clusters: tuple[str, ...],
    tenants: tuple[str, ...],
    out: Path | None,
    stdout: bool,
) -> None:
    """Write the Kubernetes manifests that the declarations mean.

    Everything is checked first; while anything is wrong nothing is written. OUT becomes the whole tree, one folder a
    cluster; with --cluster or --tenant only their part of it. Files that don't change aren't touched.
    """
    if stdout == (out is not None):
        raise click.UsageError("Name a folder with --out DIR, or give --stdout.")
    root = repository(repo)
    source = source_of(root, commit)
    selection = (frozenset(clusters), frozenset(tenants))
    if out is None:
        _to_stdout(root, source, as_of, selection)
    else:
        _to_folder(root, source, as_of, selection, out)


def _to_folder(root: Path, source: Source, as_of: datetime.date | None, selection: Selection, out: Path) -> None:
    from allotment.adapters.tree_folder import TreeFolder
    from allotment.declared.inventory import blob_id

    _outside_sources(root, out)
    tree = TreeFolder(out)
    try:
        found = _surveyed(
            root,
            source,
            as_of,
            selection,
            lambda files: {path: (blob_id(data), tree.stage(path, data)) for path, data in files},
        )
        staged: dict[str, tuple[str, bool]] = {}
        for one in found.made.values():
            staged.update(one or {})
        produced = {path: differs for path, (_, differs) in staged.items()}
        for path, data in _platform_files(found, selection, {path: blob for path, (blob, _) in staged.items()}):
            produced[path] = tree.stage(path, data)
        written = tree.commit(produced, lambda path: _selected(path, selection))
    finally:
        tree.close()
    _say(found, produced, written, out)


def _to_stdout(root: Path, source: Source, as_of: datetime.date | None, selection: Selection) -> None:
    """Each process keeps what it renders in a file of its own until all is known to be right."""
    from allotment.declared.inventory import blob_id

    with tempfile.TemporaryDirectory(prefix="allot-render-") as folder, ExitStack() as files:
        spools: dict[str, IO[bytes]] = {}

        def opened(name: str, mode: str) -> IO[bytes]:
            if name + mode not in spools:
                spools[name + mode] = files.enter_context(open(f"{folder}/{name}", mode))
            return spools[name + mode]

        def keep(rendered: Iterable[tuple[str, bytes]]) -> tuple[tuple[str, int, int], dict[str, str]]:
            name = str(os.getpid())
            spool = opened(name, "wb")
            start = spool.tell()
            files = list(rendered)
            spool.write(b"".join(_document(path, data) for path, data in files))
            spool.flush()
            return (name, start, spool.tell()), {path: blob_id(data) for path, data in files}

        found = _surveyed(root, source, as_of, selection, keep)
        made = [found.made[tenant] for tenant in sorted(found.made) if found.made[tenant]]
        ranges, blobs = [one for one, _ in made], {path: blob for _, one in made for path, blob in one.items()}
        target = sys.stdout.buffer
        try:
            for path, data in _platform_files(found, selection, blobs):
                target.write(_document(path, data))
            for name, start, end in _joined(ranges):
                spool = opened(name, "rb")
                spool.seek(start)
                for at in range(start, end, COPIED):
                    target.write(spool.read(min(end - at, COPIED)))
            target.flush()
        except BrokenPipeError:  # whoever read has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(READER_GONE) from None


def _joined(ranges: list[tuple[str, int, int]]) -> Iterator[tuple[str, int, int]]:
    """Yield ranges of files, those that continue one another as one."""
    current: tuple[str, int, int] | None = None
    for name, start, end in ranges:
        if current is not None and current[0] == name and current[2] == start:
            current = (name, current[1], end)
            continue
        if current is not None:
            yield current
        current = (name, start, end)
    if current is not None:
        yield current


def _document(path: str, data: bytes) -> bytes:
    return b"---\n# " + path.encode() + b"\n" + data


def _surveyed(
    root: Path,
    source: Source,
    as_of: datetime.date | None,
    selection: Selection,
    keep: Keep[Any],
) -> Survey:
    """Check everything and render each selected tenant with `keep`; end with the problems where there are any."""
    from allotment.pipeline.check.survey import survey
    from allotment.pipeline.render import Renderer

    clusters, tenants = selection
    with on_terminal("Rendering tenants") as progress:
        found = survey(source, day_of(source, as_of), render=Renderer(keep, clusters, tenants), progress=progress)
    if found.errors:
        click.echo(as_text(found.problems, Judged(found.files, len(found.parts))), nl=False, err=True)
        raise click.exceptions.Exit(1)
    _known("cluster", clusters, found.offers.clusters)
    _known("tenant", tenants, found.parts)
    return found


def _known(what: str, wanted: frozenset[str], known: Iterable[str]) -> None:
    from allotment.declared.reading import nearest

    for name in sorted(wanted - set(known)):
        raise Refused(f"no {what} is named {quoted(name)}{nearest(name, known)}")


def _platform_files(
    found: Survey, selection: Selection, tenants_files: Mapping[str, str]
) -> Iterator[tuple[str, bytes]]:
    """Yield the clusters' own files. They are nobody's when tenants are selected; `tenants_files` has the blobs of all theirs."""
    from allotment.declared.inventory import blob_id
    from allotment.pipeline.render import cluster_files, marker_files

    clusters, tenants = selection
    if tenants:
        return
    trees: dict[str, dict[str, str]] = {name: {} for name in found.offers.clusters if not clusters or name in clusters}
    for path, blob in tenants_files.items():
        cluster, _, inner = path.partition("/")
        trees[cluster][inner] = blob
    claims = [claim for part in found.parts.values() for claim in part.claims]
    for path, data in cluster_files(found.offers, claims, found.letters, clusters):
        cluster, _, inner = path.partition("/")
        trees[cluster][inner] = blob_id(data)
        yield path, data
    yield from marker_files(found.offers, trees)


def _selected(path: str, selection: Selection) -> bool:
    clusters, tenants = selection
    parts = path.split("/")
    if clusters and parts[0] not in clusters:
        return False
    if not tenants:
        return True
    owner = parts[2] if parts[1:2] == ["tenants"] else stem_of(path)
    return owner in tenants


def _outside_sources(root: Path, out: Path) -> None:
    """Refuse a folder that is, holds, or lies among the declarations."""
    target = Path(os.path.realpath(out))
    sources = [Path(os.path.realpath(root / name)) for name in ("platform", "clusters", "tenants", ".git")]
    if target == Path(os.path.realpath(root)) or any(
        target == one or one in target.parents or target in one.parents for one in sources
    ):
        raise Refused(f"{quoted(str(out))} holds declarations or lies among them: name another folder")


def _say(found: Survey, produced: dict[str, bool], written: Written, out: Path) -> None:
    clusters = len({path.split("/")[0] for path in produced if "/" in path})
    click.echo(
        f"{out}: {counted(clusters, 'cluster')}, {counted(len(found.parts), 'tenant')}, {counted(len(produced) - 1, 'file')}:"
        f" {written.added:,} added, {written.changed:,} changed, {written.removed:,} removed, {written.kept:,} unchanged"
        + (f"; {counted(len(found.problems), 'warning')}, see `allot validate`" if found.problems else "")
    )
