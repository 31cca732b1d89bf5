"""Pin an add-on to another version and digest in its file."""

from __future__ import annotations

import re

from allotment.declared import documents
from allotment.declared.document_editor import SetField, edit_document
from allotment.declared.kinds.add_on import COMMIT, DIGEST, OCI_PREFIX, VERSION, AddOn, AddOnSpec
from allotment.problems import OperationRefused, quote_value

_SEMANTIC_VERSION = re.compile(r"v?([0-9]+)\.([0-9]+)\.([0-9]+)(?:-([0-9A-Za-z.-]+))?(?:\+.*)?")


def is_older(version: str, other: str) -> bool:
    """Return whether a chart's version is older than another, by the order of https://semver.org.

    This order ignores build metadata.
    """
    return _sort_key(version) < _sort_key(other)


def _sort_key(version: str) -> tuple[tuple[int, ...], bool, list[tuple[bool, int, str]]]:
    match = _SEMANTIC_VERSION.fullmatch(version)
    assert match is not None, version
    words = match[4].split(".") if match[4] else []
    pre_release = [(not word.isdigit(), int(word) if word.isdigit() else 0, word) for word in words]
    return tuple(int(part) for part in match.groups()[:3]), not words, pre_release


def check_version(spec: AddOnSpec, version: str, digest: str | None) -> None:
    """Raise OperationRefused if an add-on cannot be pinned to a version.

    The reasons are: the version or the digest has the wrong form, the file needs a digest and none is given, or a
    digest is given for a source that takes none.
    """
    if spec.chart is None:
        if not COMMIT.fullmatch(version):
            raise OperationRefused(
                f"{quote_value(version)} can't pin manifests: write the 40 hexadecimal digits of a commit"
            )
        if digest is not None:
            raise OperationRefused("manifests have no digest beside their commit: leave --digest out")
        return
    if not VERSION.fullmatch(version):
        raise OperationRefused(
            f"{quote_value(version)} is not an exact version: write a version such as {spec.chart.version}"
        )
    if digest is not None and not DIGEST.fullmatch(digest):
        raise OperationRefused(f"{quote_value(digest)} is not a digest: write sha256: and 64 hexadecimal digits")
    if digest is not None and not spec.chart.repo_url.startswith(OCI_PREFIX):
        raise OperationRefused("Argo CD checks no digest of an https:// chart: leave --digest out")
    if digest is None and spec.chart.digest is not None:
        raise OperationRefused(
            f"the file pins the chart by digest, and version {version} has a different digest: add --digest sha256:…"
        )


def with_version(data: bytes, version: str, digest: str | None = None) -> bytes:
    """Return the content of an add-on's file with another version, and with another digest if `digest` is given.

    The file must be valid, and `check_version` must have accepted the version and the digest.
    """
    chart = ("spec", "chart")
    document = documents.read(data).value
    field = (*chart, "version") if document and "chart" in document["spec"] else ("spec", "manifests", "revision")
    digests = [SetField((*chart, "digest"), digest)] if digest is not None else []
    return edit_document(data, AddOn, [SetField(field, version), *digests])
