"""What every declared kind shares: the strict base models, the envelope, and checks that several kinds use."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from allotment.declared.values import Labels, Text

Lifecycle = Literal["Active", "Deprecated", "Retired"]


API_VERSION = "allotment.dev/v1alpha1"


class StrictModel(BaseModel):
    """A mapping that takes exactly its fields, each of exactly its type."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, alias_generator=to_camel, validate_default=False, defer_build=True
    )
    # Fields of which exactly one (or, with a leading None, at most one) must be given.
    ONE_OF: ClassVar[tuple[str | None, ...]] = ()
    ONE_OF_WHY: ClassVar[str] = ""  # why two of them can't be given, where that isn't plain

    @property
    def chosen_member(self) -> str | None:
        """The name of the one member of this union that is given."""
        return next((member for member in self.ONE_OF if member and getattr(self, member) is not None), None)


def check_one_of(model: Any) -> Any:
    """Check a model's ONE_OF; for use in a `model_validator(mode="after")`."""
    members = [member for member in model.ONE_OF if member]
    present_members = [member for member in members if getattr(model, member) is not None]
    least = 0 if None in model.ONE_OF else 1
    if least <= len(present_members) <= 1:
        return model
    fields = type(model).model_fields
    names = ", ".join(str(fields[member].alias) for member in members)
    present_names = " and ".join(str(fields[member].alias) for member in present_members) or "none"
    why = f": {model.ONE_OF_WHY}" if len(present_members) > 1 and model.ONE_OF_WHY else ""
    raise PydanticCustomError(
        "one-of",
        "exactly one of {names} must be given, found {found}{why}",
        {"names": names, "found": present_names, "why": why},
    )


class Metadata(StrictModel):
    """Who this is. The name is the file's: `metadata.name` of `instances/webui.yaml` is `webui`."""

    name: str = Field(description="The file's name without .yaml; of Tenant, Members and Cluster the folder's.")
    labels: Labels = Field(
        default={}, description="Cost allocation labels, such as a cost center, for whoever adds up costs by them."
    )


class Spec(StrictModel):
    """The fields that every spec takes."""

    display_name: Annotated[str, Field(max_length=100)] | None = Field(
        default=None, description="A name for people who read the declaration, in any script."
    )
    description: Text | None = Field(default=None, description="What this is for, in a sentence or two.")


class CatalogSpec(Spec):
    """The fields that everything on offer takes."""

    lifecycle: Lifecycle = Field(
        default="Active", description="Deprecated warns who uses it; Retired takes nothing new, and what runs stays."
    )


class Declaration(StrictModel):
    """The envelope of every file."""

    api_version: Literal["allotment.dev/v1alpha1"] = Field(description="The version of this schema.")
    kind: str
    metadata: Metadata
    spec: Spec

    @property
    def name(self) -> str:
        """The declared name."""
        return self.metadata.name


def unique_by(field: str) -> Any:
    """Return an annotation for a list whose entries differ in `field`."""

    def check(items: list[Any]) -> list[Any]:
        first_indexes: dict[Any, int] = {}
        for index, item in enumerate(items):
            key = getattr(item, field)
            if key in first_indexes:
                alias = type(item).model_fields[field].alias
                raise PydanticCustomError(
                    "duplicate",
                    "entries {first} and {second} have the same {alias}, '{key}'",
                    {"first": first_indexes[key], "second": index, "alias": alias, "key": str(key)},
                )
            first_indexes[key] = index
        return items

    return AfterValidator(check)
