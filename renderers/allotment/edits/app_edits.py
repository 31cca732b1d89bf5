"""Adds apps, pins new versions of apps, and deprecates versions: the edits of `allot app`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from allotment.declared import documents
from allotment.declared.document_editor import AddItem, SetField, edit_document
from allotment.declared.image_reference import ImageReference
from allotment.declared.inventory import DeclarationFile
from allotment.declared.kinds.app import App, AppVersion
from allotment.declared.layout import PLATFORM
from allotment.declared.reading import suggest_name
from allotment.declared.version_order import build_version_key
from allotment.edits.change_set import ChangeSet
from allotment.edits.declarations import Declarations
from allotment.edits.new_declaration import build_declaration, check_declaration
from allotment.problems import OperationRefused, quote_value

_VERSIONS = ("spec", "versions")
_VERSION_NAME = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z._-]{0,30}[0-9A-Za-z])?")
_DEPRECATABLE = ("Active", "Deprecated")


def add_app(declarations: Declarations, name: str, spec: dict[str, Any]) -> ChangeSet:
    """Return the change that declares an app. `spec` has the fields of the App.

    Raises OperationRefused if the app exists already, or if a field is invalid.
    """
    path = declarations.create_path(App, PLATFORM, name)
    return _change(f"Add app {name}", name, path, build_declaration(path, spec))


def pin_version(
    declarations: Declarations, name: str, image: ImageReference, *, version: str = "", like: str = ""
) -> ChangeSet:
    """Return the change that adds a version of an app with another image, which has a digest.

    The container and the folders are those of the version `like`, or of the newest version. Without a `version`, its name
    is the tag. The versions that exist already stay as they are. Raises OperationRefused if the app or the version `like`
    is absent, or if the version or the image is declared already.
    """
    declared = declarations.find(App, PLATFORM, name)
    version = version or version_of_tag(image.tag)
    versions = declared.model.spec.versions
    if any(existing.version == version for existing in versions):
        raise OperationRefused(
            f"app {name} has version {version} already, and its container can't change: add --version with another name"
        )
    reference = image.with_digest(image.digest)
    if same := next((existing for existing in versions if existing.container.image == reference), None):
        raise OperationRefused(f"version {same.version} of app {name} has this image already: instances can use it")
    source = _find_version(declared, like) if like else find_newest_version(versions)
    fields = _read_version(declared, source.version)
    new = {key: value for key, value in fields.items() if key not in ("lifecycle", "replacedBy")}
    new |= {"version": version, "container": {**new["container"], "image": reference}}
    data = edit_document(declared.data, App, [AddItem(_VERSIONS, new)])
    note = f"The container is that of version {source.version}, with the image {reference}."
    return _change(f"Add version {version} of app {name}", name, declared.path, data, note)


def deprecate_versions(declarations: Declarations, name: str, version: str = "", replaced_by: str = "") -> ChangeSet:
    """Return the change that deprecates a version of an app, or all its Active versions if `version` is empty.

    Raises OperationRefused if the app or a version is absent, or if the version is Retired or Revoked.
    """
    declared = declarations.find(App, PLATFORM, name)
    versions = [_find_version(declared, version)] if version else list(declared.model.spec.versions)
    if version and versions[0].lifecycle not in _DEPRECATABLE:
        raise OperationRefused(
            f"version {version} of app {name} is {versions[0].lifecycle}, which Deprecated would undo: edit {declared.path}"
        )
    if replaced_by and _find_version(declared, replaced_by).version == version:
        raise OperationRefused(f"version {version} can't replace itself: name another version with --replaced-by")
    edits = []
    for existing in versions:
        path = (*_VERSIONS, existing.version)
        if existing.lifecycle == "Active" and existing.version != replaced_by:
            edits.append(SetField((*path, "lifecycle"), "Deprecated"))
        if replaced_by and existing.lifecycle in _DEPRECATABLE and existing.version != replaced_by:
            edits.append(SetField((*path, "replacedBy"), replaced_by))
    data = edit_document(declared.data, App, edits) if edits else declared.data
    what = f"version {version} of app {name}" if version else f"app {name}"
    note = "Instances of a deprecated version keep running. Their declarations get a warning."
    return _change(f"Deprecate {what}", name, declared.path, data, note)


def version_of_tag(tag: str) -> str:
    """Return the name of a version for a tag: the tag without a `v` before a digit. Raises OperationRefused."""
    version = tag[1:] if tag[:1] == "v" and tag[1:2].isdecimal() else tag
    if not _VERSION_NAME.fullmatch(version):
        raise OperationRefused(
            f"tag {quote_value(tag)} is no name of a version, which has at most 32 characters: add --version NAME"
        )
    return version


def find_newest_version(versions: Sequence[AppVersion]) -> AppVersion:
    """Return the Active version with the highest numbers in its name; if none is Active, the highest of all."""
    active = [version for version in versions if version.lifecycle == "Active"]
    return max(active or versions, key=lambda version: build_version_key(version.version))


def _find_version(declared: DeclarationFile[App], name: str) -> AppVersion:
    versions = {version.version: version for version in declared.model.spec.versions}
    if name not in versions:
        app = declared.model.name
        raise OperationRefused(f"app {app} has no version {quote_value(name)}{suggest_name(name, versions)}")
    return versions[name]


def _read_version(declared: DeclarationFile[App], name: str) -> dict[str, Any]:
    """Return the fields of a version as its file has them."""
    document = documents.read(declared.data).value
    assert document is not None
    return next(version for version in document["spec"]["versions"] if version["version"] == name)


def _change(title: str, name: str, path: str, data: bytes, *notes: str) -> ChangeSet:
    return ChangeSet(title, {path: check_declaration(path, data)}, (f"App {name}",), notes)
