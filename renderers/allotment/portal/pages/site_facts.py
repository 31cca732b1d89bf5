"""Defines the facts that all pages of the portal share."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from allotment.declared.kinds.app import AppFolder
from allotment.portal.pages.forge_links import ForgeLinks


class GpuSpecEntry(NamedTuple):
    """A GPUSpec in a cluster. `price` is per unit and hour; None if it is not sold yet. `memory` is in bytes; other sizes are texts, such as 24Gi.

    `gpus` are the physical GPUs of a unit. `free` counts the free units of the shared stocks, and `total` all of them.
    `changes_this_month` says that the next price starts in the month of the prices.
    """

    cluster: str
    name: str
    title: str
    model: str
    gpus: Fraction
    gpu_memory: str
    sharing: str
    cpu: str
    memory: int
    disk: str
    lifecycle: str
    price: Decimal | None
    later_price: str
    changes_this_month: bool
    free: int
    total: int

    @property
    def memory_note(self) -> str:
        """A warning about neighbours in the same GPU memory; empty if the unit has its memory alone."""
        is_shared = self.sharing == "TimeSlicing"
        return f"shared by {self.gpus.denominator}: neighbours can use it up" if is_shared else ""


class StorageSpecEntry(NamedTuple):
    """A StorageSpec in a cluster. `price` is per GiB and month. Sizes are in bytes. The rest is as in `GpuSpecEntry`."""

    cluster: str
    name: str
    access: str
    min_size: int
    max_size: int
    free_bytes: int
    lifecycle: str
    price: Decimal | None
    later_price: str
    changes_this_month: bool


class AppVersionEntry(NamedTuple):
    """A version of an app. `shm_size` is in bytes. The optional `folders` are last."""

    version: str
    lifecycle: str
    replaced_by: str
    exposures: tuple[str, ...]
    shm_size: int
    folders: tuple[AppFolder, ...]
    image: str

    @property
    def title(self) -> str:
        """The version for a choice, with a note if new instances should use another."""
        if self.lifecycle == "Active":
            return self.version
        return f"{self.version} ({self.lifecycle}{f', replaced by {self.replaced_by}' if self.replaced_by else ''})"


_LIFECYCLES = ("Active", "Deprecated", "Retired", "Revoked")  # the best first


class AppEntry(NamedTuple):
    """An app of the catalog, the newest version first."""

    name: str
    title: str
    description: str
    versions: tuple[AppVersionEntry, ...]

    @property
    def lifecycle(self) -> str:
        """The best lifecycle among the versions: an app is Deprecated if no version is Active."""
        return min((version.lifecycle for version in self.versions), key=_LIFECYCLES.index)

    @property
    def choice_title(self) -> str:
        """The title for a choice, with a note if new instances should use another app."""
        return self.title if self.lifecycle == "Active" else f"{self.title} ({self.lifecycle})"

    @property
    def summary(self) -> str:
        """The image and the folders of the newest version, for an app without a description."""
        newest = self.versions[0]
        folders = ", ".join(folder.path for folder in newest.folders)
        return f"Runs {newest.image.partition('@')[0]}{f' with files in {folders}' if folders else ''}."


class ClusterEntry(NamedTuple):
    """A cluster. `observed_at` is the time of its last report; empty without a report. `trouble` is the fault of its status.

    `has_public_ports` says whether a port may have the exposure Public.
    """

    name: str
    title: str
    description: str
    lifecycle: str
    observed_at: str
    is_stale: bool
    trouble: str
    has_ssh: bool
    has_public_ports: bool


class SiteFacts(NamedTuple):
    """The facts that all pages share. `commit` is the commit of the declarations, and `day` is that of the prices."""

    title: str
    description: str
    currency: str
    day: datetime.date
    commit: str
    forge: ForgeLinks
    clusters: tuple[ClusterEntry, ...]
    gpu_specs: tuple[GpuSpecEntry, ...]
    storage_specs: tuple[StorageSpecEntry, ...]
    apps: tuple[AppEntry, ...]

    def find_app_version(self, text: str) -> AppVersionEntry | None:
        """Return the version of an app in the format `NAME VERSION`, such as `vllm 0.28.0`; None if the catalog has none."""
        return next(
            (each for app in self.apps for each in app.versions if f"{app.name} {each.version}" == text),
            None,
        )
