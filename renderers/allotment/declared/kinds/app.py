"""App: a program in the catalog, with its versions."""

from typing import Annotated, Literal

from pydantic import Field

from allotment.declared.kinds.container import ImageContainer
from allotment.declared.kinds.declaration import Declaration, Spec, StrictModel, unique_by
from allotment.declared.values import MountPath, pattern_field

VersionName = Annotated[
    str,
    pattern_field(
        r"^[0-9A-Za-z](?:[0-9A-Za-z._-]{0,30}[0-9A-Za-z])?$",
        "a version such as 1.2.0: letters, digits, '.', '_' and '-', at most 32, a letter or digit first and last",
    ),
]


class AppFolder(StrictModel):
    """A folder that the program reads or writes in its container. A storage can be mounted at this folder."""

    path: MountPath = Field(
        description="The path of the folder in the container, which a tenant uses as the mountPath of a storage."
    )
    description: Annotated[str, Field(max_length=500)] | None = Field(
        default=None, description="The files that belong in the folder, described for tenants."
    )
    optional: bool = Field(
        default=False,
        description="The program works without a storage in the folder, and its files are no loss, as in a cache. Default:"
        " an instance without a storage there gets a warning.",
    )


class AppVersion(StrictModel):
    """A version of an app. Its container is immutable once merged."""

    version: VersionName = Field(description='The version number that the app itself uses, quoted: "1.10.1".')
    lifecycle: Literal["Active", "Deprecated", "Retired", "Revoked"] = Field(
        default="Active",
        description="Deprecated: use of the version causes a warning. Retired: new uses are rejected, and existing"
        " instances stay. Revoked: the version is unsafe, and its instances are stopped.",
    )
    replaced_by: VersionName | None = Field(default=None, description="The version of this app that replaces it.")
    container: ImageContainer
    folders: Annotated[list[AppFolder], unique_by("path")] = Field(
        default=[],
        max_length=30,
        description="The folders that the program uses. A storage that is mounted elsewhere causes a warning, and so does"
        " a folder without a storage. Default: no warnings. Mutable, because no manifest depends on it.",
    )


class AppSpec(Spec):
    """The versions of the app."""

    versions: Annotated[list[AppVersion], unique_by("version")] = Field(min_length=1)


class App(Declaration):
    """A program in the catalog, which tenants start by name and version.

    The App defines the image, the ports and the probe. An instance may replace the arguments, and add or replace
    environment variables.
    """

    kind: Literal["App"]
    spec: AppSpec
