"""Members: the people of a tenant."""

from typing import Annotated, Literal

from pydantic import Field

from allotment.declared.kinds.declaration import Declaration, Spec, StrictModel, unique_by
from allotment.declared.values import Login, SshKey, name_field

Role = Literal["Admin", "Member", "Viewer"]


class Group(StrictModel):
    """A group of the identity provider, identified by the `groups` claim of the ID token."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9](?:[A-Za-z0-9 ._:@/-]{0,98}[A-Za-z0-9])?$")] = Field(
        description="The name of the group, as in the `groups` claim of the ID token."
    )
    role: Role = Field(
        description="The role of the people in the group. Admin manages the tenant, Member uses its instances, Viewer"
        " has read access."
    )


class User(StrictModel):
    """A person. The file has no field for an e-mail address, because Git history would keep the address forever."""

    name: Annotated[str, name_field(32)] = Field(description="The name of this person in other files.")
    role: Role = Field(
        description="The role of this person. Admin manages the tenant, Member uses its instances, Viewer has read access."
    )
    login: Login | None = Field(
        default=None,
        description="The login at the forge. Append the forge's user ID, as in `ada-k#4711`, to exclude a later owner"
        " of the login.",
    )
    subject: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:|-]{0,99}$")] | None = Field(
        default=None,
        description="The `sub` of the person's ID token, from the identity provider. Without a subject or a group, this"
        " person can't open an instance with `exposure: Members`.",
    )
    ssh_keys: list[SshKey] = Field(
        default=[],
        max_length=20,
        description="SSH public keys, one line each, without options. Reserved for SSH access, which is not available yet.",
    )


class MembersSpec(Spec):
    """The groups and people of the tenant, with their roles: Admin, Member or Viewer."""

    groups: Annotated[list[Group], unique_by("name")] = Field(default=[], max_length=15)
    users: Annotated[list[User], unique_by("name")] = Field(default=[], max_length=200)


class Members(Declaration):
    """The people of a tenant. The admins of the tenant maintain this file.

    Admins and Members can log in to instances. In the dashboard of Argo CD, they can read logs and open terminals.
    Viewers can see the files of storages and the dashboard. Nobody has access to another tenant.
    """

    kind: Literal["Members"]
    spec: MembersSpec
