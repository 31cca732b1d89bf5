"""Members: the people of a tenant."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.kinds.declaration import Declaration, Spec, StrictModel, unique_by
from allotment.declared.values import GroupName, Login, SshKey, name_field, pattern_field

MAX_USERS = 200
Role = Literal["Admin", "Member", "Viewer"]


class Group(StrictModel):
    """A group of the identity provider, identified by the `groups` claim of the ID token."""

    name: GroupName = Field(description="The name of the group, as in the `groups` claim of the ID token.")
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
    subject: (
        Annotated[
            str,
            pattern_field(
                r"^[A-Za-z0-9][A-Za-z0-9._:|-]{0,99}$",
                "letters, digits, '.', '_', ':', '|' and '-', at most 100, a letter or digit first",
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="The `sub` of the person's ID token, from the identity provider. Without a subject or a group, this"
        " person can't open an instance with `exposure: Members`.",
    )
    ssh_keys: list[SshKey] = Field(
        default=[],
        max_length=20,
        description="The SSH public keys of an Admin or Member, one line each, without options. With them, this person connects"
        " to the tenant's instances that declare `access: [SSH]`.",
    )


class MembersSpec(Spec):
    """The groups and people of the tenant, with their roles: Admin, Member or Viewer."""

    groups: Annotated[list[Group], unique_by("name")] = Field(default=[], max_length=15)
    users: Annotated[list[User], unique_by("name")] = Field(default=[], max_length=MAX_USERS)

    @property
    def admins(self) -> list[Group | User]:
        """The groups and people with the role Admin."""
        members: list[Group | User] = [*self.groups, *self.users]
        return [member for member in members if member.role == "Admin"]

    @property
    def ssh_users(self) -> list[User]:
        """The Admins and Members with SSH keys. A Viewer can't connect to an instance."""
        return [user for user in self.users if user.ssh_keys and user.role != "Viewer"]

    @model_validator(mode="after")
    def _check_ssh_keys(self) -> Self:
        """Reject a key of two people, because a log names the person by the key."""
        owners: dict[str, str] = {}
        for user in self.users:
            for key in user.ssh_keys:
                fields = " ".join(key.split()[:2])
                if fields in owners:
                    raise PydanticCustomError(
                        "ssh-keys",
                        "users {first} and {second} have the same SSH key: each key belongs to a single person, once",
                        {"first": owners[fields], "second": user.name},
                    )
                owners[fields] = user.name
        return self


class Members(Declaration):
    """The people of a tenant. The admins of the tenant maintain this file.

    Admins and Members can log in to instances. In the dashboard of Argo CD, they can read logs and open terminals.
    Viewers can see the files of storages and the dashboard. Nobody has access to another tenant.
    """

    kind: Literal["Members"]
    spec: MembersSpec
