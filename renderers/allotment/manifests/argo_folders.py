"""Map the folders of a rendered tree to the Applications that read them, and render each folder's marker.

One Application reads each folder. Each folder has a marker, a ConfigMap with a hash of all other files in the folder.
There are two reasons for markers:

- Git keeps no empty folders. If a folder is absent, Argo CD does not prune the objects that its last files declared.
- Argo CD syncs a folder only if `git diff --name-only` lists a file in this folder (`manifest-generate-paths`). If a
  file moves to another folder, the command lists only the new path, so Argo CD would not sync the old folder. The hash
  in the marker of the old folder changes, so the command lists this marker, and Argo CD syncs the old folder too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from allotment.declared.inventory import compute_blob_id
from allotment.declared.tenant_resources import TREE_PARTS
from allotment.manifests import names, paths
from allotment.manifests.yaml_text import Frozen, dump

ADD_ONS_FOLDER = "control/add-ons"
PLATFORM_PARTS = ("add-ons", "cluster", "node-pools", "stock")
ROOT_APPLICATION = ""  # not a path: no file of the tree declares the root Application
_MARKER_PURPOSE = "Keeps this folder in Git, and says by a hash that something in it has changed."


class _FolderKind(NamedTuple):
    """A kind of folder: a pattern of its path, the file that declares its Application, and its marker's identity.

    All fields except the pattern are format strings. They may use the named groups of the pattern. `marker` may also
    use `c`, the name of the cluster.
    """

    folder: re.Pattern[str]
    application_file: str
    marker: str
    namespace: str


_FOLDER_KINDS = (
    _FolderKind(re.compile(r"control"), ROOT_APPLICATION, "allotment--{c}--control", names.ARGO_NAMESPACE),
    _FolderKind(
        re.compile(r"control/argo/(?P<l>[a-z])"),
        paths.shard_file("{l}"),
        "allotment--{c}--argo-{l}",
        names.ARGO_NAMESPACE,
    ),
    _FolderKind(
        re.compile(r"control/namespaces/(?P<l>[a-z])"),
        paths.shard_file("{l}"),
        "allotment--namespaces-{l}",
        names.STOCK_NAMESPACE,
    ),
    _FolderKind(re.compile(ADD_ONS_FOLDER), paths.PLATFORM_FILE, "allotment--{c}--add-ons", names.ARGO_NAMESPACE),
    _FolderKind(
        re.compile(r"platform/(?P<p>add-ons|cluster|node-pools|stock)"),
        paths.PLATFORM_FILE,
        "allotment--{p}",
        names.STOCK_NAMESPACE,
    ),
    _FolderKind(
        re.compile(r"tenants/(?P<t>(?P<l>[a-z])[a-z0-9-]*)/(?P<p>storage|compute)"),
        f"control/argo/{{l}}/{{t}}{paths.FILE_SUFFIX}",
        "allotment--{p}",
        names.namespace("{t}"),
    ),
)


def folder_of(path: str) -> str:
    """Return the folder of a file."""
    return path.rpartition("/")[0]


def application_file(folder: str) -> str | None:
    """Return the file that declares the Application of a folder; None if no Application reads the folder.

    For `control`, the folder that the root Application reads, return ROOT_APPLICATION.
    """
    folder_kind = _find_folder_kind(folder)
    return folder_kind[0].application_file.format(**folder_kind[1]) if folder_kind else None


def folders_of_application_file(path: str) -> frozenset[str]:
    """Return the folders that the Applications in a file must read; empty if they read no folder of the tree.

    The isolation gate compares these folders with the folders that the Applications do read.
    """
    if path == paths.PLATFORM_FILE:
        return frozenset((ADD_ONS_FOLDER, *(f"platform/{part}" for part in PLATFORM_PARTS)))
    if letter := paths.shard_letter(path):
        return frozenset((f"control/argo/{letter}", f"control/namespaces/{letter}"))
    tree_path = paths.parse_tree_path(path)
    if tree_path is not None and tree_path.part == "argo":
        return frozenset(f"tenants/{tree_path.tenant}/{part}" for part in TREE_PARTS)
    return frozenset()


def find_unsynced_folders(files: Collection[str]) -> Iterator[str]:
    """Yield a message for each folder that Argo CD would not sync correctly; `files` are the paths of a complete tree.

    Such a folder has no marker or no Application, or it is empty although an Application reads it.
    """
    file_paths = set(files)
    folders = {folder_of(path) for path in file_paths}
    for folder in sorted(folders):
        reader = application_file(folder)
        if reader is None or (reader != ROOT_APPLICATION and reader not in file_paths):
            yield f"no Application reads {folder}/"
        elif not any(f"{folder}/{stem}{paths.FILE_SUFFIX}" in file_paths for stem in paths.FOLDER_MARKERS):
            yield f"{folder}/ has no marker"
    for path in sorted(path for path in file_paths if path.startswith("control/")):
        yield from (f"{path} reads {folder}/, which is empty" for folder in folders_of_application_file(path) - folders)


def marker_identity(cluster: str, folder: str) -> tuple[str, str]:
    """Return the name and namespace of a folder's marker; both are empty if no Application reads the folder."""
    folder_kind = _find_folder_kind(folder)
    return (
        (folder_kind[0].marker.format(c=cluster, **folder_kind[1]), folder_kind[0].namespace.format(**folder_kind[1]))
        if folder_kind
        else ("", "")
    )


