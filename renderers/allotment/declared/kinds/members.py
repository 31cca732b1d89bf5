"""Members: the people of a tenant."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from allotment.declared.kinds.declaration import Declaration, Spec, StrictModel, unique_by
from allotment.declared.values import Login, SshKey, name_field

Role = Literal["Admin", "Member", "Viewer"]


class Group(StrictModel):
    """A group of the identity provider, as the token's `groups` claim names it."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9](?:[A-Za-z0-9 ._:@/-]{0,98}[A-Za-z0-9])?$")] = Field(
        description="A value of the ID token's claim `groups`."
    )
    role: Role = Field(description="What its people may do: Admin decides, Member uses, Viewer looks.")


class User(StrictModel):
    """A person. No e-mail address: Git can't forget one."""

    name: Annotated[str, name_field(32)] = Field(description="What the other files call this person.")
    role: Role = Field(description="What this person may do: Admin decides, Member uses, Viewer looks.")
    login: Login | None = Field(
        default=None,
        description="The login at the forge. With the forge's id, `ada-k#4711`, nobody else is meant who takes the login later.",
    )
    subject: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:|-]{0,99}$")] | None = Field(
        default=None,
        description="The `sub` of the person's ID token: ask the identity provider for it. Without it, and without a group, this"
        " person can't open an instance with `exposure: Members`.",
    )
    ssh_keys: list[SshKey] = Field(
        default=[],
        max_length=20,
        description="Public keys, one line each, without options. Kept for access by SSH, which nothing offers yet.",
    )


class MembersSpec(Spec):
    """Groups and people with their roles: Admin decides, Member uses, Viewer looks."""

    groups: Annotated[list[Group], unique_by("name")] = Field(default=[], max_length=15)
    users: Annotated[list[User], unique_by("name")] = Field(default=[], max_length=200)


class Members(Declaration):
    """The people of a tenant. The tenant's admins keep it.

    Admins and Members log in to instances, and in Argo CD's dashboard read their logs and open terminals; Viewers see
    files of storages and the dashboard. Nobody sees another tenant's.
    """

    kind: Literal["Members"]
    spec: MembersSpec
