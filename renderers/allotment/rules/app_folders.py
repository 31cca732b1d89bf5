"""App folders: an instance mounts its storages at folders that its app uses.

The rule warns about a mount at any other path, unless `container.args` or `container.env` of the instance contain the
path. It ignores App versions without `folders`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.gpu_instance import GPUInstance, GPUInstanceSpec
from allotment.preparation.start_gates import app_version
from allotment.problems import Finding

RULE = "app-folder"


def check(catalog: Catalog, tenant: ScopeDeclarations) -> Iterator[Finding]:
    """Check the mounts of a tenant's instances that run an app."""
    for instance in tenant.of_kind(GPUInstance).values():
        version, spec = app_version(catalog, instance.model), instance.model.spec
        folders = [folder.path for folder in version.folders] if version is not None else []
        if not folders or spec.app is None:
            continue
        texts = list_arguments(spec)
        for index, mount in enumerate(spec.storages):
            path = mount.mount_path
            if _overlaps_any_folder(path, folders) or any(path in text for text in texts):
                continue
            message = (
                f"{path} is not a folder of app {spec.app.name} {spec.app.version}, which has {', '.join(folders)}; mount the"
                " storage there, or name this path in container.args or container.env"
            )
            yield instance.make_finding(f"spec.storages.{index}.mountPath", message, RULE, warning=True)


def _overlaps_any_folder(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path is equal to one of `folders`, is inside it, or contains it."""
    return any(f"{path}/".startswith(f"{folder}/") or folder.startswith(f"{path}/") for folder in folders)


def list_arguments(spec: GPUInstanceSpec) -> list[str]:
    """Return the args and the values of environment variables that an instance adds to its app."""
    own = spec.container
    return [] if own is None else [*own.args, *(variable.value or "" for variable in own.env)]
