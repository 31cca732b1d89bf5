"""GPUStorage: a volume or bucket of a tenant."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.addresses import BucketName, KeyPrefix, Region, S3Endpoint, Sha256, SourceUrl
from allotment.declared.kinds.container import SECRET_VALUES
from allotment.declared.kinds.declaration import Declaration, Spec, StrictModel, check_one_of, unique_by
from allotment.declared.references import ClusterReference, SnapshotReference, StorageSpecReference
from allotment.declared.values import SUB_PATH, Duration, Image, KubernetesName, ResourceName, Size, SubPath

_SECRET_PARAMETER = re.compile(
    r"[?&](?:[a-z_-]*token|api_?key|sig|signature|password|x-amz-(?:signature|credential|security-token))=",
    re.IGNORECASE,
)


class ImageSource(StrictModel):
    """A program that fills the storage: it writes into /workspace and ends."""

    image: Image = Field(description="What runs, with its digest.")
    command: list[str] = Field(default=[], max_length=100, description="Replaces the image's entry point.")
    args: list[str] = Field(default=[], max_length=500, description="Replaces the image's arguments.")


class StorageSource(StrictModel):
    """A storage in the same cluster: of this tenant, or of another that lists this one under sharedWith."""

    name: ResourceName = Field(description="The GPUStorage.")
    tenant: ResourceName | None = Field(default=None, description="Whose it is; absent: this tenant's own.")


class SnapshotSource(StrictModel):
    """A snapshot of this tenant's, restored into a storage of the same cluster and StorageSpec."""

    name: SnapshotReference = Field(description="The GPUStorageSnapshot.")


class UrlSource(StrictModel):
    """A file of the internet. What has another SHA-256 is refused."""

    url: SourceUrl = Field(description="What is downloaded, https://….")
    sha256: Sha256 = Field(description="The hash of all its bytes, 64 hexadecimal digits; anything else isn't kept.")
    path: SubPath | None = Field(default=None, description="What it is called on the storage; absent: as in the URL.")

    @property
    def target(self) -> str:
        """The path on the storage."""
        return self.path or self.url.partition("?")[0].rpartition("/")[2]

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        if not SUB_PATH.fullmatch(self.target) or self.target in (".", ".."):
            raise PydanticCustomError("path", "the URL doesn't end in a file's name: write one as path")
        return self

    @model_validator(mode="after")
    def _refuse_secret(self) -> Self:
        if SECRET_VALUES.search(self.url) or _SECRET_PARAMETER.search(self.url):
            raise PydanticCustomError(
                "secret",
                "the URL's query looks like a secret, and Git can't forget one: revoke it, and use s3 with a secretRef,"
                " or an image that reads it from a storage",
            )
        return self


class SecretName(StrictModel):
    """A Secret in the tenant's namespace."""

    name: KubernetesName = Field(description="A Secret of the tenant's namespace.")


class S3Source(StrictModel):
    """What lies under a prefix of an S3 bucket."""

    endpoint: S3Endpoint = Field(description="Such as https://s3.eu-central-1.amazonaws.com; buckets follow as paths.")
    bucket: BucketName = Field(description="The bucket's name.")
    prefix: KeyPrefix = Field(
        default="", description="Such as models/sdxl/; each object goes to the path that follows it."
    )
    region: Region = Field(default="us-east-1", description="The region that requests are signed for.")
    secret_ref: SecretName | None = Field(
        default=None, description="With the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; absent: open to all."
    )


class Source(StrictModel):
    """Where the content comes from: exactly one of the members."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("image", "storage", "snapshot", "url", "s3")
    image: ImageSource | None = None
    storage: StorageSource | None = None
    snapshot: SnapshotSource | None = None
    url: UrlSource | None = None
    s3: S3Source | None = None
    _check_one_of = model_validator(mode="after")(check_one_of)


class Prepare(StrictModel):
    """How the storage is filled before anyone mounts it."""

    source: Source
    attempt: Annotated[int, Field(ge=1, le=9999)] = Field(
        default=1,
        description="One more runs the preparation again: `allot recover` says who wanted that, and why."
        " Going back to an earlier source takes one more, too.",
    )
    timeout: Duration = Field(
        default=86400, description="How long an attempt may take. Counts from the next attempt on."
    )


class Accessor(StrictModel):
    """A read-only web page of the storage's files."""

    exposure: Literal["Namespace", "Members", "Public"] = Field(
        default="Members",
        description="Namespace: the tenant's own pods alone; Members: who logs in and is a member; Public: anyone.",
    )


class Reader(StrictModel):
    """Who may copy the storage: exactly one of tenant and tenants."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("tenant", "tenants")
    tenant: ResourceName | None = Field(default=None, description="A tenant that may copy it.")
    tenants: Literal["All"] | None = Field(default=None, description="All, where every tenant may copy it.")
    _check_one_of = model_validator(mode="after")(check_one_of)


class GPUStorageSpec(Spec):
    """A volume or a bucket. Its cluster and storageSpec are immutable."""

    cluster: ClusterReference = Field(description="The Cluster that it lies in; it can't change.")
    storage_spec: StorageSpecReference = Field(
        description="The StorageSpec that says what kind of volume it is, and what it costs; it can't change."
    )
    size: Size = Field(description="Grows, never shrinks. Of a bucket: the most it may hold.")
    prepare: Prepare | None = Field(
        default=None, description="Instances that mount the storage wait until it has succeeded."
    )
    accessor: Accessor | None = Field(default=None, description="Absent: no web page.")
    shared_with: Annotated[list[Reader], unique_by("tenant")] = Field(
        default=[], max_length=200, description="Tenants that may copy it, inside the cluster, once it is prepared."
    )
    deletion_policy: Literal["Retain", "Delete"] = Field(
        default="Retain",
        description="Delete is the first of the two merges that delete data; removing the file is the second.",
    )


class GPUStorage(Declaration):
    """A volume of a tenant, in one cluster, that its instances mount; or a bucket that they speak to.

    It outlives them. It is deleted in two merges: deletionPolicy: Delete, then without the file.
    """

    kind: Literal["GPUStorage"]
    spec: GPUStorageSpec
