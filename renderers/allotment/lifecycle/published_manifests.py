"""Reads published manifests (unit claims, volumes, Jobs, protection), and rewrites them for the next publish.

The input must be text that `dump` wrote in an earlier publish. Other text may raise errors, such as Malformed or
KeyError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
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
# The indented line in which a Job names a ConfigMap with programs.
_PROGRAMS_LINE = re.compile(
    rb"^          name: (" + re.escape(paths.PROGRAMS_PREFIX).encode() + rb"[a-z0-9-]+)$", re.MULTILINE
)
_NAMESPACE_LINE = re.compile(r"^metadata:\n(?:  .*\n)*?  namespace: (.+)$", re.MULTILINE)
_NAME_LINE = re.compile(r"^metadata:\n(?:  .*\n)*?  name: (.+)$", re.MULTILINE)


class PublishedVolume(NamedTuple):
    """A resource that holds data: a volume, a bucket, or a snapshot.

    `size` is in bytes; 0 for a snapshot. `source_volume` is the volume that a snapshot copies; otherwise empty.
    """

    kind: str
    size: int
    storage_class: str
    access_modes: tuple[str, ...]
    source_volume: str
    deletion_policy: str
    protected: bool


def read_identities(data: bytes) -> frozenset[tuple[str, str]]:
    """Return the kind and name of each object of a file. Raises Malformed if an object has no kind or no name.

    Searches the text for the lines of the kind and the name instead of parsing the text, because there are many files,
    and a search is about ten times as fast as `load`.
    """
    return _read_identities(data, _read_name)


def read_scoped_identities(data: bytes) -> frozenset[tuple[str, str]]:
    """Return the kind and the name from `names.scoped_name` of each object of a file. Raises Malformed like `read_identities`."""
    return _read_identities(data, _read_scoped_name)


def _read_identities(data: bytes, read_name: Callable[[str], str]) -> frozenset[tuple[str, str]]:
    try:
        return frozenset((_read_value(_KIND_LINE, text), read_name(text)) for text in split(data))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise Malformed(str(error)) from None


def _read_name(text: str) -> str:
    return _read_value(_NAME_LINE, text)


def _read_scoped_name(text: str) -> str:
    namespace = _read_value(_NAMESPACE_LINE, text) if _NAMESPACE_LINE.search(text) else ""
    return names.scoped_name(namespace, _read_name(text))


def stopped_deployments(data: bytes) -> frozenset[str]:
    """Return the names of a file's Deployments that have `replicas: 0`. Raises Malformed if one of them has no name."""
    texts = [text for text in split(data) if "\n  replicas: 0" in text and _NO_REPLICAS_LINE.search(text)]
    return frozenset(_read_value(_NAME_LINE, text) for text in texts if _read_value(_KIND_LINE, text) == "Deployment")


def _read_value(line: re.Pattern[str], text: str) -> str:
    """Return the value in the first line that matches. Raises Malformed if no line matches."""
    match = line.search(text)
    if match is None:
        raise Malformed("an object without kind or name")
    value: str = json.loads(match[1]) if match[1].startswith('"') else match[1]
    return value


def has_disruption_budget(data: bytes) -> bool:
    """Return whether a tenant's namespace file has the PodDisruptionBudget that covers all of its instances."""
    return ("PodDisruptionBudget", disruption.ALL_INSTANCES_BUDGET) in read_identities(data)


def with_disruption_budget(data: bytes, tenant: str) -> bytes:
    """Return a tenant's namespace file. If the file lacks the PodDisruptionBudget for all instances, add it."""
    return (
        data
        if has_disruption_budget(data)
        else data + b"---\n" + dump([disruption.render_all_instances_budget(tenant)])
    )


def node_template(data: bytes) -> dict[tuple[str, str], Any]:
    """Return the specs that determine a pool's nodes: the template of the NodePool, and the spec of the node class.

    The keys are the kind and name of each object. Karpenter replaces nodes only if one of these specs changes. A change
    of limits, disruption budgets or NodeOverlays replaces no node.
    """
    specs: dict[tuple[str, str], Any] = {}
    for manifest in load(data):
        if manifest["kind"] != "NodeOverlay":
            spec = manifest["spec"]["template"] if manifest["kind"] == "NodePool" else manifest["spec"]
            specs[manifest["kind"], manifest["metadata"]["name"]] = spec
    return specs


