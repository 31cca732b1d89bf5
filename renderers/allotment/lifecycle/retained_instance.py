"""Rewrites the file of a retained instance, which runs as published until units of its new GPUSpec are free.

The published Deployment stays, so that no pod restarts. Only its annotations change. All other objects are rendered
from the new declaration, so that a removed member loses access at once, and a removed port closes at once.
An instance may not keep its Deployment if the Deployment uses a revoked image, or a storage, bucket or secret that the
new declaration no longer names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from allotment import conditions
from allotment.manifests import names
from allotment.manifests.yaml_text import Object, dump, load_one, split

_WAIT_ANNOTATIONS = frozenset((names.WAITS_FOR, names.WAITS_REASON))


def may_keep_deployment(published: bytes, rendered: bytes, revoked: Collection[str]) -> bool:
    """Return whether an instance may keep its published Deployment.

    The Deployment may not use a `revoked` image, or a storage, bucket or secret that the rendered Deployment lacks.
    """
    old, new = load_one(split(published)[0]), load_one(split(rendered)[0])
    images = {container["image"] for container in _pod_spec(old)["containers"]}
    return images.isdisjoint(revoked) and _read_data_sources(old) <= _read_data_sources(new)


def _pod_spec(deployment: Object) -> Object:
    pod: Object = deployment["spec"]["template"]["spec"]
    return pod


def _read_data_sources(deployment: Object) -> frozenset[str]:
    """Return the names of the storages, buckets and Secrets that a Deployment's pods use."""
    pod = _pod_spec(deployment)
    volumes = (volume.get("persistentVolumeClaim", {}).get("claimName") for volume in pod.get("volumes", ()))
    variables = (entry.get("valueFrom", {}) for container in pod["containers"] for entry in container.get("env", ()))
    sources = (source["name"] for variable in variables for source in variable.values())
    return frozenset(name for name in (*volumes, *sources) if name)


def with_published_deployment(published: bytes, rendered: bytes, message: str) -> bytes:
    """Return the rendered file of an instance, but with its published Deployment.

    An annotation of the Deployment has `message`, which names the units for which the instance waits. The Secrets that
    restart the instance are those of the new declaration.
    """
    first, *other_texts = split(rendered)
    reload_secrets = load_one(first)["metadata"]["annotations"].get(names.RELOAD_SECRETS)
    annotations = {names.WAITS_FOR: message, names.WAITS_REASON: conditions.RESIZE_PENDING}
    if reload_secrets is not None:
        annotations[names.RELOAD_SECRETS] = reload_secrets
    replaced = _WAIT_ANNOTATIONS | {names.RELOAD_SECRETS}
    return _with_annotations(split(published)[0], other_texts, annotations, replaced)


def without_wait_annotations(data: bytes) -> bytes:
    """Return an instance's file without the annotations about a wait for units of another GPUSpec."""
    first, *other_texts = split(data)
    return _with_annotations(first, other_texts, {}, _WAIT_ANNOTATIONS) if read_wait_message(data) else data


def _with_annotations(
    first: str, other_texts: Iterable[str], new: Mapping[str, str], replaced: Collection[str]
) -> bytes:
    """Return the file with the Deployment `first`, in which the annotations `new` replace those with the keys `replaced`."""
    deployment = load_one(first)
    metadata = deployment["metadata"]
    annotations = {key: value for key, value in metadata["annotations"].items() if key not in replaced}
    text = dump([{**deployment, "metadata": {**metadata, "annotations": {**annotations, **new}}}])
    return ("\n---\n".join([text.decode().removesuffix("\n"), *other_texts]) + "\n").encode()


def read_wait_message(data: bytes) -> str:
    """Return the message about the units that a retained instance waits for; empty for other instances."""
    if conditions.RESIZE_PENDING.encode() not in data:
        return ""
    annotations = load_one(split(data)[0]).get("metadata", {}).get("annotations", {})
    message: str = annotations.get(names.WAITS_FOR, "")
    return message if annotations.get(names.WAITS_REASON) == conditions.RESIZE_PENDING else ""
