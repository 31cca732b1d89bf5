"""The gate: reads the finished tree again, and stops it when an object lies outside what its owner may have.

It trusts nothing that built the tree: it starts from the bytes, knows owners from paths, and lists what is allowed.
What it doesn't know is refused. A refusal is a bug of ours, never a tenant's mistake: those are validation's.

Of what is rendered now it says what each object must equal (`exact`), and what the tenant's own declarations
entitle it to (`entitlements`). Of what was published, perhaps by an older version of ours, only what it may not be
(`judgement`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache, partial

from allotment.declared.things import PARTS
from allotment.manifests import folders, names, paths
from allotment.manifests.gate.boundary import Boundary
from allotment.manifests.gate.entitlements import Entitlements
from allotment.manifests.gate.exact import judge_exactly, words_of_ours
from allotment.manifests.gate.judged_fields import only, same
from allotment.manifests.gate.judgement import Owner, judge
from allotment.manifests.text import Malformed, dump, is_plain, load_one, split
from allotment.problems import IsolationBroken, printable

# Longer than any declared name, so that a text in which a name was replaced can't be mistaken for a real one.
STAND_IN = "stand-in-for-the-name-of-"
STAND_IN_TENANT = f"{STAND_IN}a-tenant"
STAND_IN_THING = f"{STAND_IN}an-instance-or-storage"
REMEMBERED = 1500
NOT_ENTITLED = Entitlements({}, {})
# The blob of a declaration, in quotes where it begins with a digit, and what a marker says of its folder: any hash
# will do.
_BLOB = re.compile(rf"\n    {re.escape(names.BLOB)}: (?:[a-f][0-9a-f]{{39}}|\"[0-9a-f]{{40}}\")(?=\n)")
_ANY_BLOB = f"\n    {names.BLOB}: {'f' * 40}"
_CONTENT = re.compile(r"\n  content: sha256:[0-9a-f]{64}(?=\n|$)")
_ANY_CONTENT = f"\n  content: sha256:{'f' * 64}"

_PLATFORM_FILE = re.compile(
    r"(?:control/[a-z-]+|control/add-ons/[a-z0-9-]+|control/(?:argo|namespaces)/[a-z]/allotment--marker"
    r"|platform/(?:add-ons|cluster|node-pools|stock)/[a-z0-9-]+)" + re.escape(paths.ENDING)
)

Shape = tuple[str, str, str, str]  # cluster, part of the tree, the thing that it is judged as, text

# What reading an object raises that is of another shape than ours. So may a fault of ours; nothing passes then either.
_OTHER_SHAPE = (AttributeError, TypeError, ValueError, LookupError, RecursionError)


class Gate:
    """Judges files of rendered trees. It remembers the shapes it has passed, so that the thousandth alike is cheap.

    A shape is an object's text in which the tenant's and the thing's name are replaced by stand-ins that no
    declaration can have, and hashes by one that nothing has. A shape that passes under the stand-ins passes under
    every name, and under every hash where any is allowed; one that doesn't is judged as it stands; so is a text
    that holds a stand-in itself.
    """

    def __init__(self, clusters: dict[str, Boundary]) -> None:
        self.clusters = clusters
        self._reserved = {name: boundary.reserved for name, boundary in clusters.items()}
        self._verdicts: dict[Shape, bool] = {}
        self._before: dict[Shape, bool] = {}  # from a while ago: shapes that go on coming are kept, single ones go

    def check(
        self, path: str, data: bytes, entitlements: Entitlements = NOT_ENTITLED, *, published: bool = False
    ) -> None:
        """Raise IsolationBroken when a file, `<cluster>/<path>`, holds anything that its owner may not have.

        `entitlements` are a tenant's in this cluster; of a file with a part that was `published` before only that
        part of the rules counts which older versions of ours kept as well.
        """
        name, _, inner = path.partition("/")
        boundary = self.clusters.get(name)
        if boundary is None:
            raise IsolationBroken(f"{printable(path)}: no cluster is named so")
        try:
            wrong = list(self._wrong(boundary, inner, data, None if published else entitlements))
        except _OTHER_SHAPE as error:
            raise IsolationBroken(f"{printable(path)}: {_other_shape(error)}") from error
        if wrong:
            raise IsolationBroken(f"{printable(path)}: " + "; ".join(wrong[:5]))

    def check_tree(self, cluster: str, files: Collection[str]) -> None:
        """Raise IsolationBroken when one of a cluster's whole tree is read by no Application, or a folder lacks its
        marker.

        That no file is read twice, and which folders an Application's file declares, `check` has seen in each file.
        """
        wrong = list(folders.unread(files))
        if wrong:
            raise IsolationBroken(f"{cluster}: " + "; ".join(wrong[:5]))

    def sift(self, path: str, data: bytes) -> tuple[bytes, list[str]]:
        """Return a file that passed before, less the objects that no longer do, and what is wrong with those.

        A tenant's file that is kept may be older than its cluster's declaration, and than this program: what lacks
        nothing but that it outlives its Application is given that.
        """
        name, _, inner = path.partition("/")
        boundary, owner = self.clusters.get(name), owner_of(inner)
        if boundary is None or owner is None:
            return b"", [f"{printable(path)}: no file lies at such a path"]
        try:
            texts = split(data)
        except _OTHER_SHAPE as error:
            return b"", [_other_shape(error)]
        passed, wrong = [], []
        for text in texts:
            try:
                allowed_text, findings = _sifted(boundary, owner, text)
            except _OTHER_SHAPE as error:
                allowed_text, findings = "", [_other_shape(error)]
            passed += [allowed_text] if allowed_text else []
            wrong += findings
        return ("\n---\n".join(passed) + "\n").encode() if passed else b"", wrong

    def _wrong(self, boundary: Boundary, inner: str, data: bytes, entitlements: Entitlements | None) -> Iterator[str]:
        if b"+argocd:skip-file-rendering" in data:
            yield "Argo CD would drop this file"
        owner = owner_of(inner)
        if owner is None:
            yield "no file lies at such a path"
            return
        try:
            texts = split(data)
        except (Malformed, UnicodeDecodeError) as error:
            yield f"not of the written shape: {printable(str(error))}"
            return
        reads = owner.part in ("platform", "argo")
        if entitlements is None:
            yield from _misread(boundary.cluster, inner, texts) if reads else ()
            for text in texts:
                yield from judge(boundary, owner, text)
            return
        if owner.part != "platform":
            for text in texts:
                yield from entitlements.judge(text)
        # Files about a tenant are alike as a whole; those of its things differ in an object or two.
        file_shape = self._shape(boundary, owner, data.decode()) if owner.part in ("namespaces", "argo") else None
        if file_shape is not None and self._verdict(file_shape):
            return
        misread = list(_misread(boundary.cluster, inner, texts)) if reads else []
        yield from misread
        alike = not misread
        for text in texts:
            if not self._shape_passes(boundary, owner, text):
                alike = False
                yield from _judge_all(boundary, owner, text)
        if alike and file_shape is not None:
            self._remember(file_shape, True)

    def _verdict(self, shape: Shape) -> bool | None:
        """Return whether a shape passed under its stand-ins; None when it is new."""
        verdict = self._verdicts.get(shape)
        if verdict is None:
            verdict = self._before.get(shape)
            if verdict is not None:
                self._remember(shape, verdict)
        return verdict

    def _remember(self, shape: Shape, passed: bool) -> None:
        if len(self._verdicts) >= REMEMBERED:
            self._before, self._verdicts = self._verdicts, {}
        self._verdicts[shape] = passed

    def _shape(self, boundary: Boundary, owner: Owner, text: str) -> Shape | None:
        if owner.part == "platform" or STAND_IN in text or owner.tenant in self._reserved[boundary.cluster]:
            return None
        if not is_plain(owner.tenant) or not is_plain(owner.thing or owner.tenant) or owner.thing[:1].isdigit():
            return None  # `no` must stand in quotes, and a stand-in may go without
        shape = text.replace(owner.tenant, STAND_IN_TENANT)
        if owner.thing and owner.thing not in STAND_IN_TENANT and not paths.is_programs(owner.thing):
            shape = _without(owner.thing, shape)
        shape = _CONTENT.sub(_ANY_CONTENT, _BLOB.sub(_ANY_BLOB, shape))
        return boundary.cluster, owner.part, _judged_as(owner), shape

    def _shape_passes(self, boundary: Boundary, owner: Owner, text: str) -> bool:
        shape = self._shape(boundary, owner, text)
        if shape is None:
            return False
        passed = self._verdict(shape)
        if passed is None:
            wrong = _judge_all(boundary, Owner(owner.part, STAND_IN_TENANT, _judged_as(owner)), shape[-1])
            passed = next(wrong, None) is None
            self._remember(shape, passed)
        return passed


def _judged_as(owner: Owner) -> str:
    """Return the thing that an owner's shapes are judged as: programs under their own name, which says what they hold."""
    return owner.thing if paths.is_programs(owner.thing) else STAND_IN_THING


