"""Container: the fields of a Kubernetes container that Apps and instances may set."""

import math
import re
from collections import Counter
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.kinds.declaration import StrictModel, check_one_of, unique_by
from allotment.declared.references import SecretReferenceName
from allotment.declared.secret_stores import SecretKey
from allotment.declared.values import BasePath, Duration, Image, Size, name_field, pattern_field
from allotment.problems import escape_unprintable

_RESERVED_ENV = re.compile(r"(?:NVIDIA_|CUDA_MPS_).*", re.IGNORECASE)
_ENV_NAME = re.compile(r"[\x21-\x3c\x3e-\x7e]{1,253}")
# The atomic group looks for `eyJ`, the start of a JWT, only once in each run of characters, so that a long run can't
# make the search slow.
SECRET_VALUES = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bhf_[A-Za-z0-9]{20,}|\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{30,}"
    r"|\bglpat-[A-Za-z0-9_-]{18,}|\bAKIA[0-9A-Z]{16}\b|\bsk-[A-Za-z0-9_-]{20,}|\bxox[abprs]-[A-Za-z0-9-]{10,}"
    r"|\bAIza[A-Za-z0-9_-]{30,}|(?<![A-Za-z0-9_-])(?>[A-Za-z0-9_-]*?\beyJ)[A-Za-z0-9_-]{10,}+\.eyJ[A-Za-z0-9_-]{10}|://[^/\s:@]+:[^/\s:@]{3,}@"
)
_SECRET_NAMES = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY|CREDENTIALS?)$", re.IGNORECASE
)
_HARMLESS_VALUES = re.compile(r"|true|false|none|null|auto|disabled?|enabled?|[0-9]{1,5}|/[\w./-]*", re.IGNORECASE)


def _looks_random(value: str) -> bool:
    """Return whether `value` looks like a key: at least 8 characters, with over 2.5 bits of entropy per character."""
    if len(value) < 8 or " " in value:
        return False
    counts = Counter(value)
    entropy = -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
    return entropy > 2.5


def _check_env_name(value: str) -> str:
    if not _ENV_NAME.fullmatch(value):
        raise PydanticCustomError(
            "env",
            "'{name}' is not the name of a variable: write printable ASCII without '='",
            {"name": escape_unprintable(value)},
        )
    if _RESERVED_ENV.fullmatch(value):
        raise PydanticCustomError(
            "reserved", "{name} decides which GPUs a container sees: the platform sets it, remove it", {"name": value}
        )
    return value


class Variable(StrictModel):
    """An environment variable. A literal value that looks like a secret is an error."""

    name: Annotated[str, AfterValidator(_check_env_name)] = Field(
        description="The name of the variable: printable ASCII without '='. NVIDIA_* and CUDA_MPS_* are reserved."
    )
    value: Annotated[str, Field(max_length=32768)] | None = None

    @model_validator(mode="after")
    def _refuse_secret(self) -> Self:
        value = self.value or ""
        if SECRET_VALUES.search(value) or (
            _SECRET_NAMES.search(self.name) and not _HARMLESS_VALUES.fullmatch(value) and _looks_random(value)
        ):
            raise PydanticCustomError(
                "secret",
                "the value of {name} looks like a secret ({n} characters), and Git history keeps it: revoke the secret, put a"
                " new secret into the secret store, and declare {name} in the instance with valueFrom.secretKeyRef, which"
                " names a SecretReference",
                {"name": self.name, "n": len(value)},
            )
        return self


class EnvVar(Variable):
    """An environment variable. Its value reaches the container unchanged: Kubernetes does not expand `$(NAME)`."""

    value_from: ClassVar[None] = None  # an App belongs to no tenant, so it has no secrets
    value: Annotated[str, Field(max_length=32768)] = Field(
        description="The value of the variable. Never write a secret: Git history keeps it forever."
    )


class SecretKeyRef(StrictModel):
    """A key of a SecretReference of the same tenant and cluster."""

    name: SecretReferenceName = Field(description="The name of the SecretReference.")
    key: SecretKey = Field(description="The name of one of its keys.")


class EnvVarSource(StrictModel):
    """The source of a variable's value."""

    secret_key_ref: SecretKeyRef


