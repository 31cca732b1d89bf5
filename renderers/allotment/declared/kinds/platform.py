"""Platform: the Git repositories, the billing settings and the limits of deletions."""

from typing import Annotated, Literal

from pydantic import Field

from allotment.declared.addresses import HttpsUrl
from allotment.declared.kinds.declaration import Declaration, Spec, StrictModel
from allotment.declared.references import ClusterReference
from allotment.declared.values import (
    BranchName,
    Count,
    Duration,
    GroupName,
    Image,
    KubernetesName,
    SshKey,
    TimeZone,
    pattern_field,
)


class Git(StrictModel):
    """The repository of the declarations, and the repositories of the branches that Allotment writes."""

    forge: Literal["GitHub", "GitLab", "Gitea", "Forgejo"] = Field(
        description="The type of the forge that hosts the repository."
    )
    url: HttpsUrl = Field(description="The clone URL. By default, Argo CD also reads the rendered branches from it.")
    rendered: HttpsUrl | None = Field(
        default=None, description="The repository of the rendered branches. Default: `url`."
    )
    status: HttpsUrl | None = Field(default=None, description="The repository of the status branches. Default: `url`.")
    branch: BranchName = Field(default="main", description="The branch of the declarations that Allotment publishes.")


class Billing(StrictModel):
    """The currency of prices, and the time zone in which the days of prices start. Both are immutable.

    The other fields may change at any time.
    """

    currency: Annotated[str, pattern_field("^[A-Z]{3}$", "an ISO 4217 code such as EUR")] = Field(
        description="An ISO 4217 code, such as EUR."
    )
    time_zone: TimeZone = Field(
        description="An IANA time zone, such as Europe/Berlin. Prices change at midnight in this time zone."
    )
    unknown: Literal["Free", "Billed"] = Field(
        default="Free",
        description="Whether bills charge the time after the last observation of a use, if nobody observed the cluster when"
        " the use ended.",
    )
    public_key: SshKey | None = Field(
        default=None,
        description="The SSH public key that signs the tags of closed months, such as ssh-ed25519 AAAA…. `allot month verify`"
        " checks the signature with it.",
    )


class Brake(StrictModel):
    """The brake, which stops a change that deletes so much at once that a person must approve it."""

    max_deleted_percent: Annotated[int, Field(ge=1, le=100)] = Field(
        default=30,
        description="The maximum percentage of the instances, storages or snapshots of a tenant, or of all tenants, that may be deleted within 24 hours.",
    )
    min_objects: Count = Field(default=10, description="With fewer items of a kind, the brake doesn't act.")
    approved_plans: list[
        Annotated[str, pattern_field("^sha256:[0-9a-f]{64}$", "a checksum: sha256: and 64 hexadecimal digits")]
    ] = Field(
        default=[],
        description="Checksums of deletions that may pass, once each: a plan, a stopped publish or `allot publish --dry-run` prints "
        "them. A checksum counts where it is published before the deletion is merged.",
    )


class Deletion(StrictModel):
    """The waiting time between the two merges that delete data."""

    after: Duration = Field(
        default=3600,
        description="The time for which the cluster must have reported a resource as marked for deletion before it is"
        " deleted.",
    )


class Images(StrictModel):
    """The images of Allotment's own programs in the clusters. The clusters must be able to pull them."""

    files: Image | None = Field(
        default=None,
        description="The image of dufs 0.46, which shows the files of storages. Default: no storage has an accessor.",
    )
    prepare: Image | None = Field(
        default=None,
        description="An image with Python 3.13 or later, which fills storages. Default: the official Python image.",
    )


class Publisher(StrictModel):
    """The publisher, which writes the rendered branches."""

    public_key: SshKey = Field(
        description="The SSH public key of the publisher, such as ssh-ed25519 AAAA…. Only commits that this key signed"
        " count as published."
    )


class ArgoCD(StrictModel):
    """The web interface of Argo CD."""

    url: HttpsUrl = Field(
        description="The URL of Argo CD. `allot status` links to the logs of preparations, and to the logs and"
        " terminals of instances."
    )


class Portal(StrictModel):
    """The portal, which the Gateway of a cluster serves at the host portal.<domain of the cluster>."""

    cluster: ClusterReference = Field(
        description="The cluster that serves the portal. `allot run --portal` runs there."
    )
    public_pages: Literal["Login", "Public"] = Field(
        default="Login",
        description="The readers of the catalog. Login: all people with a login at the Gateway. Public: everyone.",
    )
    groups: list[GroupName] = Field(
        default=[],
        max_length=15,
        description="The groups of the identity provider that can open the pages of the platform, of the provider and of all"
        " tenants. Default: nobody can.",
    )
    proxy_secret_name: KubernetesName | None = Field(
        default=None,
        description="A Secret with the key credential that you keep in the namespace of the Gateway. The Gateway sends the"
        " credential with each request that has a login, and the portal believes the login only with it. Start"
        " `allot run --portal` with the same credential in --portal-secret-file. Default: the portal believes each request.",
    )


class PlatformSpec(Spec):
    """The settings of the whole repository."""

    git: Git
    billing: Billing
    brake: Brake = Brake(maxDeletedPercent=30, minObjects=10, approvedPlans=[])
    deletion: Deletion = Deletion()
    images: Images = Images()
    publisher: Publisher | None = Field(
        default=None,
        description="Default: rendered commits need no signature, and everyone who may push them is trusted.",
    )
    argocd: ArgoCD | None = Field(default=None, description="Default: a status has no links to logs and terminals.")
    portal: Portal | None = Field(default=None, description="Default: no Gateway serves the portal.")
    self_service: Literal["Disabled", "Enabled"] = Field(
        default="Disabled",
        description="Enabled: `allot run --comment` merges the pull requests that the tariff plan of the tenant allows. Disabled: a person"
        " merges each pull request.",
    )


class Platform(Declaration):
    """The settings of the platform: its Git repositories, its currency, and its limits of deletions.

    The only Platform is platform/platform.yaml. The platform team owns it.
    """

    kind: Literal["Platform"]
    spec: PlatformSpec
