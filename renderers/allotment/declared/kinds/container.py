"""A container as Apps and instances declare it: the fields of a Pod's container that a tenant may set."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.kinds.declaration import StrictModel, check_one_of, unique_by
from allotment.declared.values import BasePath, Duration, Image, Size, name_field
from allotment.problems import escape_unprintable

_RESERVED_ENV = re.compile(r"(?:NVIDIA_|CUDA_MPS_).*", re.IGNORECASE)
_ENV_NAME = re.compile(r"[\x21-\x3c\x3e-\x7e]{1,253}")
SECRET_VALUES = re.compile(  # a run of characters that holds `eyJ` is looked through once, from its first one on
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bhf_[A-Za-z0-9]{20,}|\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{30,}"
    r"|\bglpat-[A-Za-z0-9_-]{18,}|\bAKIA[0-9A-Z]{16}\b|\bsk-[A-Za-z0-9_-]{20,}|\bxox[abprs]-[A-Za-z0-9-]{10,}"
    r"|\bAIza[A-Za-z0-9_-]{30,}|(?<![A-Za-z0-9_-])(?>[A-Za-z0-9_-]*?\beyJ)[A-Za-z0-9_-]{10,}+\.eyJ[A-Za-z0-9_-]{10}|://[^/\s:@]+:[^/\s:@]{3,}@"
)
_SECRET_NAMES = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY|CREDENTIALS?)$", re.IGNORECASE
)
_HARMLESS_VALUES = re.compile(r"|true|false|none|null|auto|disabled?|enabled?|[0-9]{1,5}|/[\w./-]*", re.IGNORECASE)


def _looks_random(value: str) -> bool:
    """Return whether `value` is long and varied enough to be a key: 3 bits a character, by Shannon's formula."""
    if len(value) < 8 or " " in value:
        return False
    counts = Counter(value)
    entropy = -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
    return entropy > 2.5


def _check_env_name(value: str) -> str:
    if not _ENV_NAME.fullmatch(value):
        raise PydanticCustomError(
            "env",
            "'{name}' is no name of a variable: write printable ASCII without '='",
            {"name": escape_unprintable(value)},
        )
    if _RESERVED_ENV.fullmatch(value):
        raise PydanticCustomError(
            "reserved", "{name} decides which GPUs a container sees: the platform sets it, remove it", {"name": value}
        )
    return value


class EnvVar(StrictModel):
    """An environment variable. Its value reaches the container unchanged: `$(NAME)` is not expanded."""

    name: Annotated[str, AfterValidator(_check_env_name)] = Field(
        description="Printable ASCII without '='; not NVIDIA_* or CUDA_MPS_*."
    )
    value: Annotated[str, Field(max_length=32768)] = Field(
        description="Any text; never a secret, Git can't forget one."
    )

    @model_validator(mode="after")
    def _refuse_secret(self) -> Self:
        value = self.value
        if SECRET_VALUES.search(value) or (
            _SECRET_NAMES.search(self.name) and not _HARMLESS_VALUES.fullmatch(value) and _looks_random(value)
        ):
            raise PydanticCustomError(
                "secret",
                "the value of {name} looks like a secret ({n} characters), and Git can't forget one: revoke it, put the new one in a file"
                " on a storage, and give the container that file's path ({name}_FILE)",
                {"name": self.name, "n": len(value)},
            )
        return self


class Port(StrictModel):
    """A port the container listens on, and who can reach it."""

    name: Annotated[str, name_field(15)] = Field(
        description="`http` is served at <instance>--<tenant>.<domain>, others at <instance>--<port>--<tenant>."
    )
    container_port: Annotated[int, Field(ge=1, le=65535)] = Field(description="What the program listens on.")
    protocol: Literal["HTTP", "TCP"] = Field(
        default="HTTP", description="TCP is for the tenant's namespace alone; HTTP can be exposed."
    )
    exposure: Literal["Namespace", "Members", "Public"] = Field(
        default="Namespace",
        description="Namespace: the tenant's own pods. Members: the internet, after login. Public: anyone.",
    )
    base_path: BasePath = Field(default="/", description="The path that a person's link opens.")

    @model_validator(mode="after")
    def _check_exposure(self) -> Self:
        if self.name == "files":
            raise PydanticCustomError("reserved", "'files' is the storages' own port: choose another name")
        if self.protocol == "TCP" and self.exposure != "Namespace":
            raise PydanticCustomError(
                "exposure", "a TCP port can't be exposed to {exposure}: only Namespace", {"exposure": self.exposure}
            )
        return self


class HttpGet(StrictModel):
    """An HTTP GET that answers below 400 when the container is ready."""

    path: Annotated[str, Field(pattern=r"^/[\x21-\x7e]*$", max_length=500)] = Field(
        default="/", description="What is asked for; any answer from 200 to 399 counts."
    )
    port: str = Field(description="A port's name.")


class TcpSocket(StrictModel):
    """A port that takes connections when the container is ready."""

    port: str = Field(description="A port's name.")


class Probe(StrictModel):
    """When the container counts as running: exactly one of httpGet and tcpSocket."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("http_get", "tcp_socket")
    http_get: HttpGet | None = None
    tcp_socket: TcpSocket | None = None
    start_timeout: Duration = Field(default=600, description="How long the start may take before it is tried again.")
    _check_one_of = model_validator(mode="after")(check_one_of)


class Container(StrictModel):
    """A container: fields as in a Pod."""

    image: Image | None = Field(default=None, description="With its digest; a rebuild is a new version.")
    command: list[str] = Field(
        default=[], max_length=100, description="Replaces the image's entry point. `$(NAME)` expands as in a Pod."
    )
    args: list[str] = Field(default=[], max_length=500, description="Replaces the image's arguments.")
    env: Annotated[list[EnvVar], unique_by("name")] = Field(default=[], max_length=200)
    ports: Annotated[list[Port], unique_by("name"), unique_by("container_port")] = Field(default=[], max_length=20)
    probe: Probe | None = Field(
        default=None, description="Absent: the container counts as running once it has started."
    )
    shm_size: Size | None = Field(default=None, description="Size of /dev/shm, at most the unit's memory.")

    @model_validator(mode="after")
    def _check_probe_port(self) -> Self:
        if self.probe is None:
            return self
        probed: Any = self.probe.http_get or self.probe.tcp_socket
        names = [port.name for port in self.ports]
        if probed.port not in names:
            port_names = ", ".join(names) or "none"
            raise PydanticCustomError(
                "reference",
                "the probe's port '{port}' is none of the ports: {known}",
                {"port": escape_unprintable(probed.port), "known": port_names},
            )
        return self


class ImageContainer(Container):
    """A container that names its image."""

    image: Image = Field(description="With its digest; a rebuild is a new version.")