def _without(name: str, text: str) -> str:
    """Return a text with the stand-in for a thing's name, also where that is a part of words of ours, as `lab` is."""
    if name not in words_of_ours():
        return text.replace(name, STAND_IN_THING)
    return _name_itself(name).sub(STAND_IN_THING, text)


@lru_cache
def _name_itself(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9./:])")


def _judge_all(boundary: Boundary, owner: Owner, text: str) -> Iterator[str]:
    """Yield what is wrong with an object that was rendered now."""
    return judge(boundary, owner, text, partial(judge_exactly, boundary, owner.part, owner.tenant, owner.thing))


def _sifted(boundary: Boundary, owner: Owner, text: str) -> tuple[str, list[str]]:
    """Return a published object as it may stay, empty where it may not, and what is wrong with it then."""
    findings = list(judge(boundary, owner, text))
    if not findings:
        return text, []
    if not any(judge(boundary, owner, _outliving(text))):
        return _outliving(text), []
    return "", findings


def _other_shape(error: Exception) -> str:
    return f"of another shape than ours: {printable(str(error))}"


def _outliving(text: str) -> str:
    """Return an object's text that says that it outlives its Application, where it says nothing of that."""
    try:
        manifest = load_one(text)
    except Malformed:
        return text
    metadata = manifest.get("metadata", {})
    annotations = {names.SYNC_OPTIONS: names.OUTLIVE, **metadata.get("annotations", {})}
    return dump([{**manifest, "metadata": {**metadata, "annotations": annotations}}]).decode().removesuffix("\n")


