"""Reads published manifests (units, volumes, progress of a deletion), and rewrites files that must stay or may be
removed.

The input is always the output of an earlier `dump`; other text raises Malformed.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from allotment.capacity.units import UnitClaim
from allotment.declared.values import parse_size
from allotment.manifests import names, paths
from allotment.manifests.tenant import disruption
from allotment.manifests.yaml_text import Malformed, Object, dump, load, load_one, split, without_empty

_PREPARED_LINE = re.compile(rb"^    allotment\.dev/prepared: ([a-z0-9-]+)$", re.MULTILINE)
UNPROTECTED_ANNOTATIONS = {names.PROTECTED: "false"}
_NO_REPLICAS_LINE = re.compile(r"^spec:\n(?:  .*\n)*?  replicas: 0$", re.MULTILINE)
_KIND_LINE = re.compile(r"^kind: (.+)$", re.MULTILINE)
# The line of a Job's volume, at its indentation.
_PROGRAMS_LINE = re.compile(
    rb"^          name: (" + re.escape(paths.PROGRAMS_PREFIX).encode() + rb"[a-z0-9-]+)$", re.MULTILINE
)
_NAME_LINE = re.compile(r"^metadata:\n(?:  .*\n)*?  name: (.+)$", re.MULTILINE)


class PublishedVolume(NamedTuple):
    """A resource that holds data: a volume, a bucket, or a snapshot, which names its volume in `source_volume`.

    `size` is in bytes, 0 for a snapshot.
    """

    kind: str
    size: int
    storage_class: str
    access_modes: tuple[str, ...]
    source_volume: str
    deletion_policy: str
    protected: bool


def read_identities(data: bytes) -> frozenset[tuple[str, str]]:
    """Return the kind and name of each object of a file. Raises Malformed if an object has none.

    Reads only these two lines of an object, because that is about ten times as fast as `load`, and there are many
    files.
    """
    try:
        return frozenset((_read_value(_KIND_LINE, text), _read_value(_NAME_LINE, text)) for text in split(data))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise Malformed(str(error)) from None


def stopped_deployments(data: bytes) -> frozenset[str]:
    """Return the names of a file's Deployments without replicas. Raises Malformed if an object has no name."""
    texts = [text for text in split(data) if _NO_REPLICAS_LINE.search(text)]
    return frozenset(_read_value(_NAME_LINE, text) for text in texts if _read_value(_KIND_LINE, text) == "Deployment")


def _read_value(line: re.Pattern[str], text: str) -> str:
    """Return the value of a matching line."""
    match = line.search(text)
    if match is None:
        raise Malformed("an object without kind or name")
    value: str = json.loads(match[1]) if match[1].startswith('"') else match[1]
    return value


def has_disruption_budget(data: bytes) -> bool:
    """Return whether a tenant's namespace file protects its instances from drained nodes."""
    return ("PodDisruptionBudget", disruption.ALL_INSTANCES_BUDGET) in read_identities(data)


def with_disruption_budget(data: bytes, tenant: str) -> bytes:
    """Return a tenant's namespace file, of any version of Allotment, with a budget that protects its instances."""
    return (
        data
        if has_disruption_budget(data)
        else data + b"---\n" + dump([disruption.render_all_instances_budget(tenant)])
    )


def node_template(data: bytes) -> dict[tuple[str, str], Any]:
    """Return the specs that determine a pool's nodes, by the kind and name of each object: the template of its
    NodePool, and its node class.

    A change of limits, budgets or overlays replaces no node.
    """
    specs: dict[tuple[str, str], Any] = {}
    for manifest in load(data):
        if manifest["kind"] != "NodeOverlay":
            spec = manifest["spec"]["template"] if manifest["kind"] == "NodePool" else manifest["spec"]
            specs[manifest["kind"], manifest["metadata"]["name"]] = spec
    return specs


def with_nodes_of(data: bytes, previous: bytes) -> bytes:
    """Return a pool's file with the published template and node class, and all other changes."""
    old = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in load(previous)}
    objects = []
    for manifest in load(data):
        was = old.pop((manifest["kind"], manifest["metadata"]["name"]), None)
        if was is None or manifest["kind"] == "NodeOverlay":
            objects.append(manifest)
        elif manifest["kind"] == "NodePool":
            objects.append({**manifest, "spec": {**manifest["spec"], "template": was["spec"]["template"]}})
        else:
            objects.append({**manifest, "spec": was["spec"]})
    return dump([*objects, *(manifest for (kind, _), manifest in old.items() if kind != "NodeOverlay")])


def read_unit_claim(cluster: str, tenant: str, data: bytes) -> UnitClaim | None:
    """Return the claim in an instance's file; None if it holds no units, or is of no instance."""
    deployment = load_one(split(data)[0])
    metadata = deployment.get("metadata", {})
    units, spec = metadata.get("annotations", {}).get(names.UNITS), metadata.get("labels", {}).get(names.GPU_SPEC)
    if units is None or spec is None:
        return None
    return UnitClaim(cluster, spec, tenant, metadata["name"], int(units), deployment["spec"]["replicas"])


