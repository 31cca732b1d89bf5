"""Check the rendered files again, and stop the publish if an object exceeds the permissions of its owner.

The gate does not trust the code that rendered the files. It reads their bytes, derives the owner of each file from the
path, and refuses every field that is not on its lists. A refusal indicates a bug in Allotment. It never indicates a
tenant's mistake, because validation finds mistakes earlier.

A newly rendered object must equal its pattern (`expected_objects`) and match the tenant's own declarations
(`entitlements`). An object that was published before may come from an older version of Allotment. For this object, the
gate only checks that it has no forbidden field (`published_policy`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import partial

from allotment.declared.tenant_resources import TREE_PARTS
from allotment.isolation.boundary import Boundary
from allotment.isolation.entitlements import Entitlements
from allotment.isolation.expected_objects import judge_against_patterns
from allotment.isolation.field_policy import check_allowed_keys, check_equal
from allotment.isolation.frame_learning import FrameLearner, may_have_frame, resource_name, scope_of
from allotment.isolation.frames import STAND_IN_TENANT, Frame, FrameCache, join_frames
from allotment.isolation.published_policy import FileOwner, judge
from allotment.manifests import argo_folders, names, paths
from allotment.manifests.yaml_text import Malformed, dump, load_one, split
from allotment.problems import IsolationBroken, escape_unprintable

__all__ = ["NO_ENTITLEMENTS", "STAND_IN_TENANT", "IsolationGate", "parse_owner"]
NO_ENTITLEMENTS = Entitlements({}, {}, frozenset())
_PLATFORM_FILE = re.compile(
    r"(?:control/[a-z-]+|control/add-ons/[a-z0-9-]+|control/(?:argo|namespaces)/[a-z]/allotment--marker"
    r"|platform/(?:add-ons|cluster|node-pools|stock)/[a-z0-9-]+)" + re.escape(paths.FILE_SUFFIX)
)

# These errors occur if an object has an unexpected structure, or if the gate has a bug. In both cases, the gate refuses
# the object.
_UNEXPECTED_SHAPE_ERRORS = (AttributeError, TypeError, ValueError, LookupError, RecursionError)


class IsolationGate:
    """Checks files of rendered trees.

    The gate remembers the frame of each accepted object: its text without the lines that the tenant chooses (`frames`).
    If a text matches a frame, the gate judges only the lines of the tenant. It judges any other text completely.
    """

    def __init__(self, clusters: dict[str, Boundary]) -> None:
        self.clusters = clusters
        self._tenants_with_own_stock = {name: boundary.tenants_with_own_stock for name, boundary in clusters.items()}
        self._learners = {name: FrameLearner(boundary) for name, boundary in clusters.items()}
        self.frames = FrameCache()

    def check(
        self, path: str, data: bytes, entitlements: Entitlements = NO_ENTITLEMENTS, *, published: bool = False
    ) -> None:
        """Raise IsolationBroken if a file, `<cluster>/<path>`, contains anything that its owner may not have.

        `entitlements` are the entitlements of the tenant in this cluster. If the content was `published` before, the
        gate applies only the rules that older versions of Allotment also met.
        """
        name, _, inner = path.partition("/")
        boundary = self.clusters.get(name)
        if boundary is None:
            raise IsolationBroken(f"{escape_unprintable(path)}: no cluster is named so")
        try:
            wrong = list(self._find_violations(boundary, inner, data, None if published else entitlements))
        except _UNEXPECTED_SHAPE_ERRORS as error:
            raise IsolationBroken(f"{escape_unprintable(path)}: {_describe_unexpected_shape(error)}") from error
        if wrong:
            raise IsolationBroken(f"{escape_unprintable(path)}: " + "; ".join(wrong[:5]))

    def check_tree(self, cluster: str, files: Collection[str]) -> None:
        """Raise IsolationBroken if Argo CD would not sync a folder of a cluster's tree correctly.

        `files` are the paths of the complete tree. `argo_folders.find_unsynced_folders` describes the faults. `check`
        verifies that the Applications in each file read the right folders, so that no folder is read twice.
        """
        wrong = list(argo_folders.find_unsynced_folders(files))
        if wrong:
            raise IsolationBroken(f"{cluster}: " + "; ".join(wrong[:5]))

    def drop_forbidden(self, path: str, data: bytes) -> tuple[bytes, list[str]]:
        """Remove from a published file the objects that are now forbidden.

        Return the remaining file, and the violations of the removed objects.

        A retained file may be older than the declaration of its cluster, and older than this version of Allotment. A
        sync option keeps objects when their Application is deleted. If the lack of this option is the only violation of
        an object, the object gets the option and stays.
        """
        name, _, inner = path.partition("/")
        boundary, owner = self.clusters.get(name), parse_owner(inner)
        if boundary is None or owner is None:
            return b"", [f"{escape_unprintable(path)}: no file lies at such a path"]
        try:
            texts = split(data)
        except _UNEXPECTED_SHAPE_ERRORS as error:
            return b"", [_describe_unexpected_shape(error)]
        passed, wrong = [], []
        for text in texts:
            try:
                allowed_text, findings = _sift_object(boundary, owner, text)
            except _UNEXPECTED_SHAPE_ERRORS as error:
                allowed_text, findings = "", [_describe_unexpected_shape(error)]
            passed += [allowed_text] if allowed_text else []
            wrong += findings
        return ("\n---\n".join(passed) + "\n").encode() if passed else b"", wrong

    def _find_violations(
        self, boundary: Boundary, inner: str, data: bytes, entitlements: Entitlements | None
    ) -> Iterator[str]:
        if b"+argocd:skip-file-rendering" in data:
            yield "Argo CD would drop this file"
        owner = parse_owner(inner)
        if owner is None:
            yield "no file lies at such a path"
            return
        try:
            texts = split(data)
        except (Malformed, UnicodeDecodeError) as error:
            yield f"not of the written shape: {escape_unprintable(str(error))}"
            return
        reads = owner.part in ("platform", "argo")
        if entitlements is None:
            yield from _find_misread_folders(boundary.cluster, inner, texts) if reads else ()
            for text in texts:
                yield from judge(boundary, owner, text)
            return
        if owner.part != "platform":
            for text in texts:
                yield from entitlements.judge(text)
        is_framed = may_have_frame(owner) and owner.tenant not in self._tenants_with_own_stock[boundary.cluster]
        # The text of a file with one object has the frame of the object. This frame doesn't show whether the file has all
        # Applications that it must have, so such a file has no frame of its own.
        has_file_frame = is_framed and not (reads and len(texts) == 1)
        if has_file_frame and self._find_frame(boundary, owner, data.decode()[:-1]) is not None:
            return
        misread = list(_find_misread_folders(boundary.cluster, inner, texts)) if reads else []
        yield from misread
        frames: list[Frame | None] = []
        for text in texts:
            frames.append(self._find_or_learn_frame(boundary, owner, text) if is_framed else None)
            if frames[-1] is None:
                yield from _judge_rendered(boundary, owner, text)
        if len(frames) > 1 and not misread and None not in frames:
            self.frames.add(scope_of(boundary.cluster, owner), join_frames(frame for frame in frames if frame))

    def _find_frame(self, boundary: Boundary, owner: FileOwner, text: str) -> Frame | None:
        return self.frames.find(scope_of(boundary.cluster, owner), text, owner.tenant, resource_name(owner))

    def _find_or_learn_frame(self, boundary: Boundary, owner: FileOwner, text: str) -> Frame | None:
        """Return the frame of an object; None if the object has no frame, so that the gate must judge it completely."""
        frame = self._find_frame(boundary, owner, text)
        if frame is None:
            try:
                frame = self._learners[boundary.cluster].learn(owner, text)
            except _UNEXPECTED_SHAPE_ERRORS:
                return None  # the complete check reports the error
            if frame is not None:
                self.frames.add(scope_of(boundary.cluster, owner), frame)
        return frame


def _judge_rendered(boundary: Boundary, owner: FileOwner, text: str) -> Iterator[str]:
    """Yield the violations of a newly rendered object."""
    return judge(
        boundary, owner, text, partial(judge_against_patterns, boundary, owner.part, owner.tenant, owner.resource)
    )


def _sift_object(boundary: Boundary, owner: FileOwner, text: str) -> tuple[str, list[str]]:
    """Return the text of a published object if the object may stay, else an empty text and the violations."""
    findings = list(judge(boundary, owner, text))
    if not findings:
        return text, []
    if not any(judge(boundary, owner, _with_keep_option(text))):
        return _with_keep_option(text), []
    return "", findings


def _describe_unexpected_shape(error: Exception) -> str:
    return f"of another shape than ours: {escape_unprintable(str(error))}"


def _with_keep_option(text: str) -> str:
    """Return an object's text. If the object has no sync options, add KEEP_ON_APPLICATION_DELETION."""
    try:
        manifest = load_one(text)
    except Malformed:
        return text
    metadata = manifest.get("metadata", {})
    annotations = {names.SYNC_OPTIONS: names.KEEP_ON_APPLICATION_DELETION, **metadata.get("annotations", {})}
    return dump([{**manifest, "metadata": {**metadata, "annotations": annotations}}]).decode().removesuffix("\n")


