"""Reads back what was published: units held, volumes, how far a deletion is; and rewrites what must stay or may go.

Everything here is the text of `dump`, written by us before; a Malformed text isn't.
"""

from __future__ import annotations

from typing import NamedTuple

from allotment.accounts.capacity import Claim
from allotment.declared.values import size_of
from allotment.manifests import names
from allotment.manifests.text import Object, dump, load, load_one, split

UNPROTECTED = {names.PROTECTED: "false"}


class Volume(NamedTuple):
    """A storage's PersistentVolumeClaim: its size in bytes, its class, and what may become of it."""

    size: int
    storage_class: str
    access_modes: tuple[str, ...]
    deletion_policy: str
    protected: bool


def claim_of(cluster: str, tenant: str, data: bytes) -> Claim | None:
    """Return the units that an instance's file says it holds; None where it holds none, or is of no instance."""
    deployment = load_one(split(data)[0])
    metadata = deployment.get("metadata", {})
    units, spec = metadata.get("annotations", {}).get(names.UNITS), metadata.get("labels", {}).get(names.GPU_SPEC)
    if units is None or spec is None:
        return None
    return Claim(cluster, spec, tenant, metadata["name"], int(units), deployment["spec"]["replicas"])


def volume_of(data: bytes) -> Volume | None:
    """Return the volume that a storage's file declares."""
    claim = load_one(split(data)[0])
    if claim.get("kind") != "PersistentVolumeClaim":
        return None
    spec, annotations = claim["spec"], claim["metadata"]["annotations"]
    return Volume(
        size_of(spec["resources"]["requests"]["storage"]),
        spec["storageClassName"],
        tuple(spec["accessModes"]),
        annotations[names.DELETION_POLICY],
        annotations[names.PROTECTED] == "true",
    )


def declared_blob(data: bytes) -> str:
    """Return the Git blob of the declaration that a file was rendered from; empty where it says none."""
    blob: str = load_one(split(data)[0]).get("metadata", {}).get("annotations", {}).get(names.BLOB, "")
    return blob


def predecessor_of(data: bytes) -> str:
    """Return the uid of the Job that prepared another storage of this name before; empty where there was none."""
    noted: str = load_one(split(data)[0]).get("metadata", {}).get("annotations", {}).get(names.PREDECESSOR, "")
    return noted


def with_predecessor(data: bytes, uid: str) -> bytes:
    """Return a storage's file that says whose preparation isn't its own."""
    claim = load_one(split(data)[0])
    claim["metadata"]["annotations"][names.PREDECESSOR] = uid
    first = dump([claim]).decode().removesuffix("\n")
    return ("\n---\n".join([first, *split(data)[1:]]) + "\n").encode()


def job_names(data: bytes) -> frozenset[str]:
    """Return the names of the Jobs in a storage's file."""
    return frozenset(name for text in split(data) if (name := _job(text)) is not None)


def mounts_of(data: bytes) -> frozenset[str]:
    """Return the storages that an instance's file mounts."""
    deployment = load_one(split(data)[0])
    volumes = deployment.get("spec", {}).get("template", {}).get("spec", {}).get("volumes", ())
    return frozenset(one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one)


def lifecycle_of(data: bytes) -> str:
    """Return the lifecycle of a tenant, from the file of its project."""
    lifecycle: str = load_one(split(data)[0])["metadata"]["labels"][names.LIFECYCLE]
    return lifecycle


def leaving_volume(data: bytes, *, protected: bool) -> bytes:
    """Return a storage's volume alone; unprotected, Argo CD may prune it and the cluster lets it go."""
    claim = load(data)[0]
    return dump([claim if protected else _unprotected(claim)])


def leaving_namespace(data: bytes) -> bytes:
    """Return a tenant's namespace and its isolation, all free to go."""
    return dump([_unprotected(one) for one in load(data)])


def _unprotected(one: Object) -> Object:
    metadata = one["metadata"]
    kept = {key: value for key, value in metadata["annotations"].items() if key != names.SYNC_OPTIONS}
    return {**one, "metadata": {**metadata, "annotations": {**kept, **UNPROTECTED}}}


def with_jobs_of(data: bytes, before: bytes, *, held: bool = False) -> bytes:
    """Return a file with the Jobs of its predecessor, byte for byte, where their names stand; `held`, with all of them.

    A Job's template can't change, and a Job that ran must not run again because we write it differently today.
    """
    old = {name: text for text in split(before) if (name := _job(text)) is not None}
    if held:
        texts = [text for text in split(data) if _job(text) is None]
        texts[1:1] = old.values()
    else:
        texts = [old.get(_job(text) or "", text) for text in split(data)]
    return ("\n---\n".join(texts) + "\n").encode()


def _job(text: str) -> str | None:
    """Return a Job's name."""
    if "\nkind: Job\n" not in f"\n{text}\n":
        return None
    name: str = load_one(text)["metadata"]["name"]
    return name