def with_nodes_of(data: bytes, previous: bytes) -> bytes:
    """Return the new file `data` of a pool, but with the node template and node class of the published `previous`."""
    old = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in load(previous)}
    objects = []
    for manifest in load(data):
        before = old.pop((manifest["kind"], manifest["metadata"]["name"]), None)
        if before is None or manifest["kind"] == "NodeOverlay":
            objects.append(manifest)
        elif manifest["kind"] == "NodePool":
            objects.append({**manifest, "spec": {**manifest["spec"], "template": before["spec"]["template"]}})
        else:
            objects.append({**manifest, "spec": before["spec"]})
    return dump([*objects, *(manifest for (kind, _), manifest in old.items() if kind != "NodeOverlay")])


def read_unit_claim(cluster: str, tenant: str, data: bytes) -> UnitClaim | None:
    """Return the unit claim in an instance's file; None if the instance holds no units, or the file has no instance."""
    deployment = load_one(split(data)[0])
    metadata = deployment.get("metadata", {})
    units, spec = metadata.get("annotations", {}).get(names.UNITS), metadata.get("labels", {}).get(names.GPU_SPEC)
    if units is None or spec is None:
        return None
    return UnitClaim(cluster, spec, tenant, metadata["name"], int(units), deployment["spec"]["replicas"])


def read_volume(data: bytes) -> PublishedVolume | None:
    """Return the volume in the file of a storage or snapshot; None if the resource waits and has no volume yet."""
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
    """If a storage waits for its source, return the preparation Job that will fill its volume.

    Return an empty text for a snapshot that waits, and None for a storage or snapshot that doesn't wait.
    """
    for text in split(data):
        if names.WAITS_REASON in text and "\nkind: ConfigMap\n" in f"\n{text}\n":
            job: str = load_one(text)["metadata"]["annotations"].get(names.PREPARES, "")
            return job
    return None


def with_data_source_of(data: bytes, previous: bytes) -> bytes:
    """Return the file `data`, but with the immutable data source of the published file `previous`.

    A snapshot keeps its whole published spec. If the two files have objects of different kinds, `data` is unchanged.
    """
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
    """Return the file `data` with `manifest` in place of its first object."""
    return ("\n---\n".join([_dump_object(manifest), *split(data)[1:]]) + "\n").encode()


def read_declared_blob(data: bytes) -> str:
    """Return the Git blob of the declaration from which a file was rendered; empty if it isn't recorded."""
    blob: str = load_one(split(data)[0]).get("metadata", {}).get("annotations", {}).get(names.BLOB, "")
    return blob


def read_predecessor(data: bytes) -> str:
    """Return the uid of the Job that prepared the predecessor, a deleted storage of the same name; empty if none."""
    noted: str = load_one(split(data)[0]).get("metadata", {}).get("annotations", {}).get(names.PREDECESSOR, "")
    return noted


def with_predecessor(data: bytes, uid: str) -> bytes:
    """Return a storage's file with the uid of the Job that prepared its predecessor.

    The predecessor is a deleted storage of the same name. The uid prevents a publish from treating the
    predecessor's Job as the preparation of the new storage.
    """
    manifest = load_one(split(data)[0])
    manifest["metadata"]["annotations"][names.PREDECESSOR] = uid
    return _with_first(data, manifest)


def read_prepared_by(data: bytes) -> str:
    """Return the Job that prepared a storage's volume, as recorded in its published file; empty if there is none.

    Searches the text instead of parsing it, because a publish reads the file of every storage.
    """
    match = _PREPARED_LINE.search(data.partition(b"\n---\n")[0])
    return match[1].decode("ascii") if match else ""


def find_prunable_job(data: bytes) -> str:
    """Return a Job in a storage's file if Argo CD may prune all Jobs of the file; otherwise empty.

    Files that older versions of Allotment rendered have such Jobs.
    """
    if b"\nkind: Job\n" not in data or has_kept_jobs(data):
        return ""
    return next(iter(read_job_names(data)), "")


