"""`allot render`: the manifests, into a folder or to standard output."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allotment.cli.completing import clusters as clusters_there
from allotment.cli.completing import tenants as tenants_there
from allotment.cli.formats import Judged, as_text
from allotment.cli.options import day_of, note, output_option, repository, source_of, source_options
from allotment.cli.progress import on_terminal
from allotment.manifests.paths import stem_of
from allotment.problems import Refused, counted, quoted

if TYPE_CHECKING:
    import datetime

    from allotment.adapters.source import Source
    from allotment.adapters.tree_folder import Written
    from allotment.pipeline.check.survey import Survey
    from allotment.pipeline.render import Keep

COPIED = 1 << 16  # bytes at a time
Selection = tuple[frozenset[str], frozenset[str]]  # clusters and tenants; empty means all


@click.command()
@source_options
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    metavar="NAME",
    shell_complete=clusters_there,
    help="Only this cluster; may be given again.",
)
@click.option(
    "--tenant",
    "tenants",
    multiple=True,
    metavar="NAME",
    shell_complete=tenants_there,
    help="Only this tenant; may be given again.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="The folder to write; it must be empty or a tree written before."
)
@click.option("--stdout", is_flag=True, help="Write one YAML stream instead of a folder.")
@output_option()
def command(
    *,
    repo: Path | None,
    commit: str | None,
    as_of: datetime.date | None,
    clusters: tuple[str, ...],
    tenants: tuple[str, ...],
    out: Path | None,
    stdout: bool,
    style: str,
) -> None:
    """Write the Kubernetes manifests that the declarations mean.

    Everything is checked first; while anything is wrong nothing is written. OUT becomes the whole tree, one folder a
    cluster; with --cluster or --tenant only their part of it. Files that don't change aren't touched.

    \b
    Examples:
      allot render --out out
      allot render --stdout --cluster eu-1 --tenant solo-ada
    """
    if stdout and out is not None:
        raise click.UsageError("--out and --stdout are two places: give one of them.")
    if not stdout and out is None:
        raise click.UsageError("Name a folder with --out DIR, or give --stdout.")
    if stdout and style == "json":
        raise click.UsageError("--stdout writes the manifests: --output json says what --out wrote.")
    root = repository(repo)
    source = source_of(root, commit)
    selection = (frozenset(clusters), frozenset(tenants))
    if out is None:
        _to_stdout(root, source, as_of, selection)
    else:
        _to_folder(root, source, as_of, selection, out, style)


def _to_folder(
    root: Path, source: Source, as_of: datetime.date | None, selection: Selection, out: Path, style: str
) -> None:
    from allotment.adapters.tree_folder import TreeFolder
    from allotment.declared.inventory import blob_id

    _outside_sources(root, out)
    with TreeFolder(out) as tree:
        blobs: dict[str, str] = {}
        produced: dict[str, bool] = {}

        def staged(files: Iterable[tuple[str, bytes]]) -> list[tuple[str, str, bool]]:
            return [(path, blob_id(data), tree.stage(path, data)) for path, data in files]

        def take(_: str, result: list[tuple[str, str, bool]] | None) -> None:
            for path, blob, differs in result or ():
                blobs[path], produced[path] = blob, differs

        check = _surveyed(root, source, as_of, selection, staged, take)
        for path, data in _platform_files(check, selection, blobs):
            produced[path] = tree.stage(path, data)
        written = tree.commit(produced, lambda path: _selected(path, selection))
    _say(check, produced, written, out, style)


def _to_stdout(root: Path, source: Source, as_of: datetime.date | None, selection: Selection) -> None:
    """Nothing is written before all is known to be right: until then it is kept in a file."""
    from allotment.declared.inventory import blob_id

    with tempfile.TemporaryFile(prefix="allot-render-") as spool:
        blobs: dict[str, str] = {}

        def documents(files: Iterable[tuple[str, bytes]]) -> tuple[dict[str, str], bytes]:
            entries = list(files)
            return {path: blob_id(data) for path, data in entries}, b"".join(_document(*entry) for entry in entries)

        def take(_: str, result: tuple[dict[str, str], bytes] | None) -> None:
            if result is not None:
                blobs.update(result[0])
                spool.write(result[1])

        check = _surveyed(root, source, as_of, selection, documents, take)
        for path, data in _platform_files(check, selection, blobs):
            spool.write(_document(path, data))
        spool.seek(0)
        shutil.copyfileobj(spool, sys.stdout.buffer, COPIED)
        sys.stdout.buffer.flush()


def _document(path: str, data: bytes) -> bytes:
    return b"---\n# " + path.encode() + b"\n" + data


def _surveyed(
    root: Path,
    source: Source,
    as_of: datetime.date | None,
    selection: Selection,
    keep: Keep[Any],
    take: Callable[[str, Any], None],
) -> Survey:
    """Check everything, and render each selected tenant; end with the problems where there are any."""
    from allotment.pipeline.check.survey import survey
    from allotment.pipeline.render import Renderer

    clusters, tenants = selection
    with on_terminal("Rendering tenants") as progress:
        renderer = Renderer(keep, clusters, tenants)
        check = survey(source, day_of(source, as_of), render=renderer, take=take, progress=progress)
    if check.errors:
        click.echo(as_text(check.problems, Judged(check.files, len(check.parts))), nl=False, err=True)
        raise click.exceptions.Exit(1)
    _known("cluster", clusters, check.offers.clusters)
    _known("tenant", tenants, check.parts)
    return check


def _known(kind: str, wanted: frozenset[str], candidates: Iterable[str]) -> None:
    from allotment.declared.reading import nearest

    for name in sorted(wanted - set(candidates)):
        raise Refused(f"no {kind} is named {quoted(name)}{nearest(name, candidates)}")


def _platform_files(
    check: Survey, selection: Selection, tenants_files: Mapping[str, str]
) -> Iterator[tuple[str, bytes]]:
    """Yield the clusters' own files. They are nobody's when tenants are selected; `tenants_files` has the blobs of
    all theirs."""
    from allotment.declared.inventory import blob_id
    from allotment.pipeline.render import cluster_files, marker_files

    clusters, tenants = selection
    if tenants:
        return
    trees: dict[str, dict[str, str]] = {name: {} for name in check.offers.clusters if not clusters or name in clusters}
    for path, blob in tenants_files.items():
        cluster, _, inner = path.partition("/")
        trees[cluster][inner] = blob
    claims = [claim for part in check.parts.values() for claim in part.claims]
    for path, data in cluster_files(check.offers, claims, check.letters, clusters):
        cluster, _, inner = path.partition("/")
        trees[cluster][inner] = blob_id(data)
        yield path, data
    yield from marker_files(check.offers, trees)


def _selected(path: str, selection: Selection) -> bool:
    clusters, tenants = selection
    parts = path.split("/")
    if clusters and parts[0] not in clusters:
        return False
    if not tenants:
        return True
    return _owner(path) in tenants


def _owner(path: str) -> str:
    """Return whose a file is: a tenant's folder, or the Application or namespace of its name."""
    parts = path.split("/")
    return parts[2] if parts[1:2] == ["tenants"] else stem_of(path)


