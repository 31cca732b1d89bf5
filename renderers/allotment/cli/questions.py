"""Asks a person for the missing options of a new instance or storage, with the offers that the tenant can use."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Any

import click
from pydantic import TypeAdapter

from allotment.capacity.pricing import price_on
from allotment.cli.prompts import ask, choose
from allotment.declared.kinds.app import AppFolder, AppVersion
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.layout import DEFAULT_MAX_NAME_LENGTH, Scope, name_error
from allotment.declared.values import Image, MountPath, Size, format_size
from allotment.edits.declarations import Declarations
from allotment.edits.instance_creation import EXPOSURES, InstanceOptions, NewInstance
from allotment.edits.option_values import OptionParser
from allotment.edits.storage_creation import StorageOptions, name_folder, parse_source, rank_access
from allotment.preparation.sources import is_single_writer
from allotment.problems import OperationRefused
from allotment.reports.catalog_tables import CatalogView, app_sheet, gpu_sheet, storage_sheet, tenant_facts
from allotment.reports.sheets import Sheet, print_output, sanitize_sentence, sanitize_value
from allotment.rules.accessors import list_running_users
from allotment.rules.availability import AppOffer, GPUOffer, StorageOffer
from allotment.rules.unsaved_folders import describe_folder, filter_unsaved_folders
from allotment.services.changes.tenant_offers import TenantOffers

_DEFAULT_FOLDER, _DEFAULT_SIZE, _DEFAULT_PATH = "models", "50Gi", "/workspace"


def ask_instance_options(declarations: Declarations, new: NewInstance, offers: TenantOffers) -> InstanceOptions:
    """Return the options with the answers of a person. Given options are not asked for.

    Raises OperationRefused if the tenant can use no GPUSpec, or no app.
    """
    return _Questions(declarations, offers, new.name).complete(new.options)


def ask_storage_options(declarations: Declarations, options: StorageOptions, offers: TenantOffers) -> StorageOptions:
    """Return the options of a storage with the answers of a person. Given options are not asked for.

    Raises OperationRefused if the tenant can use no StorageSpec.
    """
    return _Questions(declarations, offers).complete_storage(options)


class _Questions:
    """The questions about a new storage of a tenant, or about a new instance with the name `instance`."""

    def __init__(self, declarations: Declarations, offers: TenantOffers, instance: str = "") -> None:
        self._declarations, self._offers, self._instance = declarations, offers, instance
        self._tenant = offers.allowance.name
        self._view = CatalogView({}, offers.day, offers.currency, offers.allowance)

    def complete(self, options: InstanceOptions) -> InstanceOptions:
        """Return the options with the answers."""
        self._check_given_names(options)
        if not (options.cluster and options.gpu_spec and (options.app or options.image)):
            print_output(tenant_facts(self._offers.allowance, self._offers.currency))
        if not (options.cluster and options.gpu_spec):
            options = self._ask_gpu_spec(options)
        if not (options.app or options.image):
            options = self._ask_program(options)
        if not (options.storages or options.new_storages):
            options = self._ask_storages(options)
        return options

    def complete_storage(self, options: StorageOptions) -> StorageOptions:
        """Return the options of a storage with the answers."""
        parser = OptionParser()
        self._check_cluster(parser, options.cluster)
        parser.raise_problems()
        specs = [
            offer
            for offer in self._list_usable_storages(options.cluster, options.storage_spec)
            if offer.spec.model.spec.bucket is not None or not options.bucket
        ]
        if not specs:
            raise OperationRefused(
                f"{self._tenant} can use no such StorageSpec: `allot catalog --tenant {self._tenant}` shows the reasons"
            )
        print_output(tenant_facts(self._offers.allowance, self._offers.currency))
        spec = self._choose_storage_spec(specs)
        size = options.size or _ask_size(spec)
        has_volume = spec.spec.model.spec.volume is not None  # a bucket can't be filled
        source = options.source or (_ask_source() if has_volume else "")
        return options._replace(cluster=spec.cluster, storage_spec=spec.spec.model.name, size=size, source=source)

    def _check_cluster(self, parser: OptionParser, cluster: str) -> None:
        if cluster:
            clusters = self._declarations.list_scopes("cluster")
            parser.check_name("--cluster", cluster, clusters, "no cluster is named")

    def _check_given_names(self, options: InstanceOptions) -> None:
        parser = OptionParser()
        self._check_cluster(parser, options.cluster)
        if options.gpu_spec:
            names = self._declarations.list_names(GPUSpec)
            parser.check_name("--gpu-spec", options.gpu_spec, names, "no GPUSpec is named")
        parser.raise_problems()

    def _ask_gpu_spec(self, options: InstanceOptions) -> InstanceOptions:
        usable = [
            offer
            for offer in self._offers.offers.gpu_offers
            if not offer.barriers
            and options.cluster in ("", offer.cluster)
            and options.gpu_spec in ("", offer.spec.model.name)
        ]
        if not usable:
            raise OperationRefused(
                f"{self._tenant} can use no such GPUSpec now: `allot catalog --tenant {self._tenant}` shows the reasons"
            )
        usable.sort(key=self._rank_offer)
        names = _name_by_place([(offer.cluster, offer.spec.model.name) for offer in usable])
        chosen = choose("GPU", gpu_sheet(usable, self._view), usable, names)
        return options._replace(cluster=chosen.cluster, gpu_spec=chosen.spec.model.name)

    def _rank_offer(self, offer: GPUOffer) -> tuple[bool, Decimal]:
        """Return the place of an offer among the choices: the cheapest first, and units that the cloud may reclaim last."""
        spec = offer.spec.model.spec
        return spec.capacity_type == "Spot", price_on(spec.prices, self._view.day).per_hour

    def _ask_program(self, options: InstanceOptions) -> InstanceOptions:
        apps: list[AppOffer | None] = [
            offer
            for offer in self._offers.offers.app_offers
            if not offer.barriers and offer.version.lifecycle == "Active"
        ]
        sheet = app_sheet([offer for offer in apps if offer is not None])
        plan = self._offers.allowance.plan
        if plan is not None and plan.model.spec.allow.image_registries:
            registries = ", ".join(plan.model.spec.allow.image_registries)
            sheet.add_row(*map(sanitize_value, ("your own image", "", "")), sanitize_sentence(f"from {registries}"))
            apps.append(None)
        if not apps:
            raise OperationRefused(f"{self._tenant} can run no app: `allot catalog --tenant {self._tenant}` shows why")
        names = [self._name_app(offer, apps) for offer in apps]
        chosen = choose("App", sheet, apps, names)
        if chosen is not None:
            return options._replace(app=f"{chosen.app.model.name}:{chosen.version.version}")
        options = options._replace(image=ask("Image, with its digest", None, lambda text: _parse(Image, text)))
        if not options.ports and (port := ask("HTTP port, or 0 for none", "8080", _check_port)) != "0":
            exposure = options.exposure or click.prompt("Who can open it", "Members", type=click.Choice(EXPOSURES))
            options = options._replace(ports=(port,), exposure=exposure)
        return options

    def _name_app(self, offer: AppOffer | None, offers: Sequence[AppOffer | None]) -> str:
        """Return the name of an app; with its version, as NAME:VERSION, if several versions are offered."""
        if offer is None:
            return "your own image"
        name = offer.app.model.name
        versions = [each for each in offers if each is not None and each.app.model.name == name]
        return name if len(versions) == 1 else f"{name}:{offer.version.version}"

    def _ask_storages(self, options: InstanceOptions) -> InstanceOptions:
        """Offer storages until the person wants no more."""
        if names := [
            storage.name for storage in self._list_storages(options.cluster) if self._is_used(storage, options)
        ]:
            click.echo(f"Mounted by a running instance, and for one instance at a time: {', '.join(names)}")
        volumes = self._list_volumes(options.cluster)
        if names := [storage.name for storage in volumes if storage.spec.deletion_policy == "Delete"]:
            click.echo(f"Marked for deletion, so not offered: {', '.join(names)}")
        while (chosen := self._ask_storage(options)) != options:
            options = chosen
        return options

    def _ask_storage(self, options: InstanceOptions) -> InstanceOptions:
        """Offer the storages in the cluster that are not chosen yet, and a new storage, or several if the app needs them."""
        mounted = {text.partition(":")[0] for text in options.storages}
        is_first = not (mounted or options.new_storages)
        unsaved = self._list_unsaved_folders(options)
        existing = [
            storage
            for storage in self._list_storages(options.cluster)
            if storage.name not in mounted and not self._is_used(storage, options)
        ]
        is_full = options.new_storages and (options.source or not unsaved)  # --source fills one new storage
        specs = [] if is_full else self._list_storage_specs(options)
        for folder in unsaved:
            click.echo(f"{describe_folder(folder)} is on no storage: each stop or restart erases it")
        if not existing and not specs:
            return options
        choices: list[GPUStorage | str] = ["", *existing, *(["new"] if specs else [])]
        sheet = Sheet("STORAGE", "SIZE", "NOTE", long=("NOTE",))
        for choice in choices:
            cells = (
                (
                    choice.name,
                    format_size(choice.spec.size),
                    choice.spec.display_name
                    or choice.spec.description
                    or f"your {choice.spec.storage_spec} in {choice.spec.cluster}",
                )
                if isinstance(choice, GPUStorage)
                else ("a new storage", "", "for models and other files")
                if choice
                else ("none", "", "")
            )
            sheet.add_row(*map(sanitize_value, cells))
        names = [choice.name if isinstance(choice, GPUStorage) else choice or "none" for choice in choices]
        default = len(choices) if specs and (unsaved or (is_first and not existing)) else 1
        chosen = choose("Storage" if is_first else "Another storage", sheet, choices, names, default)
        if not chosen:
            return options
        if isinstance(chosen, GPUStorage):
            return options._replace(storages=(*options.storages, f"{chosen.name}:{self._ask_path(options)}"))
        return self._ask_new_storage(options, specs)

    def _ask_new_storage(self, options: InstanceOptions, specs: Sequence[StorageOffer]) -> InstanceOptions:
        spec = self._choose_storage_spec(specs)
        new_names = {text.partition(":")[0] for text in options.new_storages}
        unsaved = self._list_unsaved_folders(options)
        folder = name_folder(unsaved[0].path) if unsaved else _DEFAULT_FOLDER
        default_name = self._find_free_name(f"{self._instance}-{folder}"[:DEFAULT_MAX_NAME_LENGTH], new_names)
        name = ask("Name of the storage", default_name, lambda text: self._check_new_name(text, new_names))
        size = _ask_size(spec)
        path = self._ask_path(options)
        source = options.source or ("" if new_names else _ask_source())
        storages = (*options.new_storages, f"{name}:{size}:{path}")
        return options._replace(new_storages=storages, storage_spec=spec.spec.model.name, source=source)

    def _choose_storage_spec(self, specs: Sequence[StorageOffer]) -> StorageOffer:
        if len(specs) == 1:
            return specs[0]
        names = _name_by_place([(offer.cluster, offer.spec.model.name) for offer in specs])
        return choose("Kind of storage", storage_sheet(specs, self._view), specs, names)

    def _ask_path(self, options: InstanceOptions) -> str:
        version, used_paths = self._find_version(options), _list_mount_paths(options)
        folders = [folder.path for folder in version.folders] if version else []
        if version and len(folders) > 1:
            click.echo(f"The app uses {', '.join(map(describe_folder, version.folders))}")
        unsaved = (folder.path for folder in self._list_unsaved_folders(options))
        numbered = (f"{_DEFAULT_PATH}-{number}" for number in itertools.count(2))
        paths = itertools.chain(unsaved, folders, [_DEFAULT_PATH], numbered)
        default = next(path for path in paths if path not in used_paths)

        def check(text: str) -> None:
            if _parse(MountPath, text) in used_paths:
                raise OperationRefused(f"{text} has a storage already: write another path")

        return ask("Path in the container", default, check)

    def _find_version(self, options: InstanceOptions) -> AppVersion | None:
        """Return the app version of an instance; by default the last version that the catalog offers."""
        name, _, version = options.app.partition(":")
        offers = [offer for offer in self._offers.offers.app_offers if offer.app.model.name == name]
        return next((each.version for each in reversed(offers) if version in ("", each.version.version)), None)

    def _list_unsaved_folders(self, options: InstanceOptions) -> list[AppFolder]:
        version = self._find_version(options)
        return filter_unsaved_folders(version, _list_mount_paths(options)) if version else []

    def _list_storages(self, cluster: str) -> list[GPUStorage]:
        return [storage for storage in self._list_volumes(cluster) if storage.spec.deletion_policy != "Delete"]

    def _list_volumes(self, cluster: str) -> list[GPUStorage]:
        scope = Scope("tenant", self._tenant)
        names = self._declarations.list_names(GPUStorage, scope)
        storages = [self._declarations.find(GPUStorage, scope, name).model for name in names]
        offers = self._offers.offers.storage_offers
        volumes = {offer.spec.model.name for offer in offers if offer.spec.model.spec.volume is not None}
        return [
            storage for storage in storages if storage.spec.cluster == cluster and storage.spec.storage_spec in volumes
        ]

    def _is_used(self, storage: GPUStorage, options: InstanceOptions) -> bool:
        """Return whether the new instance can't run on a storage, because a running instance mounts it."""
        allowance = self._offers.allowance
        if options.stopped or not is_single_writer(allowance.catalog, storage):
            return False
        return bool(list_running_users(allowance.declarations, storage.name))

    def _list_storage_specs(self, options: InstanceOptions) -> list[StorageOffer]:
        """Return the usable StorageSpecs of volumes in the cluster of an instance, the proposed StorageSpec first."""
        offers = [
            offer
            for offer in self._list_usable_storages(options.cluster, options.storage_spec)
            if offer.cluster == options.cluster and offer.spec.model.spec.volume is not None
        ]
        return sorted(offers, key=lambda offer: rank_access(offer.spec.model.spec.access))

    def _list_usable_storages(self, cluster: str, storage_spec: str) -> list[StorageOffer]:
        """Return the StorageSpecs that the tenant can use. An empty name stands for all."""
        return [
            offer
            for offer in self._offers.offers.storage_offers
            if not offer.barriers and cluster in ("", offer.cluster) and storage_spec in ("", offer.spec.model.name)
        ]

    def _find_free_name(self, name: str, new_names: Collection[str]) -> str:
        """Return the name for a new storage, with a number if another storage has the name."""
        names = {*new_names, *self._declarations.list_names(GPUStorage, Scope("tenant", self._tenant))}
        numbered = (f"{name}-{number}" for number in itertools.count(2))
        return next(free for free in itertools.chain([name], numbered) if free not in names)

    def _check_new_name(self, text: str, new_names: Collection[str]) -> None:
        if wrong := name_error(text, DEFAULT_MAX_NAME_LENGTH):
            raise OperationRefused(wrong)
        if text in new_names or text in self._declarations.list_names(GPUStorage, Scope("tenant", self._tenant)):
            raise OperationRefused(f"{text} exists already: choose another name")


