"""The gate: reads the finished tree again, and stops it when an object lies outside what its owner may have.

It trusts nothing that built the tree: it starts from the bytes, knows owners from paths, and lists what is allowed.
What it doesn't know is refused. A refusal is a bug of ours, never a tenant's mistake: those are validation's.

Of what is rendered now it says what each object must equal (`expected_objects`), and what the tenant's own declarations
entitle it to (`entitlements`). Of what was published, perhaps by an older version of ours, only what it may not be
(`published_policy`).
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

# Longer than any declared name, so that a text in which a name was replaced can't be mistaken for a real one.
STAND_IN = "stand-in-for-the-name-of-"
STAND_IN_TENANT = f"{STAND_IN}a-tenant"
STAND_IN_RESOURCE = f"{STAND_IN}an-instance-or-storage"
MAX_REMEMBERED_SHAPES = 1500
NO_ENTITLEMENTS = Entitlements({}, {})
# The blob of a declaration, in quotes where it begins with a digit, and what a marker says of its folder: any hash
# will do.
_BLOB = re.compile(rf"\n    {re.escape(names.BLOB)}: (?:[a-f][0-9a-f]{{39}}|\"[0-9a-f]{{40}}\")(?=\n)")
_ANY_BLOB = f"\n    {names.BLOB}: {'f' * 40}"
_CONTENT = re.compile(r"\n  content: sha256:[0-9a-f]{64}(?=\n|$)")
_ANY_CONTENT = f"\n  content: sha256:{'f' * 64}"

_PLATFORM_FILE = re.compile(
    r"(?:control/[a-z-]+|control/add-ons/[a-z0-9-]+|control/(?:argo|namespaces)/[a-z]/allotment--marker"
    r"|platform/(?:add-ons|cluster|node-pools|stock)/[a-z0-9-]+)" + re.escape(paths.FILE_SUFFIX)
)

Shape = tuple[str, str, str, str]  # cluster, part of the tree, the thing that it is judged as, text

# What reading an object raises that is of another shape than ours. So may a fault of ours; nothing passes then either.
_UNEXPECTED_SHAPE_ERRORS = (AttributeError, TypeError, ValueError, LookupError, RecursionError)


class IsolationGate:
    """Judges files of rendered trees. It remembers the shapes it has passed, so that the thousandth alike is cheap.

    A shape is an object's text in which the tenant's and the thing's name are replaced by stand-ins that no
    declaration can have, and hashes by one that nothing has. A shape that passes under the stand-ins passes under
    every name, and under every hash where any is allowed; one that doesn't is judged as it stands; so is a text
    that holds a stand-in itself.
    """

    def __init__(self, clusters: dict[str, Boundary]) -> None:
        self.clusters = clusters
        self._tenants_with_own_stock = {name: boundary.tenants_with_own_stock for name, boundary in clusters.items()}
        self._verdicts: dict[Shape, bool] = {}
        self._previous_verdicts: dict[
            Shape, bool
        ] = {}  # from a while ago: shapes that go on coming are kept, single ones go

    def check(
        self, path: str, data: bytes, entitlements: Entitlements = NO_ENTITLEMENTS, *, published: bool = False
    ) -> None:
        """Raise IsolationBroken when a file, `<cluster>/<path>`, holds anything that its owner may not have.

        `entitlements` are a tenant's in this cluster; of a file with a part that was `published` before only that
        part of the rules counts which older versions of ours kept as well.
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
        """Raise IsolationBroken when one of a cluster's whole tree is read by no Application, or a folder lacks its
        marker.

        That no file is read twice, and which folders an Application's file declares, `check` has seen in each file.
        """
        wrong = list(argo_folders.find_unsynced_folders(files))
        if wrong:
            raise IsolationBroken(f"{cluster}: " + "; ".join(wrong[:5]))

    def drop_forbidden(self, path: str, data: bytes) -> tuple[bytes, list[str]]:
        """Return a file that passed before, less the objects that no longer do, and what is wrong with those.

        A tenant's file that is kept may be older than its cluster's declaration, and than this program: what lacks
        nothing but that it outlives its Application is given that.
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
        # Files about a tenant are alike as a whole; those of its things differ in an object or two.
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
        """Return whether a shape passed under its stand-ins; None when it is new."""
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
            return None  # `no` must stand in quotes, and a stand-in may go without
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
    """Return the thing that an owner's shapes are judged as: programs under their own name, which says what they hold."""
    return owner.resource if paths.is_programs(owner.resource) else STAND_IN_RESOURCE


def _replace_resource_name(name: str, text: str) -> str:
    """Return a text with the stand-in for a thing's name, also where that is a part of words of ours, as `lab` is."""
    if name not in template_text():
        return text.replace(name, STAND_IN_RESOURCE)
    return _name_pattern(name).sub(STAND_IN_RESOURCE, text)


@lru_cache
def _name_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9./:])")


def _judge_rendered(boundary: Boundary, owner: FileOwner, text: str) -> Iterator[str]:
    """Yield what is wrong with an object that was rendered now."""
    return judge(
        boundary, owner, text, partial(judge_against_patterns, boundary, owner.part, owner.tenant, owner.resource)
    )


def _sift_object(boundary: Boundary, owner: FileOwner, text: str) -> tuple[str, list[str]]:
    """Return a published object as it may stay, empty where it may not, and what is wrong with it then."""
    findings = list(judge(boundary, owner, text))
    if not findings:
        return text, []
    if not any(judge(boundary, owner, _with_keep_option(text))):
        return _with_keep_option(text), []
    return "", findings


def _describe_unexpected_shape(error: Exception) -> str:
    return f"of another shape than ours: {escape_unprintable(str(error))}"


def _with_keep_option(text: str) -> str:
    """Return an object's text that says that it outlives its Application, where it says nothing of that."""
    try:
        manifest = load_one(text)
    except Malformed:
        return text
    metadata = manifest.get("metadata", {})
    annotations = {names.SYNC_OPTIONS: names.KEEP_ON_APPLICATION_DELETION, **metadata.get("annotations", {})}
    return dump([{**manifest, "metadata": {**metadata, "annotations": annotations}}]).decode().removesuffix("\n")


def _find_misread_folders(cluster: str, inner: str, texts: list[str]) -> Iterator[str]:
    """Yield what is wrong with the folders that a file's Applications let Argo CD read."""
    if argo_folders.folder_of(inner) == argo_folders.ADD_ONS_FOLDER:
        return  # they read what others publish, and nothing of our branches; `expected_objects` compares what
    expected_folders = argo_folders.folders_of_application_file(inner)
    if not expected_folders and not any("kind: Application" in text for text in texts):
        return
    try:
        objects = [load_one(text) for text in texts]
    except Malformed:
        return  # each text's own judgement says so
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
    """Return the owner of a path inside a cluster's tree, None where nothing lies."""
    if spot := paths.parse_tree_path(inner):
        return (
            FileOwner("tenant", spot.tenant, spot.name)
            if spot.part in TREE_PARTS
            else FileOwner(spot.part, spot.tenant, "")
        )
    return FileOwner("platform", "", inner) if _PLATFORM_FILE.fullmatch(inner) else None
