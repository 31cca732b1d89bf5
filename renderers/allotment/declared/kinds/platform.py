"""Platform: the forge, the currency and the brake."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from allotment.declared.addresses import HttpsUrl
from allotment.declared.kinds.declaration import Declaration, Spec, StrictModel
from allotment.declared.values import BranchName, Count, Duration, Image, SshKey, TimeZone


class Git(StrictModel):
    """The repository that holds the declarations, and the branches the program writes."""

    forge: Literal["GitHub", "GitLab", "Gitea", "Forgejo"] = Field(description="What kind of forge it lies on.")
    url: HttpsUrl = Field(description="The address to clone; Argo CD reads the rendered branches from it too.")
    rendered: HttpsUrl | None = Field(
        default=None, description="Another repository for the rendered branches; absent: this one."
    )
    status: HttpsUrl | None = Field(
        default=None, description="Another repository for the status branches; absent: this one."
    )
    branch: BranchName = Field(default="main", description="The branch that counts.")


class Billing(StrictModel):
    """What prices are in, and when a day begins. Both are immutable."""

    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] = Field(description="An ISO 4217 code, such as EUR.")
    time_zone: TimeZone = Field(
        description="An IANA time zone, such as Europe/Berlin: a day's price begins at its midnight."
    )


class Brake(StrictModel):
    """When a change deletes so much at once that a person must approve it."""

    max_deleted_percent: Annotated[int, Field(ge=1, le=100)] = Field(
        default=30,
        description="The most instances, storages or snapshots of a tenant, or of all, that may go within 24 hours, in percent.",
    )
    min_objects: Count = Field(default=10, description="Below so many items of a kind the brake doesn't act.")
    approved_plans: list[Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")]] = Field(
        default=[],
        description="Checksums of deletions that may pass, once each: a plan, a stopped publish or `allot publish --dry-run` prints "
        "them. A checksum counts where it is published before the deletion is merged.",
    )


class Deletion(StrictModel):
    """How far apart the two merges lie that delete data."""

    after: Duration = Field(
        default=3600,
        description="How long the cluster must have been seen to have a thing marked for deletion before it goes.",
    )


class Images(StrictModel):
    """The programs of ours that run in the clusters, from a registry that the clusters reach."""

    files: Image | None = Field(
        default=None, description="dufs 0.46, which shows a storage's files; absent: no storage has an accessor."
    )
    prepare: Image | None = Field(
        default=None, description="Python 3.13 or later, which fills storages; absent: the official image."
    )


class Publisher(StrictModel):
    """Who writes the rendered branches."""

    public_key: SshKey = Field(
        description="Only what this key has signed counts as published, such as ssh-ed25519 AAAA…."
    )


class ArgoCD(StrictModel):
    """Where people open Argo CD."""

    url: HttpsUrl = Field(
        description="Of its page: a status links to the log of a preparation, and to the log and a terminal of an instance."
    )


class PlatformSpec(Spec):
    """What holds for the whole repository."""

    git: Git
    billing: Billing
    brake: Brake = Brake(maxDeletedPercent=30, minObjects=10, approvedPlans=[])
    deletion: Deletion = Deletion()
    images: Images = Images()
    publisher: Publisher | None = Field(
        default=None, description="Absent: rendered commits needn't be signed, and whoever may push there is believed."
    )
    argocd: ArgoCD | None = Field(default=None, description="Absent: no status links to a log or a terminal.")


class Platform(Declaration):
    """The platform itself: where its repository lies, what money it counts in, what it refuses to delete at once.

    There is one, platform/platform.yaml. The platform team owns it.
    """

    kind: Literal["Platform"]
    spec: PlatformSpec