def _outside_sources(root: Path, out: Path) -> None:
    """Refuse a folder that is, holds, or lies among the declarations."""
    target = Path(os.path.realpath(out))
    sources = [Path(os.path.realpath(root / name)) for name in ("platform", "clusters", "tenants", ".git")]
    if target == Path(os.path.realpath(root)) or any(
        target == source or source in target.parents or target in source.parents for source in sources
    ):
        raise Refused(f"{quoted(str(out))} holds declarations or lies among them: name another folder")


def _say(check: Survey, produced: dict[str, bool], written: Written, out: Path, style: str) -> None:
    clusters = len({path.split("/")[0] for path in produced if "/" in path})
    tenants = len({owner for path in produced if (owner := _owner(path)) in check.parts})
    if style == "json":
        from allotment.reports import outputs
        from allotment.reports.outputs.render import RenderOutput

        output = RenderOutput(
            folder=str(out),
            clusters=clusters,
            tenants=tenants,
            files=len(produced) - 1,
            added=written.added,
            changed=written.changed,
            removed=written.removed,
            unchanged=written.kept,
            warnings=len(check.problems),
        )
        click.echo(outputs.as_json(output), nl=False)
        return
    note(
        f"{out}: {counted(clusters, 'cluster')}, {counted(tenants, 'tenant')}, {counted(len(produced) - 1, 'file')}:"
        f" {written.added:,} added, {written.changed:,} changed, {written.removed:,} removed, {written.kept:,} unchanged"
        + (f"; {counted(len(check.problems), 'warning')}, see `allot validate`" if check.problems else "")
    )
