"""Ownership: who approves a change of which path and field."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from allotment.declared.kinds.declaration import Declaration, Spec, StrictModel, check_one_of, unique_by
from allotment.declared.kinds.members import Role
from allotment.declared.references import Name
from allotment.declared.values import Login, name_field

_SEGMENT = r"(?:[A-Za-z0-9._-]+\*?|\*)[A-Za-z0-9._-]*"


class Approver(StrictModel):
    """Who may change a thing, or approve that somebody else does."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("team", "tenant_role", "login")

    team: Name | None = Field(default=None, description="A team of spec.teams.")
    tenant_role: Role | None = Field(
        default=None, description="Members of the path's tenant in this role, or one that includes it, by their login."
    )
    login: Login | None = Field(default=None, description="A person, by the login at the forge, or `login#id`.")

    _check_one_of = model_validator(mode="after")(check_one_of)

    def __str__(self) -> str:
        return self.team or self.login or str(self.tenant_role)


Approvers = Annotated[list[Approver], Field(min_length=1, max_length=20)]


class Team(StrictModel):
    """People who approve together: those named here, and those of a team at the forge."""

    name: Annotated[str, name_field(32)] = Field(
        description="What `approvers` call it; `platform` is the platform team."
    )
    forge_team: (
        Annotated[str, Field(pattern=r"^@[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)+$")] | None
    ) = Field(default=None, description="A team or group at the forge, @organisation/team.")
    logins: list[Login] = Field(default=[], max_length=200, description="Logins at the forge, or `login#id`.")


class PathRule(StrictModel):
    """Who approves changes of the files that a pattern matches."""

    path: Annotated[str, Field(pattern=rf"^{_SEGMENT}(?:/{_SEGMENT})*(?:/\*\*)?$", max_length=200)] = Field(
        description="From the repository's top; `*`, once a segment, is any text without `/`, a last `**` all below."
    )
    approvers: Approvers


class FieldRule(StrictModel):
    """Who approves, besides the path's approvers, a change of a field."""

    kind: Name = Field(description="A declared kind, such as GPUSpec.")
    field: Annotated[str, Field(pattern=r"^(?:spec|metadata)(?:\.[a-z][A-Za-z0-9]*)+$", max_length=200)] = Field(
        description="Such as spec.prices; all below it counts."
    )
    approvers: Approvers


class OwnershipSpec(Spec):
    """Teams, and what they approve."""

    teams: Annotated[list[Team], unique_by("name"), Field(min_length=1, max_length=50)]
    paths: Annotated[list[PathRule], unique_by("path")] = Field(default=[], max_length=200)
    fields: list[FieldRule] = Field(default=[], max_length=100)


class Ownership(Declaration):
    """Who may change what, and approve it. The base of a pull request says it, never the pull request itself.

    The most specific pattern that matches a path decides; what none matches is the team `platform`'s. Who is who, the
    forge says: the author, who pushed the newest commit, and who approved exactly that. A login may become somebody else's;
    `ada-k#4711`, with the forge's id, doesn't. The platform team owns it.
    """

    kind: Literal["Ownership"]
    spec: OwnershipSpec
