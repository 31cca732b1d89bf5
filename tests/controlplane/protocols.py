"""The kubelet's protocols to drivers: their messages, from the files that define them, and how they are served."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.controlplane import sources
from tests.controlplane.programs import NotBuilt
from tests.controlplane.sources import Source

SOURCES: Mapping[str, Source] = {
    "github.com/container-storage-interface/spec": Source(
        "v1.13.0", "h1:6ja3nYoACisewTPAAZkJ1pbf4+1ehhvt9Z/nYgWGHGw=", {"csi.proto": "csi.proto"}
    ),
    "k8s.io/kubelet": Source(
        "v0.36.3",
        "h1:dRzEnhHk35Opy6wjWR4YBcN5RI9lB2npUY37TghFuPU=",
        {
            "pkg/apis/deviceplugin/v1beta1/api.proto": "device_plugin.proto",
            "pkg/apis/pluginregistration/v1/api.proto": "registration.proto",
        },
    ),
}
_UPPER = re.compile(r"(?<=[a-z])(?=[A-Z])")


def home() -> Path:
    """Return the folder of the cache for exactly the sources that are named here."""
    return sources.home("protocols", SOURCES)


def build() -> None:
    """Fetch the definitions into the cache. Raises NotBuilt when one can't be had or isn't what was pinned."""
    sources.build("protocols", SOURCES)


def messages(name: str) -> Any:
    """Return a protocol's messages: of csi, device_plugin or registration. Raises NotBuilt."""
    import grpc

    if not home().is_dir():
        raise NotBuilt("protocols")
    if str(home()) not in sys.path:  # where grpc looks for them
        sys.path.append(str(home()))
    return grpc.protos(f"{name}.proto")


def call(protocol: Any, service: str, method: str, socket: Path, request: Any) -> Any:
    """Return what a service at a socket answers; raises grpc.RpcError."""
    import grpc

    described = protocol.DESCRIPTOR.services_by_name[service].methods_by_name[method]
    with grpc.insecure_channel(f"unix://{socket}") as channel:
        ask = channel.unary_unary(
            f"/{described.containing_service.full_name}/{method}",
            request_serializer=_written,
            response_deserializer=_reader(described.output_type),
        )
        return ask(request, timeout=5)


def serve(socket: Path, *served: tuple[Any, str, object]) -> Any:
    """Return what serves, at a socket, services of protocols: each by an object whose methods are those of the service, in
    lower case. What the object lacks is answered as unimplemented."""
    import grpc

    socket.parent.mkdir(parents=True, exist_ok=True)
    socket.unlink(missing_ok=True)
    server = grpc.server(ThreadPoolExecutor(max_workers=8))
    server.add_generic_rpc_handlers([_service(*service) for service in served])
    server.add_insecure_port(f"unix://{socket}")
    server.start()
    return server


def _service(protocol: Any, name: str, by: object) -> Any:
    import grpc

    described = protocol.DESCRIPTOR.services_by_name[name]
    answers = {}
    for method in described.methods:
        act = getattr(by, _UPPER.sub("_", method.name).lower(), None)
        if act is not None:
            kind = (
                grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
            )
            answers[method.name] = kind(act, _reader(method.input_type), _written)
    return grpc.method_handlers_generic_handler(described.full_name, answers)


def _reader(message: Any) -> Any:
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(message).FromString


def _written(message: Any) -> Any:
    return message.SerializeToString()
