"""`allot render`: writes the manifests into a folder or to standard output."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from allotment.adapters.checkout_paths import check_outside_sources
from allotment.cli.completers import complete_clusters as clusters_there
from allotment.cli.completers import complete_tenants as tenants_there
from allotment.cli.formats import CheckedScope, as_text
from allotment.cli.options import choose_day, find_repository, open_source, output_option, print_note, source_options
from allotment.cli.progress import show_progress
from allotment.manifests.paths import file_stem
from allotment.problems import OperationRefused, pluralize, quote_value

if TYPE_CHECKING:
    import datetime

    from allotment.adapters.declaration_source import Source
    from allotment.adapters.tree_folder import WriteCounts
    from allotment.services.check.repository_check import RepositoryCheck
    from allotment.services.publish.renderer import CollectFiles

A = TypeVar("A")
COPY_BYTES = 1 << 16  # bytes that are copied at a time
Selection = tuple[frozenset[str], frozenset[str]]  # the selected clusters and tenants; an empty set selects all


@click.command()
@source_options
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    metavar="NAME",
    shell_complete=clusters_there,
    help="Render only this cluster; may be given again.",
)
@click.option(
    "--tenant",
    "tenants",
    multiple=True,
    metavar="NAME",
    shell_complete=tenants_there,
    help="Render only this tenant; may be given again.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="The output folder. It must be empty or an earlier output."
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
    """Render the declarations to Kubernetes manifests.

    The command checks everything first, and writes nothing if it finds an error. The output folder has one folder for each
    cluster. With --cluster or --tenant, the command writes only the files of the selected clusters or tenants. The command
    does not touch unchanged files.

    \b
    Examples:
      allot render --out out
      allot render --stdout --cluster eu-1 --tenant solo-ada
    """
    if stdout and out is not None:
        raise click.UsageError("Use either --out or --stdout.")
    if not stdout and out is None:
        raise click.UsageError("Name a folder with --out DIR, or add --stdout.")
    if stdout and style == "json":
        raise click.UsageError("--stdout writes manifests: use --output json with --out only.")
    root = find_repository(repo)
    source = open_source(root, commit)
    selection = (frozenset(clusters), frozenset(tenants))
    if out is None:
        _render_to_stdout(root, source, as_of, selection)
    else:
        _render_to_folder(root, source, as_of, selection, out, style)


def _render_to_folder(
    root: Path, source: Source, as_of: datetime.date | None, selection: Selection, out: Path, style: str
) -> None:
    from allotment.adapters.tree_folder import TreeFolder
    from allotment.declared.inventory import compute_blob_id

    check_outside_sources(root, out)
    with TreeFolder(out) as tree:
        blobs: dict[str, str] = {}
        produced: dict[str, bool] = {}

        def staged(files: Iterable[tuple[str, bytes]]) -> list[tuple[str, str, bool]]:
            return [(path, compute_blob_id(data), tree.stage(path, data)) for path, data in files]

        def store(_: str, result: list[tuple[str, str, bool]] | None) -> None:
            for path, blob, differs in result or ():
                blobs[path], produced[path] = blob, differs

        check = _check_and_render(root, source, as_of, selection, staged, store)
        for path, data in _render_platform_files(check, selection, blobs):
            produced[path] = tree.stage(path, data)
        written = tree.commit(produced, lambda path: _is_selected(path, selection))
    _print_result(check, produced, written, out, style)


def _render_to_stdout(root: Path, source: Source, as_of: datetime.date | None, selection: Selection) -> None:
    """Render to standard output.

    A temporary file holds the manifests until all declarations are checked. If a declaration is invalid, nothing is
    written to standard output.
    """
    from allotment.declared.inventory import compute_blob_id

    with tempfile.TemporaryFile(prefix="allot-render-") as spool:
        blobs: dict[str, str] = {}

        def documents(files: Iterable[tuple[str, bytes]]) -> tuple[dict[str, str], bytes]:
            entries = list(files)
            return {path: compute_blob_id(data) for path, data in entries}, b"".join(
                _format_document(*entry) for entry in entries
            )

        def store(_: str, result: tuple[dict[str, str], bytes] | None) -> None:
            if result is not None:
                blobs.update(result[0])
                spool.write(result[1])

        check = _check_and_render(root, source, as_of, selection, documents, store)
        for path, data in _render_platform_files(check, selection, blobs):
            spool.write(_format_document(path, data))
        spool.seek(0)
        shutil.copyfileobj(spool, sys.stdout.buffer, COPY_BYTES)
        sys.stdout.buffer.flush()


def _format_document(path: str, data: bytes) -> bytes:
    return b"---\n# " + path.encode() + b"\n" + data


def _check_and_render(
    root: Path,
    source: Source,
    as_of: datetime.date | None,
    selection: Selection,
    collect: CollectFiles[A],
    store: Callable[[str, A | None], None],
) -> RepositoryCheck:
    """Check all declarations, and render each selected tenant.

    If there are errors, print the problems and exit with 1.
    """
    from allotment.services.check.artifacts import ArtifactHook
    from allotment.services.check.check_options import CheckOptions
    from allotment.services.check.repository_check import check_repository
    from allotment.services.publish.rendered_catalog_check import check_rendered_catalog
    from allotment.services.publish.renderer import Renderer

    clusters, tenants = selection
    with show_progress("Rendering tenants") as progress:
        options = CheckOptions(report_progress=progress, check_catalog=check_rendered_catalog)
        hook = ArtifactHook(Renderer(collect, clusters, tenants), store)
        check = check_repository(source, choose_day(source, as_of), options, hook=hook)
    if check.errors:
        click.echo(
            as_text(check.problems, CheckedScope(check.file_count, len(check.tally_entries))), nl=False, err=True
        )
        raise click.exceptions.Exit(1)
    _check_names("cluster", clusters, check.catalog.clusters)
    _check_names("tenant", tenants, check.tally_entries)
    return check


def _check_names(kind: str, names: frozenset[str], candidates: Iterable[str]) -> None:
    from allotment.declared.reading import suggest_name

    for name in sorted(names - set(candidates)):
        raise OperationRefused(f"no {kind} is named {quote_value(name)}{suggest_name(name, candidates)}")


def _render_platform_files(
    check: RepositoryCheck, selection: Selection, tenants_files: Mapping[str, str]
) -> Iterator[tuple[str, bytes]]:
    """For the selected clusters, yield the files that belong to no tenant. If tenants are selected, yield no file.

    `tenants_files` maps the path of each rendered file of a tenant to its Git blob.
    """
    from allotment.declared.inventory import compute_blob_id
    from allotment.services.publish.renderer import ClusterRenderer

    clusters, tenants = selection
    if tenants:
        return
    trees: dict[str, dict[str, str]] = {name: {} for name in check.catalog.clusters if not clusters or name in clusters}
    for path, blob in tenants_files.items():
        cluster, _, inner = path.partition("/")
        trees[cluster][inner] = blob
    claims = [claim for part in check.tally_entries.values() for claim in part.claims]
    renderer = ClusterRenderer(check.catalog)
    for path, data in renderer.render_files(claims, check.list_letters, clusters):
        cluster, _, inner = path.partition("/")
        trees[cluster][inner] = compute_blob_id(data)
        yield path, data
    yield from renderer.render_markers(trees)


def _is_selected(path: str, selection: Selection) -> bool:
    clusters, tenants = selection
    parts = path.split("/")
    if clusters and parts[0] not in clusters:
        return False
    if not tenants:
        return True
    return _find_owner(path) in tenants


def _find_owner(path: str) -> str:
    """Return the tenant of a rendered file: the folder below `tenants/`, otherwise the stem of the file's name.

    If the file belongs to no tenant, the result is only the stem of the file's name.
    """
    parts = path.split("/")
    return parts[2] if parts[1:2] == ["tenants"] else file_stem(path)


def _print_result(
    check: RepositoryCheck, produced: dict[str, bool], written: WriteCounts, out: Path, style: str
) -> None:
    clusters = len({path.split("/")[0] for path in produced if "/" in path})
    tenants = len({owner for path in produced if (owner := _find_owner(path)) in check.tally_entries})
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
            unchanged=written.unchanged,
            warnings=len(check.problems),
        )
        click.echo(outputs.as_json(output), nl=False)
        return
    print_note(
        f"{out}: {pluralize(clusters, 'cluster')}, {pluralize(tenants, 'tenant')}, {pluralize(len(produced) - 1, 'file')}:"
        f" {written.added:,} added, {written.changed:,} changed, {written.removed:,} removed, {written.unchanged:,} unchanged"
        + (f"; {pluralize(len(check.problems), 'warning')}, see `allot validate`" if check.problems else "")
    )