def _name_by_place(places: Sequence[tuple[str, str]]) -> list[str]:
    """Return the names of offers; with their clusters, as CLUSTER/NAME, if the offers are in several clusters."""
    is_single = len({cluster for cluster, _ in places}) == 1
    return [name if is_single else f"{cluster}/{name}" for cluster, name in places]


def _list_mount_paths(options: InstanceOptions) -> set[str]:
    return {text.split(":")[1] for text in options.storages} | {text.split(":")[2] for text in options.new_storages}


def _ask_size(offer: StorageOffer) -> str:
    limits = offer.spec.model.spec.size

    def check(text: str) -> None:
        if not limits.min <= _parse(Size, text) <= limits.max:
            raise OperationRefused(f"write a size from {format_size(limits.min)} to {format_size(limits.max)}")

    default = min(max(_parse(Size, _DEFAULT_SIZE), limits.min), limits.max)
    return ask("Size", format_size(default), check)


def _ask_source() -> str:
    return ask("Source, such as hf:OWNER/MODEL/FILE#sha256=HASH (empty: none)", "", _check_source)


def _parse(annotation: Any, text: str) -> Any:
    return TypeAdapter(annotation).validate_python(text)


def _check_port(text: str) -> None:
    if not (text.isdecimal() and int(text) <= 65535):
        raise OperationRefused("write a number from 1 to 65535, or 0 for none")


def _check_source(text: str) -> None:
    if text:
        parse_source(text)