def read_volume(data: bytes) -> PublishedVolume | None:
    """Return the volume in a storage's or snapshot's file; None if it waits and has no volume yet."""
    manifest = load_one(split(data)[0])
    kind, spec = manifest.get("kind", ""), manifest.get("spec", {})
    if kind == "PersistentVolumeClaim":
        size, modes = parse_size(spec["resources"]["requests"]["storage"]), tuple(spec["accessModes"])
        about = kind, size, spec["storageClassName"], modes, ""
    elif kind == "ObjectBucketClaim":
        about = kind, parse_size(spec["additionalConfig"]["maxSize"]), spec["storageClassName"], (), ""
    elif kind == "VolumeSnapshot":
        about = kind, 0, spec["volumeSnapshotClassName"], (), spec["source"]["persistentVolumeClaimName"]
    else:
        return None
    annotations = manifest["metadata"]["annotations"]
    return PublishedVolume(*about, annotations[names.DELETION_POLICY], annotations[names.PROTECTED] == "true")


def waits_for_job(data: bytes) -> str | None:
    """Return the Job that a storage's file waits for, empty for a snapshot; None if the file doesn't wait."""
    for text in split(data):
        if names.WAITS_REASON in text and "\nkind: ConfigMap\n" in f"\n{text}\n":
            job: str = load_one(text)["metadata"]["annotations"].get(names.PREPARES, "")
            return job
    return None


def with_data_source_of(data: bytes, previous: bytes) -> bytes:
    """Return a file with the data source of the published volume or snapshot, which can't change any more."""
    manifest, old = load_one(split(data)[0]), load_one(split(previous)[0])
    if manifest.get("kind") != old.get("kind"):
        return data
    if manifest["kind"] == "VolumeSnapshot":
        manifest["spec"] = old["spec"]
    elif manifest["kind"] == "PersistentVolumeClaim":
        origin = {key: value for key, value in old["spec"].items() if key == "dataSourceRef"}
        manifest["spec"] = {
            **{key: value for key, value in manifest["spec"].items() if key != "dataSourceRef"},
            **origin,
        }
    return _with_first(data, manifest)


def _with_first(data: bytes, manifest: Object) -> bytes:
    """Return a file with another first object."""
    return ("\n---\n".join([_dump_object(manifest), *split(data)[1:]]) + "\n").encode()


def read_declared_blob(data: bytes) -> str:
    """Return the Git blob of the declaration from which a file was rendered; empty if it isn't recorded."""
    blob: str = load_one(split(data)[0]).get("metadata", {}).get("annotations", {}).get(names.BLOB, "")
    return blob


def read_predecessor(data: bytes) -> str:
    """Return the uid of the Job that prepared the predecessor of this name; empty if there was none."""
    noted: str = load_one(split(data)[0]).get("metadata", {}).get("annotations", {}).get(names.PREDECESSOR, "")
    return noted


def with_predecessor(data: bytes, uid: str) -> bytes:
    """Return a storage's file with the uid of its predecessor's Job, which doesn't count as its own preparation."""
    manifest = load_one(split(data)[0])
    manifest["metadata"]["annotations"][names.PREDECESSOR] = uid
    return _with_first(data, manifest)


def read_prepared_by(data: bytes) -> str:
    """Return the Job that prepared a storage's volume, as recorded in its published file; empty if there is none.

    Reads the text directly, because a publish reads every storage.
    """
    match = _PREPARED_LINE.search(data.partition(b"\n---\n")[0])
    return match[1].decode("ascii") if match else ""


def find_prunable_job(data: bytes) -> str:
    """Return the Job in a storage's file from a version that let Argo CD prune Jobs; empty if there is none."""
    if b"\nkind: Job\n" not in data or has_kept_jobs(data):
        return ""
    return next(iter(read_job_names(data)), "")


def read_job_names(data: bytes) -> frozenset[str]:
    """Return the names of the Jobs in a storage's file."""
    return frozenset(
        name for text in split(data) if (kind := _read_job_identity(text)) and kind[0] == "Job" for name in kind[1:]
    )


def read_program_names(data: bytes) -> frozenset[str]:
    """Return the programs that the Jobs in a storage's file name; none for a Job with its own ConfigMap beside it.

    Reads the text directly: if a tenant has Jobs of an older version, a publish reads all its storages.
    """
    return frozenset(name.decode("ascii") for name in _PROGRAMS_LINE.findall(data))


def read_mounts(data: bytes) -> frozenset[str]:
    """Return the storages that an instance's file mounts."""
    deployment = load_one(split(data)[0])
    volumes = deployment.get("spec", {}).get("template", {}).get("spec", {}).get("volumes", ())
    return frozenset(
        volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume
    )


