"""What every output of a command has."""

from __future__ import annotations

from typing import Literal

import msgspec

from allotment import API_VERSION


class Output(msgspec.Struct, frozen=True, rename="camel", tag_field="kind", tag=str):
    """A command's result. Its fields are written in camelCase, behind `kind` and `apiVersion`.

    Within a version fields are only added, so readers ignore those that they don't know. A subclass is `frozen` and `kw_only`, so that
    `apiVersion` comes first.
    """

    api_version: Literal["allotment.dev/v1alpha1"] = API_VERSION


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """A part of an output."""
