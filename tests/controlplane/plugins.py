"""What drivers do on a node, as a program beside the kubelet: GPUs that are only counted, and volumes that are folders."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import grpc

from tests.controlplane.protocols import call, messages, serve

KUBELET = Path("/var/lib/kubelet")
DEVICE_PLUGINS = KUBELET / "device-plugins"
LOOK = 1.0  # seconds between looks at the kubelet's folder, and at which units are unwell


class Volumes:
    """CSI's node part of a driver: a volume is a folder of its handle's name, bound to where the kubelet wants it."""

    def __init__(self, driver: str, node: str, folder: Path) -> None:
        self._csi = messages("csi")
        self._registration = messages("registration")
        self._driver = driver
        self._node = node
        self._folder = folder
        self._socket = KUBELET / "plugins" / driver / "csi.sock"

    def serve(self) -> None:
        """Serve it from now on; the kubelet finds it by what is in its folder of plugins."""
        self._servers = [
            serve(self._socket, (self._csi, "Identity", self), (self._csi, "Node", self)),
            serve(KUBELET / "plugins_registry" / f"{self._driver}.sock", (self._registration, "Registration", self)),
        ]

    def get_info(self, _: Any, __: object) -> Any:
        """Return what the kubelet registers."""
        return self._registration.PluginInfo(
            type="CSIPlugin", name=self._driver, endpoint=str(self._socket), supported_versions=["1.0.0"]
        )

    def notify_registration_status(self, registration: Any, _: object) -> Any:
        """Take in whether the kubelet registered it."""
        print(f"{self._driver} registered: {registration.plugin_registered} {registration.error}", flush=True)
        return self._registration.RegistrationStatusResponse()

    def get_plugin_info(self, _: Any, __: object) -> Any:
        """Return the driver's name."""
        return self._csi.GetPluginInfoResponse(name=self._driver, vendor_version="1")

    def node_get_info(self, _: Any, __: object) -> Any:
        """Return the node's name."""
        return self._csi.NodeGetInfoResponse(node_id=self._node)

    def node_get_capabilities(self, _: Any, __: object) -> Any:
        """Return that it can do nothing more than it must."""
        return self._csi.NodeGetCapabilitiesResponse()

    def node_publish_volume(self, request: Any, _: object) -> Any:
        """Bind a volume to where a pod gets it; once more is fine."""
        volume, target = self._folder / Path(request.volume_id).name, Path(request.target_path)
        for folder in (volume, target):
            folder.mkdir(parents=True, exist_ok=True)
        if not target.samefile(volume):
            subprocess.run(["mount", "--bind", volume, target], check=True)
            if request.readonly:
                subprocess.run(["mount", "-o", "remount,bind,ro", target], check=True)
        return self._csi.NodePublishVolumeResponse()

    def node_unpublish_volume(self, request: Any, _: object) -> Any:
        """Take a volume from a pod; what the kubelet has gone already is fine."""
        target = Path(request.target_path)
        if target.is_dir():  # whether it is mounted Python can't tell of a bind within one file system
            subprocess.run(["umount", target], check=False)
            target.rmdir()
        return self._csi.NodeUnpublishVolumeResponse()


class Units:
    """A device plugin of one resource: its units are numbers, of which those that a file names are unwell. While a file `refused`
    beside it names the resource, none is handed out."""

    def __init__(self, resource: str, count: int, unwell: Path) -> None:
        self._messages = messages("device_plugin")
        self._resource = resource
        self._count = count
        self._unwell = unwell
        self._refused = unwell.with_name("refused")
        self._socket = DEVICE_PLUGINS / f"{resource.replace('/', '_')}.sock"

    def serve(self) -> None:
        """Serve it, and register again whenever the kubelet began anew: then it has removed the sockets of its plugins."""
        while True:
            server = serve(self._socket, (self._messages, "DevicePlugin", self))
            while self._socket.exists() and not self._register():
                time.sleep(LOOK)
            while self._socket.exists():
                time.sleep(LOOK)
            server.stop(0)

    def get_device_plugin_options(self, _: Any, __: object) -> Any:
        """Return that it wants nothing besides."""
        return self._messages.DevicePluginOptions()

    def list_and_watch(self, _: Any, context: Any) -> Iterator[Any]:
        """Yield the units, now and whenever one becomes unwell or well."""
        last_unwell: set[str] | None = None
        while context.is_active():
            unwell = _named(self._unwell)
            if unwell != last_unwell:
                last_unwell = unwell
                yield self._messages.ListAndWatchResponse(
                    devices=[self._unit(number, unwell) for number in range(self._count)]
                )
            time.sleep(LOOK)

    def allocate(self, request: Any, context: Any) -> Any:
        """Return what each container sees of its units: their numbers."""
        if self._resource in _named(self._refused):
            context.abort(grpc.StatusCode.INTERNAL, "no unit is handed out now")
        container_responses = [
            self._messages.ContainerAllocateResponse(
                envs={"NVIDIA_VISIBLE_DEVICES": ",".join(container_request.devices_ids)}
            )
            for container_request in request.container_requests
        ]
        return self._messages.AllocateResponse(container_responses=container_responses)

    def _register(self) -> bool:
        request = self._messages.RegisterRequest(
            version="v1beta1", endpoint=self._socket.name, resource_name=self._resource
        )
        try:
            call(self._messages, "Registration", "Register", DEVICE_PLUGINS / "kubelet.sock", request)
        except grpc.RpcError:  # it doesn't listen yet
            return False
        return True

    def _unit(self, number: int, unwell: set[str]) -> Any:
        health = "Unhealthy" if f"{self._resource}-{number}" in unwell else "Healthy"
        return self._messages.Device(ID=str(number), health=health)


def _named(file: Path) -> set[str]:
    """Return what a file names, one a line; one that isn't there names nothing."""
    return set(file.read_text(encoding="ascii").split()) if file.exists() else set()


@click.command()
@click.option("--node", required=True)
@click.option("--volumes", type=click.Path(path_type=Path), required=True, help="The folder whose folders are volumes.")
@click.option("--driver", "drivers", multiple=True)
@click.option("--unit", "units", multiple=True, type=(str, int), help="A resource, and how many units of it there are.")
@click.option("--unwell", type=click.Path(path_type=Path), required=True, help="A file: nvidia.com/gpu-0 a line.")
def main(node: str, volumes: Path, drivers: tuple[str, ...], units: tuple[tuple[str, int], ...], unwell: Path) -> None:
    """Serve CSI drivers and device plugins to the kubelet of this node."""
    served = [Volumes(driver, node, volumes) for driver in drivers]
    for csi_driver in served:
        csi_driver.serve()
    threads = [threading.Thread(target=Units(resource, count, unwell).serve) for resource, count in units]
    for thread in threads:
        thread.start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