def read_job_names(data: bytes) -> frozenset[str]:
    """Return the names of the Jobs in a storage's file."""
    return frozenset(
        name for text in split(data) if (kind := _read_job_identity(text)) and kind[0] == "Job" for name in kind[1:]
    )


def read_program_names(data: bytes) -> frozenset[str]:
    """Return the names of the program ConfigMaps that the Jobs in a storage's file use.

    A Job that an older version rendered has a ConfigMap of its own in the same file, and uses no program ConfigMap.
    Searches the text instead of parsing it, because a publish may read the files of all storages of a tenant.
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


def with_lifecycle(data: bytes, lifecycle: str) -> bytes:
    """Return the file of a tenant's project and Applications, with another lifecycle of the tenant."""
    objects = [load_one(text) for text in split(data)]
    for manifest in objects:
        manifest["metadata"].setdefault("labels", {})[names.LIFECYCLE] = lifecycle
    return dump(objects)


def with_deletion_policy_of(data: bytes, rendered: bytes) -> bytes:
    """Return the file of a storage or snapshot, with the deletion policy of its rendered file, which may be a wait marker."""
    policies = {
        load_one(text)["metadata"].get("annotations", {}).get(names.DELETION_POLICY) for text in split(rendered)
    } - {None}
    first, *rest = split(data)
    manifest = load_one(first)
    annotations = manifest["metadata"]["annotations"]
    if not policies or {annotations[names.DELETION_POLICY]} == policies:
        return data
    (annotations[names.DELETION_POLICY],) = policies
    return ("\n---\n".join([_dump_object(manifest), *rest]) + "\n").encode()


def deleting_volume(data: bytes, *, protected: bool) -> bytes:
    """Return the deletion file of a storage or snapshot: its volume, and its Jobs, which Argo CD may now prune.

    Unless `protected`, Argo CD may also prune the volume, and the cluster may delete it.
    """
    claim = load_one(split(data)[0])
    jobs = [load_one(text) for text in split(data)[1:] if _read_job_identity(text) is not None]
    return dump([claim if protected else _without_protection(claim), *(_without_keep_options(job) for job in jobs)])


def reprotected(data: bytes) -> bytes:
    """Return the file of a storage or snapshot that is declared again during its deletion.

    The volume is protected and no longer marked for deletion, and Argo CD must not prune the Jobs.
    """
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

    Argo CD reads the option `Prune=false` from the objects in the cluster. One publish must therefore remove the option
    before a later publish removes the objects.
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
    """Return a tenant's namespace file, but with the protection of all objects removed."""
    return dump([_without_protection(manifest) for manifest in load(data)])


def _without_protection(manifest: Object) -> Object:
    metadata = manifest["metadata"]
    annotations = {key: value for key, value in metadata.get("annotations", {}).items() if key != names.SYNC_OPTIONS}
    return {**manifest, "metadata": {**metadata, "annotations": {**annotations, **UNPROTECTED_ANNOTATIONS}}}


def with_jobs_of(data: bytes, previous: bytes, *, is_pending: bool = False) -> bytes:
    """Return the new file `data`, in which the published Jobs of `previous` replace the new Jobs of the same names.

    Published Jobs stay byte for byte, because the template of a Job can't change, and because a finished Job must not
    run again only because a new version renders it differently. The only exception is a Job without the annotation that
    stops Argo CD from pruning it: this Job gets the annotation.

    If `is_pending`, the new preparation still waits, so the result has all published Jobs, unchanged, and no new Jobs.

    A Job that an older version rendered has a ConfigMap with its programs. The ConfigMap stays as long as the Job.
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
    """Return the kind and name of a Job, or of a ConfigMap with the programs of a Job; None for other objects.

    In older versions of Allotment, each Job had a ConfigMap of the same name with its programs.
    """
    lines = f"\n{text}\n"
    if "\nkind: Job\n" not in lines and "\nimmutable: true\n" not in lines:
        return None
    manifest = load_one(text)
    return manifest["kind"], manifest["metadata"]["name"]
