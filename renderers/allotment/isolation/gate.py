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
from functools import lru_cache, partial

from allotment.declared.tenant_resources import TREE_PARTS
from allotment.isolation.boundary import Boundary
from allotment.isolation.entitlements import Entitlements
from allotment.isolation.expected_objects import judge_against_patterns, template_text
from allotment.isolation.field_policy import check_allowed_keys, check_equal
from allotment.isolation.published_policy import FileOwner, judge
from allotment.manifests import argo_folders, names, paths
from allotment.manifests.yaml_text import Malformed, dump, is_plain, load_one, split
from allotment.problems import IsolationBroken, escape_unprintable

# A stand-in replaces a name in a text (see `IsolationGate`). A stand-in is longer than any declared name, so a text
# with stand-ins cannot be mistaken for a real text.
STAND_IN = "stand-in-for-the-name-of-"
STAND_IN_TENANT = f"{STAND_IN}a-tenant"
STAND_IN_RESOURCE = f"{STAND_IN}an-instance-or-storage"
MAX_REMEMBERED_SHAPES = 1500
NO_ENTITLEMENTS = Entitlements({}, {})
# The blob ID of a declaration and the content of a folder marker may be any hash. If the blob ID begins with a digit,
# it is in quotes.
_BLOB = re.compile(rf"\n    {re.escape(names.BLOB)}: (?:[a-f][0-9a-f]{{39}}|\"[0-9a-f]{{40}}\")(?=\n)")
_ANY_BLOB = f"\n    {names.BLOB}: {'f' * 40}"
_CONTENT = re.compile(r"\n  content: sha256:[0-9a-f]{64}(?=\n|$)")
_ANY_CONTENT = f"\n  content: sha256:{'f' * 64}"

_PLATFORM_FILE = re.compile(
    r"(?:control/[a-z-]+|control/add-ons/[a-z0-9-]+|control/(?:argo|namespaces)/[a-z]/allotment--marker"
    r"|platform/(?:add-ons|cluster|node-pools|stock)/[a-z0-9-]+)" + re.escape(paths.FILE_SUFFIX)
)

Shape = tuple[str, str, str, str]  # cluster, part of the tree, name or stand-in of the resource, text

# These errors occur if an object has an unexpected structure, or if the gate has a bug. In both cases, the gate refuses
# the object.
_UNEXPECTED_SHAPE_ERRORS = (AttributeError, TypeError, ValueError, LookupError, RecursionError)


class IsolationGate:
    """Checks files of rendered trees. It caches verdicts by shape, so that it checks similar objects only once.

    A shape is an object's text in which stand-ins replace the names of the tenant and the resource, and fixed values
    replace the hashes that may have any value. No declaration can have a stand-in as its name. If a shape passes, then
    every text of this shape passes. If a shape does not pass, or if the original text contains a stand-in, the gate
    checks the original text.
    """

    def __init__(self, clusters: dict[str, Boundary]) -> None:
        self.clusters = clusters
        self._tenants_with_own_stock = {name: boundary.tenants_with_own_stock for name, boundary in clusters.items()}
        self._verdicts: dict[Shape, bool] = {}
        # When `_verdicts` is full, it becomes `_previous_verdicts`, and the earlier `_previous_verdicts` are dropped. A
        # verdict that the gate needs again moves back to `_verdicts`.
        self._previous_verdicts: dict[Shape, bool] = {}

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

        A retained file may be older than the declaration of its cluster, and older than this version of Allotment. If
        an object only lacks the sync option that keeps it when its Application is deleted, the object gets this option
        and stays.
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
        # Cache a verdict on a whole file only for the parts `argo` and `namespaces`, because in these parts the files
        # of different tenants often have the same shape. The files of resources differ, but most of their objects have
        # the same shapes.
        file_shape = self._shape_of(boundary, owner, data.decode()) if owner.part in ("namespaces", "argo") else None
        if file_shape is not None and self._remembered_verdict(file_shape):
            return
        misread = list(_find_misread_folders(boundary.cluster, inner, texts)) if reads else []
        yield from misread
        alike = not misread
        for text in texts:
            if not self._shape_passes(boundary, owner, text):
                alike = False
                yield from _judge_rendered(boundary, owner, text)
        if alike and file_shape is not None:
            self._remember_verdict(file_shape, True)

    def _remembered_verdict(self, shape: Shape) -> bool | None:
        """Return the cached verdict on a shape: True if the shape passed, False if not, None if none is cached."""
        verdict = self._verdicts.get(shape)
        if verdict is None:
            verdict = self._previous_verdicts.get(shape)
            if verdict is not None:
                self._remember_verdict(shape, verdict)
        return verdict

    def _remember_verdict(self, shape: Shape, passed: bool) -> None:
        if len(self._verdicts) >= MAX_REMEMBERED_SHAPES:
            self._previous_verdicts, self._verdicts = self._verdicts, {}
        self._verdicts[shape] = passed

    def _shape_of(self, boundary: Boundary, owner: FileOwner, text: str) -> Shape | None:
        if (
            owner.part == "platform"
            or STAND_IN in text
            or owner.tenant in self._tenants_with_own_stock[boundary.cluster]
        ):
            return None
        if not is_plain(owner.tenant) or not is_plain(owner.resource or owner.tenant) or owner.resource[:1].isdigit():
            return None  # YAML quotes such a name (for example `no`), but not its stand-in
        shape = text.replace(owner.tenant, STAND_IN_TENANT)
        if owner.resource and owner.resource not in STAND_IN_TENANT and not paths.is_programs(owner.resource):
            shape = _replace_resource_name(owner.resource, shape)
        shape = _CONTENT.sub(_ANY_CONTENT, _BLOB.sub(_ANY_BLOB, shape))
        return boundary.cluster, owner.part, _shape_resource(owner), shape

    def _shape_passes(self, boundary: Boundary, owner: FileOwner, text: str) -> bool:
        shape = self._shape_of(boundary, owner, text)
        if shape is None:
            return False
        passed = self._remembered_verdict(shape)
        if passed is None:
            wrong = _judge_rendered(boundary, FileOwner(owner.part, STAND_IN_TENANT, _shape_resource(owner)), shape[-1])
            passed = next(wrong, None) is None
            self._remember_verdict(shape, passed)
        return passed


def _shape_resource(owner: FileOwner) -> str:
    """Return the resource name for a shape.

    The name of a file with programs is not replaced, because the name contains a hash of the content.
    """
    return owner.resource if paths.is_programs(owner.resource) else STAND_IN_RESOURCE


def _replace_resource_name(name: str, text: str) -> str:
    """Return a text in which the stand-in replaces a resource's name.

    If the name also occurs in the patterns, as `lab` does in `labels`, it is replaced only where it is a whole word.
    """
    if name not in template_text():
        return text.replace(name, STAND_IN_RESOURCE)
    return _name_pattern(name).sub(STAND_IN_RESOURCE, text)


@lru_cache
def _name_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9./:])")


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
    if spot := paths.parse_tree_path(inner):
        return (
            FileOwner("tenant", spot.tenant, spot.name)
            if spot.part in TREE_PARTS
            else FileOwner(spot.part, spot.tenant, "")
        )
    return FileOwner("platform", "", inner) if _PLATFORM_FILE.fullmatch(inner) else None