def read_lifecycle(data: bytes) -> str:
    """Return a tenant's lifecycle, from the file of its project."""
    lifecycle: str = load_one(split(data)[0])["metadata"]["labels"][names.LIFECYCLE]
    return lifecycle


def deleting_volume(data: bytes, *, protected: bool) -> bytes:
    """Return the objects that hold data, with their Jobs, as Argo CD may delete them.

    Without `protected`, Argo CD may prune the data too, and the cluster may delete it.
    """
    claim = load_one(split(data)[0])
    jobs = [load_one(text) for text in split(data)[1:] if _read_job_identity(text) is not None]
    return dump([claim if protected else _without_protection(claim), *(_without_keep_options(job) for job in jobs)])


def reprotected(data: bytes) -> bytes:
    """Return the file of a storage or snapshot that is declared again during its deletion: protected, unmarked, and its
    Jobs not prunable."""
    manifest = load_one(split(data)[0])
    annotations = {
        names.SYNC_OPTIONS: names.KEEP_OPTIONS,
        **manifest["metadata"]["annotations"],
        names.DELETION_POLICY: "Retain",
        names.PROTECTED: "true",
    }
    first = _dump_object({**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}})
    return ("\n---\n".join([first, *(_with_keep_options(text) for text in split(data)[1:])]) + "\n").encode()


def has_kept_jobs(data: bytes) -> bool:
    """Return whether a storage's file has a Job that Argo CD must not prune."""
    return any(_read_job_identity(text) is not None and names.KEEP_OPTIONS in text for text in split(data))


def with_prunable_jobs(data: bytes) -> bytes:
    """Return a storage's file in which Argo CD may prune the Jobs and their ConfigMaps.

    Argo CD reads the option from the live objects, so this step precedes their removal.
    """
    texts = [
        text if _read_job_identity(text) is None else _dump_object(_without_keep_options(load_one(text)))
        for text in split(data)
    ]
    return ("\n---\n".join(texts) + "\n").encode()


def _with_keep_options(text: str) -> str:
    """Return a Job, or its ConfigMap, with the option that stops Argo CD from pruning it."""
    if names.KEEP_OPTIONS in text:
        return text
    manifest = load_one(text)
    annotations = {names.SYNC_OPTIONS: names.KEEP_OPTIONS, **manifest["metadata"].get("annotations", {})}
    return _dump_object({**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}})


def _without_keep_options(manifest: Object) -> Object:
    annotations = {
        key: value for key, value in manifest["metadata"].get("annotations", {}).items() if key != names.SYNC_OPTIONS
    }
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "annotations"}
    return {**manifest, "metadata": without_empty({**metadata, "annotations": annotations})}


def _dump_object(manifest: Object) -> str:
    return dump([manifest]).decode().removesuffix("\n")


def deleting_namespace(data: bytes) -> bytes:
    """Return a tenant's namespace and its isolation without protection from deletion."""
    return dump([_without_protection(manifest) for manifest in load(data)])


def _without_protection(manifest: Object) -> Object:
    metadata = manifest["metadata"]
    annotations = {key: value for key, value in metadata.get("annotations", {}).items() if key != names.SYNC_OPTIONS}
    return {**manifest, "metadata": {**metadata, "annotations": {**annotations, **UNPROTECTED_ANNOTATIONS}}}


def with_jobs_of(data: bytes, previous: bytes, *, is_pending: bool = False) -> bytes:
    """Return a file with the published Jobs and their programs, byte for byte, in place of the Jobs of the same names.

    With `is_pending`, return it with all published Jobs. A Job's template can't change, and a finished Job must not run
    again because a new version renders it differently. Unless `is_pending`, each Job gets the annotation that stops
    Argo CD from pruning it. Old Jobs have a ConfigMap with their programs, which stays as long as the Job.
    """
    old = {ran: text for text in split(previous) if (ran := _read_job_identity(text)) is not None}
    if is_pending:
        texts = [text for text in split(data) if _read_job_identity(text) is None]
        texts[1:1] = old.values()
    else:
        had = {name for kind, name in old if kind == "Job"}
        texts = []
        for text in split(data):
            ran = _read_job_identity(text)
            if ran is None or ran[1] not in had:
                texts.append(text)
            elif ran[0] == "Job":
                texts += [_with_keep_options(old_text) for (_, name), old_text in old.items() if name == ran[1]]
    return ("\n---\n".join(texts) + "\n").encode()


def _read_job_identity(text: str) -> tuple[str, str] | None:
    """Return the kind and name of a Job, or of the ConfigMap of the same name that held its programs in an older
    version."""
    lines = f"\n{text}\n"
    if "\nkind: Job\n" not in lines and "\nimmutable: true\n" not in lines:
        return None
    manifest = load_one(text)
    return manifest["kind"], manifest["metadata"]["name"]
