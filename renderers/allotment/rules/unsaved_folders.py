"""Unsaved folders: each folder that an instance's app declares lies on a storage of the instance.

A storage that is mounted at the folder or at one of its parents saves the folder. The files in any other folder are on
the instance's own disk, and each stop or restart erases them. The rule also warns about a Stopped instance. It ignores
the folders that the app marks as `optional`, and a folder in the app's args that `container.args` of the instance replace
without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.app import AppFolder, AppVersion
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.preparation.start_gates import app_version
from allotment.problems import Finding, escape_unprintable

RULE = "unsaved-folder"


def check(catalog: Catalog, tenant: ScopeDeclarations) -> Iterator[Finding]:
    """Check the folders of the apps that a tenant's instances run."""
    for instance in tenant.of_kind(GPUInstance).values():
        spec = instance.model.spec
        for folder in find_unsaved_folders(catalog, instance.model):
            assert spec.app is not None
            message = (
                f"{describe_folder(folder)} is a folder of app {spec.app.name} {spec.app.version} on no storage: each stop or"
                f" restart erases it; mount a storage at {folder.path}; `allot storage create {tenant.name}/NAME --cluster"
                f" {spec.cluster}` creates it"
            )
            yield instance.make_finding("spec.storages", message, RULE, warning=True)


def find_unsaved_folders(catalog: Catalog, instance: GPUInstance) -> list[AppFolder]:
    """Return the folders of an instance's app that are lost when the instance stops; empty for a custom image."""
    version, own = app_version(catalog, instance), instance.spec.container
    if version is None:
        return []
    folders = filter_unsaved_folders(version, (mount.mount_path for mount in instance.spec.storages))
    if own is None or not own.args:
        return folders
    replaced_args, args = " ".join(version.container.args), " ".join(own.args)
    return [folder for folder in folders if folder.path in args or folder.path not in replaced_args]


def filter_unsaved_folders(version: AppVersion, mount_paths: Iterable[str]) -> list[AppFolder]:
    """Return the folders of an app version that need a storage, and are neither at nor below one of `mount_paths`."""
    prefixes = tuple(f"{path}/" for path in mount_paths)
    return [folder for folder in version.folders if not folder.optional and not f"{folder.path}/".startswith(prefixes)]


def describe_folder(folder: AppFolder) -> str:
    """Return the path of a folder and its description, such as `/workspace/outputs (The pictures that it makes)`."""
    text = escape_unprintable(" ".join((folder.description or "").split())).rstrip(".")
    return f"{folder.path} ({text})" if text else folder.path
