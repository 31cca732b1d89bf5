"""Defines the base models of all declared kinds, the envelope of a declaration, and shared checks."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from allotment.declared.values import Labels, Text, pattern_field

Lifecycle = Literal["Active", "Deprecated", "Retired"]


API_VERSION = "allotment.dev/v1alpha1"
OPERATION_ID_PATTERN = "^[A-Za-z0-9][A-Za-z0-9._-]{7,62}$"


class StrictModel(BaseModel):
    """The base of all models: it rejects unknown fields and converts no types."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, alias_generator=to_camel, validate_default=False, defer_build=True
    )
    # Exactly one of the fields in ONE_OF must be set, or at most one if the first entry of ONE_OF is None.
    ONE_OF: ClassVar[tuple[str | None, ...]] = ()
    ONE_OF_WHY: ClassVar[str] = ""  # why the fields exclude each other, if the reason is not obvious

    @property
    def chosen_member(self) -> str | None:
        """The name of the field in `ONE_OF` that is set; None if no field is set."""
        return next((member for member in self.ONE_OF if member and getattr(self, member) is not None), None)


def check_one_of(model: Any) -> Any:
    """Return the model if it satisfies `ONE_OF`; raise otherwise. Use it in a `model_validator(mode="after")`."""
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
    """The identity of the declaration. `metadata.name` is the name of the file: `webui` in `instances/webui.yaml`."""

    name: str = Field(
        description="The name of the file without .yaml. For Tenant, Members and Cluster: the name of the folder."
    )
    labels: Labels = Field(default={}, description="Labels for cost allocation, such as a cost center.")
    operation_id: (
        Annotated[
            str,
            pattern_field(OPERATION_ID_PATTERN, "8 to 63 letters, digits, '.', '_' and '-', a letter or digit first"),
        ]
        | None
    ) = Field(
        default=None,
        alias="operationID",
        description="The ID of the last command with `--operation-id` that wrote this file. It has no effect on manifests.",
    )


class Spec(StrictModel):
    """The fields of every spec."""

    display_name: Annotated[str, Field(max_length=100)] | None = Field(
        default=None, description="A human-readable name, in any script."
    )
    description: Text | None = Field(default=None, description="The purpose of this declaration, in a sentence or two.")


class CatalogSpec(Spec):
    """The fields of every spec in the catalog."""

    lifecycle: Lifecycle = Field(
        default="Active",
        description="Deprecated: uses cause a warning. Retired: new uses are rejected, and existing uses stay.",
    )


class Declaration(StrictModel):
    """The envelope of every declaration."""

    api_version: Literal["allotment.dev/v1alpha1"] = Field(description="The version of the schema.")
    kind: str
    metadata: Metadata
    spec: Spec

    @property
    def name(self) -> str:
        """The declared name."""
        return self.metadata.name


def unique_by(field: str) -> Any:
    """Return an annotation for a list. It rejects a list in which two entries have the same value of `field`."""

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
