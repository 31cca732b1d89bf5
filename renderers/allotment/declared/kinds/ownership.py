"""Ownership: the approvers of changes, by path and field."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from allotment.declared.kinds.declaration import Declaration, Spec, StrictModel, check_one_of, unique_by
from allotment.declared.kinds.members import Role
from allotment.declared.references import Name
from allotment.declared.values import Login, name_field, pattern_field

_SEGMENT = r"(?:[A-Za-z0-9._-]+\*?|\*)[A-Za-z0-9._-]*"


class Approver(StrictModel):
    """A team, role or person that may make a change or approve it: exactly one of team, tenantRole and login."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("team", "tenant_role", "login")

    team: Name | None = Field(default=None, description="The name of a team in spec.teams.")
    tenant_role: Role | None = Field(
        default=None,
        description="Members with this role, or a higher role, in the tenant that the path belongs to. They need a"
        " `login`.",
    )
    login: Login | None = Field(default=None, description="The login of a person at the forge, or `login#id`.")

    _check_one_of = model_validator(mode="after")(check_one_of)

    def __str__(self) -> str:
        return self.team or self.login or str(self.tenant_role)


Approvers = Annotated[list[Approver], Field(min_length=1, max_length=20)]
RuleSelfService = Annotated[
    Literal["Enabled", "Disabled"],
    Field(
        default="Enabled",
        description="Disabled: a person merges each change that the rule matches, even if a tariff plan allows self service.",
    ),
]


class Team(StrictModel):
    """A team of approvers: the logins listed here, and the members of a team at the forge."""

    name: Annotated[str, name_field(32)] = Field(
        description="The name of the team in `approvers`. `platform` is the platform team."
    )
    forge_team: (
        Annotated[
            str,
            pattern_field(
                r"^@[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)+$", "a team such as @northlight/platform"
            ),
        ]
        | None
    ) = Field(default=None, description="The name of a team or group at the forge, as @organisation/team.")
    logins: list[Login] = Field(
        default=[], max_length=200, description="The logins of people at the forge, or `login#id`."
    )


class PathRule(StrictModel):
    """The approvers of changes to the files that match a pattern."""

    path: Annotated[
        str,
        pattern_field(
            rf"^{_SEGMENT}(?:/{_SEGMENT})*(?:/\*\*)?$",
            "a pattern such as tenants/*/members.yaml or platform/**",
            max_length=200,
        ),
    ] = Field(
        description="A pattern for paths from the root of the repository. `*`, at most once in a segment, matches any"
        " text without `/`. A final `**` matches everything below a folder."
    )
    approvers: Approvers
    self_service: RuleSelfService


class FieldRule(StrictModel):
    """Additional approvers of changes to a field, besides the approvers of the path."""

    kind: Name = Field(description="A declared kind, such as GPUSpec.")
    field: Annotated[
        str,
        pattern_field(
            r"^(?:spec|metadata)(?:\.[a-z][A-Za-z0-9]*)+$", "the path of a field such as spec.prices", max_length=200
        ),
    ] = Field(description="The path of the field, such as spec.prices. The rule includes all fields below it.")
    approvers: Approvers
    self_service: RuleSelfService


class OwnershipSpec(Spec):
    """The teams, and the rules that assign approvers."""

    teams: Annotated[list[Team], unique_by("name"), Field(min_length=1, max_length=50)]
    paths: Annotated[list[PathRule], unique_by("path")] = Field(default=[], max_length=200)
    fields: list[FieldRule] = Field(default=[], max_length=100)


class Ownership(Declaration):
    """The approvers of changes, by path and field. A pull request is checked against the Ownership in its base.

    If several patterns match a path, only the most specific pattern applies. The team `platform` approves paths that no
    pattern matches. The forge identifies the author, the accounts that pushed to the pull request, and the accounts
    that approved its newest commit. A login can pass to another person. A login with the user ID at the forge, such as
    `ada-k#4711`, always means the same person. The platform team approves changes to this file. A change to a
    field in `spec.fields` also needs the approvers of the field.
    """

    kind: Literal["Ownership"]
    spec: OwnershipSpec