def _find_misread_folders(cluster: str, inner: str, texts: list[str]) -> Iterator[str]:
    """Yield the violations in the sources of a file's Applications, which must read exactly the expected folders."""
    if argo_folders.folder_of(inner) == argo_folders.ADD_ONS_FOLDER:
        return  # add-ons come from other repositories; `expected_objects` checks their sources
    expected_folders = argo_folders.folders_of_application_file(inner)
    if not expected_folders and not any("kind: Application" in text for text in texts):
        return
    try:
        objects = [load_one(text) for text in texts]
    except Malformed:
        return  # the check of each object reports the malformed text
    sources = [
        manifest.get("spec", {}).get("source", {}) for manifest in objects if manifest.get("kind") == "Application"
    ]
    read = sorted(str(source.get("path")) for source in sources)
    if read != sorted(expected_folders):
        yield f"its Applications read {escape_unprintable(str(read))}, must read {sorted(expected_folders)}"
    for source in sources:
        yield from check_allowed_keys("source", source, frozenset(("repoURL", "targetRevision", "path", "directory")))
        yield from check_equal("directory", source.get("directory"), {"include": f"*{paths.FILE_SUFFIX}"})
        yield from check_equal("targetRevision", source.get("targetRevision"), names.rendered_branch(cluster))


def parse_owner(inner: str) -> FileOwner | None:
    """Return the owner of a path in a cluster's tree; None for a path that the tree cannot have."""
    if tree_path := paths.parse_tree_path(inner):
        return (
            FileOwner("tenant", tree_path.tenant, tree_path.name)
            if tree_path.part in TREE_PARTS
            else FileOwner(tree_path.part, tree_path.tenant, "")
        )
    return FileOwner("platform", "", inner) if _PLATFORM_FILE.fullmatch(inner) else None
