"""A storage driver's controller for volumes that are folders: made for claims, cloned, snapshot, and removed with their files.

Runs as a program of its own beside a cluster with a real node, in place of KWOK's Stages, which have no files.
"""

from __future__ import annotations

import datetime
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tests.controlplane.client import Client, Object
from tests.controlplane.simulated import PROVISIONER

ASKED = "volume.kubernetes.io/storage-provisioner"  # a claim's annotation, by which its class's provisioner is asked
MADE = "pv.kubernetes.io/provisioned-by"
LOOK = 0.3  # seconds between looks
SNAPSHOTS = "snapshot.storage.k8s.io/v1"


class Provisioner:
    """Looks at claims, volumes and snapshots, and does what is left to do; `folder` holds a folder for each."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._folder = folder

    def look(self) -> None:
        """Do what is left to do now. What fails for one is said, and doesn't keep others waiting."""
        claims = self._client.list("v1", "PersistentVolumeClaim")
        snapshots = self._client.list(SNAPSHOTS, "VolumeSnapshot")
        for live_object in snapshots:
            if (
                not live_object.get("status", {}).get("readyToUse")
                and "deletionTimestamp" not in live_object["metadata"]
            ):
                self._take(live_object, claims)
        for live_object in claims:
            annotations = live_object["metadata"].get("annotations", {})
            wanted = annotations.get(ASKED, "").endswith(PROVISIONER) and "volumeName" not in live_object["spec"]
            if wanted and "deletionTimestamp" not in live_object["metadata"]:
                self._make(live_object, annotations[ASKED], claims, snapshots)
        for live_object in self._client.list("v1", "PersistentVolume"):
            if (
                live_object["status"].get("phase") == "Released"
                and live_object["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
            ):
                shutil.rmtree(self._folder / live_object["spec"]["csi"]["volumeHandle"], ignore_errors=True)
                self._client.delete("v1", "PersistentVolume", live_object["metadata"]["name"])

    def _take(self, snapshot: Object, claims: list[Object]) -> None:
        """Take a snapshot, once its source is a volume."""
        metadata = snapshot["metadata"]
        source = _named(claims, metadata["namespace"], snapshot["spec"]["source"]["persistentVolumeClaimName"])
        if source is None or "volumeName" not in source["spec"]:
            return
        self._copy(source, snapshot)
        status = {
            "boundVolumeSnapshotContentName": f"snapcontent-{metadata['uid']}",
            "creationTime": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "readyToUse": True,
            "restoreSize": source["spec"]["resources"]["requests"]["storage"],
        }
        self._client.patch_status(SNAPSHOTS, "VolumeSnapshot", metadata["name"], status, metadata["namespace"])

    def _make(self, claim: Object, provisioner: str, claims: list[Object], snapshots: list[Object]) -> None:
        """Make a claim's volume, once what it is made from is there."""
        metadata, spec = claim["metadata"], claim["spec"]
        handle = str(metadata["uid"])
        if source := spec.get("dataSourceRef") or spec.get("dataSource"):
            of = snapshots if source["kind"] == "VolumeSnapshot" else claims
            source_object = _named(of, source.get("namespace") or metadata["namespace"], source["name"])
            if source_object is None or not (
                source_object["spec"].get("volumeName") or source_object.get("status", {}).get("readyToUse")
            ):
                return
            self._copy(source_object, claim)
        else:
            (self._folder / handle).mkdir(parents=True, exist_ok=True)
        self._client.apply(_volume(claim, provisioner))

    def _copy(self, original: Object, other: Object) -> None:
        """Let an object's folder be what another's is now. It is there as a whole or not at all."""
        source, target = (self._folder / live_object["metadata"]["uid"] for live_object in (original, other))
        partial = target.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        if not target.exists():
            subprocess.run(["cp", "-a", "--sparse=always", source, partial], check=True)
            partial.rename(target)


def _named(objects: list[Object], namespace: str, name: str) -> Object | None:
    return next(
        (
            live_object
            for live_object in objects
            if (live_object["metadata"]["namespace"], live_object["metadata"]["name"]) == (namespace, name)
        ),
        None,
    )


def _volume(claim: Object, provisioner: str) -> dict[str, Any]:
    metadata, spec = claim["metadata"], claim["spec"]
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": metadata["name"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pvc-{metadata['uid']}", "annotations": {MADE: provisioner}},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "persistentVolumeReclaimPolicy": "Delete" if provisioner.startswith("delete.") else "Retain",
            "storageClassName": spec["storageClassName"],
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            "claimRef": {**reference, "namespace": metadata["namespace"], "uid": metadata["uid"]},
            "csi": {"driver": provisioner, "volumeHandle": metadata["uid"]},
        },
    }


def looks(provisioner: Provisioner) -> Iterator[None]:
    """Look again and again, and say what failed: the next look may go better."""
    while True:
        try:
            provisioner.look()
        except Exception as error:  # an object that went meanwhile, an API server that is busy
            print(f"{type(error).__name__}: {error}", flush=True)
        yield


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path), required=True)
@click.option("--volumes", type=click.Path(path_type=Path), required=True, help="The folder whose folders are volumes.")
def main(kubeconfig: Path, volumes: Path) -> None:
    """Serve a cluster's claims and snapshots by folders."""
    for _ in looks(Provisioner(Client(kubeconfig), volumes)):
        time.sleep(LOOK)


if __name__ == "__main__":
    main()