def _misread(cluster: str, inner: str, texts: list[str]) -> Iterator[str]:
    """Yield what is wrong with the folders that a file's Applications let Argo CD read."""
    if folders.folder_of(inner) == folders.ADD_ONS:
        return  # they read what others publish, and nothing of our branches; `exact` compares what
    wanted = folders.declared_by(inner)
    if not wanted and not any("kind: Application" in text for text in texts):
        return
    try:
        objects = [load_one(text) for text in texts]
    except Malformed:
        return  # each text's own judgement says so
    sources = [
        manifest.get("spec", {}).get("source", {}) for manifest in objects if manifest.get("kind") == "Application"
    ]
    read = sorted(str(source.get("path")) for source in sources)
    if read != sorted(wanted):
        yield f"its Applications read {printable(str(read))}, must read {sorted(wanted)}"
    for source in sources:
        yield from only("source", source, frozenset(("repoURL", "targetRevision", "path", "directory")))
        yield from same("directory", source.get("directory"), {"include": f"*{paths.ENDING}"})
        yield from same("targetRevision", source.get("targetRevision"), names.rendered_branch(cluster))


def owner_of(inner: str) -> Owner | None:
    """Return the owner of a path inside a cluster's tree, None where nothing lies."""
    if spot := paths.spot_of(inner):
        return Owner("tenant", spot.tenant, spot.name) if spot.part in PARTS else Owner(spot.part, spot.tenant, "")
    return Owner("platform", "", inner) if _PLATFORM_FILE.fullmatch(inner) else None