class InstanceEnvVar(Variable):
    """An environment variable: exactly one of value and valueFrom.

    The value reaches the container unchanged: Kubernetes does not expand `$(NAME)`.
    """

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("value", "value_from")
    value: Annotated[str, Field(max_length=32768)] | None = Field(
        default=None,
        description="The value of the variable. Never write a secret: Git history keeps it forever. Write valueFrom"
        " instead.",
    )
    value_from: EnvVarSource | None = Field(default=None, description="A secret as the value.")
    _check_one_of = model_validator(mode="after")(check_one_of)


class Port(StrictModel):
    """A port of the container, and the people or pods that can connect to it (exposure)."""

    name: Annotated[str, name_field(15)] = Field(
        description="The name of the port. `http` is served at <instance>--<tenant>.<domain>, any other port at"
        " <instance>--<port>--<tenant>.<domain>."
    )
    container_port: Annotated[int, Field(ge=1, le=65535)] = Field(description="The port that the program listens on.")
    protocol: Literal["HTTP", "TCP"] = Field(
        default="HTTP",
        description="The protocol of the port. A TCP port is available only in the tenant's namespace. An HTTP port can"
        " be exposed.",
    )
    exposure: Literal["Namespace", "Members", "Public"] = Field(
        default="Namespace",
        description="Namespace: only the tenant's pods can connect. Members: Admins and Members of the tenant can"
        " connect from the internet after login. Public: anyone can connect.",
    )
    base_path: BasePath = Field(default="/", description="The path that links to the port open.")

    @model_validator(mode="after")
    def _check_exposure(self) -> Self:
        if self.name == "files":
            raise PydanticCustomError("reserved", "'files' is reserved for storages: choose another name")
        if self.protocol == "TCP" and self.exposure != "Namespace":
            raise PydanticCustomError(
                "exposure", "a TCP port can't be exposed to {exposure}: only Namespace", {"exposure": self.exposure}
            )
        return self


class HttpGet(StrictModel):
    """An HTTP GET request that succeeds when the container is ready."""

    path: Annotated[
        str, pattern_field(r"^/[\x21-\x7e]*$", "a path such as /health, without spaces", max_length=500)
    ] = Field(
        default="/", description="The path of the request. A response with a status from 200 to 399 is a success."
    )
    port: str = Field(description="The name of a port of the container.")


class TcpSocket(StrictModel):
    """A port that accepts connections when the container is ready."""

    port: str = Field(description="The name of a port of the container.")


class Probe(StrictModel):
    """Checks whether the container is running: exactly one of httpGet and tcpSocket."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("http_get", "tcp_socket")
    http_get: HttpGet | None = None
    tcp_socket: TcpSocket | None = None
    start_timeout: Duration = Field(
        default=600, description="The longest time that the container may take to start before it is restarted."
    )
    _check_one_of = model_validator(mode="after")(check_one_of)


class Container(StrictModel):
    """A container, with the fields of a Pod's container."""

    image: Image | None = Field(
        default=None, description="The container image, with its digest. A rebuilt image needs a new version."
    )
    command: list[str] = Field(
        default=[],
        max_length=100,
        description="Replaces the entry point of the image. `$(NAME)` is expanded as in a Pod.",
    )
    args: list[str] = Field(default=[], max_length=500, description="Replaces the arguments of the image.")
    env: Annotated[list[InstanceEnvVar], unique_by("name")] = Field(default=[], max_length=200)
    ports: Annotated[list[Port], unique_by("name"), unique_by("container_port")] = Field(default=[], max_length=20)
    probe: Probe | None = Field(
        default=None, description="Default: the container is running as soon as it has started."
    )
    shm_size: Size | None = Field(default=None, description="The size of /dev/shm, at most the memory of the unit.")

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
                "the probe's port '{port}' is not declared; ports: {known}",
                {"port": escape_unprintable(probed.port), "known": port_names},
            )
        return self


class ImageContainer(Container):
    """A container with a required image, and without secrets."""

    image: Image = Field(description="The container image, with its digest. A rebuilt image needs a new version.")
    # mypy rejects the narrower list because lists are mutable, but nothing changes a declaration.
    env: Annotated[list[EnvVar], unique_by("name")] = Field(  # type: ignore[assignment]
        default=[], max_length=200
    )
