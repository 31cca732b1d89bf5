"""GPUStorage: a volume or bucket of a tenant."""

import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.addresses import BucketName, KeyPrefix, Region, S3Endpoint, Sha256, SourceUrl
from allotment.declared.kinds.container import SECRET_VALUES
from allotment.declared.kinds.declaration import Declaration, Spec, StrictModel, check_one_of, unique_by
from allotment.declared.references import ClusterReference, SecretReferenceName, SnapshotReference, StorageSpecReference
from allotment.declared.values import SUB_PATH, Duration, Image, ResourceName, Size, SubPath

MAX_ATTEMPTS = 9999  # of the preparations of a storage
_SECRET_PARAMETER = re.compile(
    r"[?&](?:[a-z_-]*token|api_?key|sig|signature|password|x-amz-(?:signature|credential|security-token))=",
    re.IGNORECASE,
)


class ImageSource(StrictModel):
    """A program that fills the storage: it writes to /workspace and exits."""

    image: Image = Field(description="The container image to run, with its digest.")
    command: list[str] = Field(default=[], max_length=100, description="Replaces the entry point of the image.")
    args: list[str] = Field(default=[], max_length=500, description="Replaces the arguments of the image.")


class StorageSource(StrictModel):
    """A storage in the same cluster. It belongs to this tenant, or to a tenant that shares it with this tenant."""

    name: ResourceName = Field(description="The name of the GPUStorage.")
    tenant: ResourceName | None = Field(
        default=None, description="The tenant that owns the storage. Default: this tenant."
    )


class SnapshotSource(StrictModel):
    """A GPUStorageSnapshot of this tenant. It is restored into a storage of the same cluster and StorageSpec."""

    name: SnapshotReference = Field(description="The name of the GPUStorageSnapshot.")


class UrlSource(StrictModel):
    """A file on the internet. A file with a different SHA-256 hash is rejected."""

    url: SourceUrl = Field(description="The https:// URL of the file.")
    sha256: Sha256 = Field(
        description="The hash of all its bytes, 64 hexadecimal digits. A file with a different hash is not stored."
    )
    path: SubPath | None = Field(
        default=None, description="The path of the file on the storage. Default: the file name in the URL."
    )

    @property
    def target(self) -> str:
        """The path of the file on the storage."""
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
                "the URL's query looks like a secret, and Git history keeps it: revoke the secret, and use s3 with a "
                "secretRef, or an image that reads a secret from a storage",
            )
        return self


class SourceSecretRef(StrictModel):
    """A SecretReference of the same tenant and cluster."""

    name: SecretReferenceName = Field(description="The name of the SecretReference.")


S3_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


class S3Source(StrictModel):
    """The objects under a prefix of an S3 bucket."""

    endpoint: S3Endpoint = Field(
        description="The URL of the S3 service, such as https://s3.eu-central-1.amazonaws.com. Requests use path-style"
        " addressing."
    )
    bucket: BucketName = Field(description="The name of the bucket.")
    prefix: KeyPrefix = Field(
        default="",
        description="The prefix of the objects' keys, such as models/sdxl/. An object is stored at the rest of its key.",
    )
    region: Region = Field(default="us-east-1", description="The region in the signatures of requests.")
    secret_ref: SourceSecretRef | None = Field(
        default=None,
        description="The SecretReference with the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Default: anonymous access.",
    )


class Source(StrictModel):
    """The source of the content: exactly one of the fields."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("image", "storage", "snapshot", "url", "s3")
    image: ImageSource | None = None
    storage: StorageSource | None = None
    snapshot: SnapshotSource | None = None
    url: UrlSource | None = None
    s3: S3Source | None = None
    _check_one_of = model_validator(mode="after")(check_one_of)


class Prepare(StrictModel):
    """The preparation that fills the storage before instances mount it."""

    source: Source
    attempt: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS)] = Field(
        default=1,
        description="The number of the attempt. Increase it to run the preparation again; `allot recover` does this in"
        " a commit with its author and reason. A return to an earlier source also needs a new attempt.",
    )
    timeout: Duration = Field(
        default=86400,
        description="The longest time that an attempt may take. A change applies from the next attempt on.",
    )


class Accessor(StrictModel):
    """A web page that shows the files of the storage. It also changes them if its mode is ReadWrite."""

    mode: Literal["ReadOnly", "ReadWrite"] = Field(
        default="ReadOnly",
        description="ReadOnly: nobody can change files. ReadWrite: members with the role Admin or Member can upload,"
        " replace, move and delete files, and a Viewer only reads; the tenant's pods can change files too, without a"
        " login. The page stays read-only until the storage is prepared.",
    )
    exposure: Literal["Namespace", "Members", "Public"] = Field(
        default="Members",
        description="Namespace: only the tenant's pods can connect. Members: members of the tenant, after login."
        " Public: anyone.",
    )

    @property
    def allows_writing(self) -> bool:
        """Whether the page may change files."""
        return self.mode == "ReadWrite"


class Reader(StrictModel):
    """A tenant that may copy the storage: exactly one of tenant and tenants."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("tenant", "tenants")
    tenant: ResourceName | None = Field(default=None, description="The name of a tenant that may copy the storage.")
    tenants: Literal["All"] | None = Field(default=None, description="All: every tenant may copy the storage.")
    _check_one_of = model_validator(mode="after")(check_one_of)


class GPUStorageSpec(Spec):
    """A volume or a bucket. Its cluster and storageSpec are immutable."""

    cluster: ClusterReference = Field(description="The name of the Cluster that has the storage. Immutable.")
    storage_spec: StorageSpecReference = Field(
        description="The name of the StorageSpec, which sets the type and the price of the storage. Immutable."
    )
    size: Size = Field(description="The size of the volume, or the quota of the bucket. It can only be increased.")
    prepare: Prepare | None = Field(
        default=None, description="Instances that mount the storage wait until its preparation has succeeded."
    )
    accessor: Accessor | None = Field(
        default=None, description="A web page that shows the files of the storage. Default: none."
    )
    shared_with: Annotated[list[Reader], unique_by("tenant")] = Field(
        default=[],
        max_length=200,
        description="The tenants that may copy the storage within the cluster, once it is prepared.",
    )
    deletion_policy: Literal["Retain", "Delete"] = Field(
        default="Retain",
        description="Delete: the storage may be deleted. Data is deleted in two merges: the first sets Delete, the"
        " second removes the file.",
    )


class GPUStorage(Declaration):
    """A volume or bucket in a cluster. Instances of the tenant mount the volume or access the bucket.

    A storage outlives its instances. Its deletion takes two merges: the first sets `deletionPolicy: Delete`, the second
    removes the file.
    """

    kind: Literal["GPUStorage"]
    spec: GPUStorageSpec
