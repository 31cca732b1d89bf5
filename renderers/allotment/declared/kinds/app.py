"""App: a catalog entry with its versions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from allotment.declared.kinds.container import ImageContainer
from allotment.declared.kinds.declaration import Declaration, Spec, StrictModel, unique_by
from allotment.declared.values import MountPath

VersionName = Annotated[str, Field(pattern=r"^[0-9A-Za-z](?:[0-9A-Za-z._-]{0,30}[0-9A-Za-z])?$")]


class AppFolder(StrictModel):
    """A folder of the container that the program reads or writes, where a storage can be mounted."""

    path: MountPath = Field(description="Where the program finds it: the mountPath of a storage.")
    description: Annotated[str, Field(max_length=500)] | None = Field(
        default=None, description="The files that belong there, for tenants."
    )


class AppVersion(StrictModel):
    """One version of an app. Its container is immutable once merged."""

    version: VersionName = Field(description='Quoted, as the app itself counts: "1.10.1".')
    lifecycle: Literal["Active", "Deprecated", "Retired", "Revoked"] = Field(
        default="Active", description="As of every offer; Revoked is for security: its instances run no more."
    )
    replaced_by: VersionName | None = Field(default=None, description="The version of this app to go to.")
    container: ImageContainer
    folders: Annotated[list[AppFolder], unique_by("path")] = Field(
        default=[],
        max_length=30,
        description="The folders that the program uses. A storage that is mounted elsewhere gets a warning; without any folder"
        " here, none does. May change later: nothing is rendered from it.",
    )


class AppSpec(Spec):
    """The versions on offer."""

    versions: Annotated[list[AppVersion], unique_by("version")] = Field(min_length=1)


class App(Declaration):
    """A catalog entry: a program that tenants start by name and version, with image, ports and probe chosen for them.

    An instance may replace its args and add or replace environment variables.
    """

    kind: Literal["App"]
    spec: AppSpec