def render_marker(cluster: str, folder: str, blobs: Iterable[tuple[str, str]], over: str = "") -> bytes:
    """Return the marker of a folder; `blobs` has the path and Git blob ID of each other file in the folder.

    If this publish replaces a foreign commit (a commit on the branch that somebody else pushed), and the foreign commit
    changed the folder, `over` is the foreign commit. Argo CD may have synced the foreign commit, which may contain the
    marker that we would write without `over`. With `over`, our marker has another hash, so Argo CD syncs the folder
    again.
    """
    name, space = marker_identity(cluster, folder)
    assert name, folder
    metadata = {"name": name, "namespace": space, "labels": _MARKER_LABELS}
    data = {"purpose": _MARKER_PURPOSE, "content": _hash_content(blobs, over)}
    return dump([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}])


_MARKER_LABELS = Frozen(names.labels())


def render_markers(
    cluster: str, folders: Collection[str], files: Mapping[str, str], over: Mapping[str, str] | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yield the path and content of the marker of each folder in `folders`.

    `files` maps the path of each file in the cluster's tree to its blob ID. `over` maps a folder to the foreign commit
    that changed the folder; see `render_marker`.
    """
    files_by_folder: dict[str, list[tuple[str, str]]] = {folder: [] for folder in folders}
    stems = dict.fromkeys(folders, paths.FOLDER_MARKER)
    for path, blob in files.items():
        folder = folder_of(path)
        if folder not in files_by_folder:
            continue
        if (stem := paths.file_stem(path)) in paths.FOLDER_MARKERS:
            stems[folder] = stem
        else:
            files_by_folder[folder].append((path, blob))
    for folder, blobs in files_by_folder.items():
        yield (
            f"{folder}/{stems[folder]}{paths.FILE_SUFFIX}",
            render_marker(cluster, folder, blobs, (over or {}).get(folder, "")),
        )


def with_markers(cluster: str, tenant: str, files: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    """Yield each file in `files`, then the markers of the tenant's folders for storage and compute.

    `files` are a tenant's files in a cluster. A file is a pair of its path and its content.
    """
    own, blobs = [f"tenants/{tenant}/{part}" for part in TREE_PARTS], {}
    for path, data in files:
        yield path, data
        if folder_of(path) in own:
            blobs[path] = compute_blob_id(data)
    yield from render_markers(cluster, own, blobs)


def platform_folders(files: Iterable[str]) -> set[str]:
    """Return the folders of a cluster's tree that belong to no tenant, including folders that contain only a marker."""
    folders = {"control"}
    for path in files:
        if path.startswith("control/"):
            folders |= folders_of_application_file(path)
    return {folder for folder in folders if not folder.startswith("tenants/")}


def _hash_content(blobs: Iterable[tuple[str, str]], over: str) -> str:
    text = "\n".join([*(f"{blob} {path}" for path, blob in sorted(blobs)), *([f"over {over}"] if over else [])])
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _find_folder_kind(folder: str) -> tuple[_FolderKind, dict[str, str]] | None:
    for kind in _FOLDER_KINDS:
        if match := kind.folder.fullmatch(folder):
            return kind, match.groupdict()
    return None
