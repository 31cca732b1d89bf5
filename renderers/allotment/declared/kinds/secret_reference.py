"""SecretReference: secrets of a tenant in the secret store of a cluster."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.kinds.declaration import Declaration, Spec, StrictModel, unique_by
from allotment.declared.references import ClusterReference
from allotment.declared.secret_stores import DOCKER_CONFIG_KEY, SecretKey, SecretProperty, StorePath
from allotment.declared.values import Duration, format_duration

MIN_REFRESH, MAX_REFRESH = 60, 86400  # seconds


def _check_refresh_interval(value: int) -> int:
    if MIN_REFRESH <= value <= MAX_REFRESH:
        return value
    raise PydanticCustomError(
        "range",
        "{value} is out of range: write a duration from 1m to 24h",
        {"value": format_duration(value)},
    )


class ReferencedKey(StrictModel):
    """A key of the secret, and the place of its value in the store."""

    name: SecretKey = Field(description="The name of the key. An instance names it as secretKeyRef.key.")
    path: StorePath = Field(
        description="The path of the value below the tenant's own path in the store, which is <prefix>/<tenant>. The"
        " cluster declares the prefix."
    )
    property_: SecretProperty | None = Field(
        default=None,
        alias="property",
        description="The field to read if the value in the store is a JSON object. Default: the whole value.",
    )


class SecretReferenceSpec(Spec):
    """The keys of the secret, and the cluster with the store of their values."""

    cluster: ClusterReference = Field(
        description="The name of the Cluster in which instances use the secret. It must declare a secretStore."
    )
    type_: Literal["Values", "ImagePull"] = Field(
        default="Values",
        alias="type",
        description="Values: instances name its keys in their environment. ImagePull: the credential with which all pods of the"
        " tenant in the cluster pull images from private registries. Its only key is .dockerconfigjson, with a Docker"
        " config JSON.",
    )
    keys: Annotated[list[ReferencedKey], unique_by("name")] = Field(min_length=1, max_length=50)
    refresh_interval: Annotated[Duration, AfterValidator(_check_refresh_interval)] = Field(
        default=3600,
        description="How often the values are read from the store, from 1m to 24h. A value that changes in the store needs"
        " no merge. An instance gets the new value at its next start.",
    )

    @property
    def is_image_pull(self) -> bool:
        """Whether the reference is a credential for registries instead of values for instances."""
        return self.type_ == "ImagePull"

    @model_validator(mode="after")
    def _check_docker_config(self) -> Self:
        names = [key.name for key in self.keys]
        if self.is_image_pull and names != [DOCKER_CONFIG_KEY]:
            raise PydanticCustomError(
                "image-pull",
                "type ImagePull has the keys {names}, and Kubernetes reads exactly the key {expected}: declare only this key",
                {"names": ", ".join(names), "expected": DOCKER_CONFIG_KEY},
            )
        return self


class SecretReference(Declaration):
    """Secrets of a tenant, such as API keys, that stay in the secret store of a cluster.

    The declaration has no secret. It names values below the tenant's own path in the store. The cluster reads them, and
    instances of the tenant get them as environment variables: `container.env[].valueFrom.secretKeyRef`. With
    `type: ImagePull`, the declaration is a credential for private container registries instead.
    """

    kind: Literal["SecretReference"]
    spec: SecretReferenceSpec
