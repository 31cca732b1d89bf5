"""Asks a person for the missing options of a new instance, with the offers that the tenant can use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from pydantic import TypeAdapter

from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.layout import DEFAULT_MAX_NAME_LENGTH, Scope, name_error
from allotment.declared.values import MountPath, Size, format_size
from allotment.edits.declarations import Declarations
from allotment.edits.instance_creation import EXPOSURES, InstanceOptions
from allotment.edits.option_values import OptionParser
from allotment.edits.storage_sources import parse_source
from allotment.problems import OperationRefused, escape_unprintable
from allotment.reports.catalog_tables import CatalogView, app_sheet, gpu_sheet, storage_sheet, tenant_facts
from allotment.reports.sheets import Sheet, print_output, sanitize_sentence, sanitize_value
from allotment.rules.availability import AppOffer, StorageOffer
from allotment.services.changes.tenant_offers import TenantOffers

T = TypeVar("T")
_DEFAULT_NAME, _DEFAULT_SIZE, _DEFAULT_PATH = "models", "50Gi", "/workspace"


def ask_instance_options(declarations: Declarations, options: InstanceOptions, offers: TenantOffers) -> InstanceOptions:
    """Return the options with the answers of a person. Given options are not asked for.

    Raises OperationRefused if the tenant can use no GPUSpec, or no app.
    """
    return _Questions(declarations, offers).complete(options)


class _Questions:
    """The questions about a new instance of a tenant."""

    def __init__(self, declarations: Declarations, offers: TenantOffers) -> None:
        self._declarations, self._offers = declarations, offers
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
            options = self._ask_storage(options)
        return options

    def _check_given_names(self, options: InstanceOptions) -> None:
        parser = OptionParser()
        if options.cluster:
            clusters = self._declarations.list_scopes("cluster")
            parser.check_name("--cluster", options.cluster, clusters, "no cluster is named")
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
        chosen = _choose("GPU", gpu_sheet(usable, self._view), usable)
        return options._replace(cluster=chosen.cluster, gpu_spec=chosen.spec.model.name)

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
        chosen = _choose("App", sheet, apps)
        if chosen is not None:
            return options._replace(app=f"{chosen.app.model.name}:{chosen.version.version}")
        options = options._replace(image=click.prompt("Image, with its digest"))
        if not options.ports and (port := _ask("HTTP port, or 0 for none", "8080", _check_port)) != "0":
            exposure = options.exposure or click.prompt("Who can open it", "Members", type=click.Choice(EXPOSURES))
            options = options._replace(ports=(port,), exposure=exposure)
        return options

    def _ask_storage(self, options: InstanceOptions) -> InstanceOptions:
        """Offer the storages in the cluster, and a new storage."""
        existing = self._list_storages(options.cluster)
        specs = self._list_storage_specs(options)
        if not existing and not specs:
            return options
        choices: list[GPUStorage | str] = ["", *existing, *(["new"] if specs else [])]
        sheet = Sheet("STORAGE", "SIZE", "NOTE", long=("NOTE",))
        for choice in choices:
            cells = (
                (
                    choice.name,
                    format_size(choice.spec.size),
                    f"your {choice.spec.storage_spec} in {choice.spec.cluster}",
                )
                if isinstance(choice, GPUStorage)
                else ("a new storage", "", "for models and other files")
                if choice
                else ("none", "", "")
            )
            sheet.add_row(*map(sanitize_value, cells))
        chosen = _choose("Storage", sheet, choices, default=1 if existing or not specs else len(choices))
        if not chosen:
            return options
        if isinstance(chosen, GPUStorage):
            return options._replace(storages=(f"{chosen.name}:{self._ask_path(options)}",))
        return self._ask_new_storage(options, specs)

    def _ask_new_storage(self, options: InstanceOptions, specs: Sequence[StorageOffer]) -> InstanceOptions:
        spec = specs[0] if len(specs) == 1 else _choose("Kind of storage", storage_sheet(specs, self._view), specs)
        least = spec.spec.model.spec.size.min
        name = _ask("Name of the storage", _DEFAULT_NAME, self._check_new_name)
        default_size = max(_parse(Size, _DEFAULT_SIZE), least)
        size = _ask("Size", format_size(default_size), lambda text: _parse(Size, text))
        path = self._ask_path(options)
        source = options.source or _ask(
            "Source, such as hf:OWNER/MODEL/FILE#sha256=HASH (empty: none)", "", _check_source
        )
        return options._replace(
            new_storages=(f"{name}:{size}:{path}",), storage_spec=spec.spec.model.name, source=source
        )

    def _ask_path(self, options: InstanceOptions) -> str:
        name, _, version = options.app.partition(":")
        folders = [
            folder.path
            for offer in self._offers.offers.app_offers
            if offer.app.model.name == name and version in ("", offer.version.version)
            for folder in offer.version.folders
        ]
        if len(folders) > 1:
            click.echo(f"The app uses {', '.join(folders)}")
        return _ask("Path in the container", (folders or [_DEFAULT_PATH])[0], lambda text: _parse(MountPath, text))

    def _list_storages(self, cluster: str) -> list[GPUStorage]:
        scope = Scope("tenant", self._tenant)
        names = self._declarations.list_names(GPUStorage, scope)
        storages = [self._declarations.find(GPUStorage, scope, name).model for name in names]
        return [storage for storage in storages if storage.spec.cluster == cluster]

    def _list_storage_specs(self, options: InstanceOptions) -> list[StorageOffer]:
        return [
            offer
            for offer in self._offers.offers.storage_offers
            if not offer.barriers
            and offer.cluster == options.cluster
            and offer.spec.model.spec.volume is not None
            and options.storage_spec in ("", offer.spec.model.name)
        ]

    def _check_new_name(self, text: str) -> None:
        if wrong := name_error(text, DEFAULT_MAX_NAME_LENGTH):
            raise OperationRefused(wrong)
        if text in self._declarations.list_names(GPUStorage, Scope("tenant", self._tenant)):
            raise OperationRefused(f"{text} exists already: choose another name")


def _choose(title: str, sheet: Sheet, choices: Sequence[T], default: int = 1) -> T:
    """Print numbered choices, and return the choice of a person."""
    click.echo()
    print_output(sheet.with_numbers())
    number: int = click.prompt(f"{title} (1 to {len(choices)})", default, type=click.IntRange(1, len(choices)))
    return choices[number - 1]


def _ask(question: str, default: str, check: Callable[[str], object]) -> str:
    """Return the answer to a question. Ask again while `check` raises an expected error."""

    def convert(text: str) -> str:
        try:
            check(text)
        except (OperationRefused, ValueError) as error:
            raise click.UsageError(escape_unprintable(_first_message(error), 400)) from None
        return text

    answer: str = click.prompt(question, default, value_proc=convert)
    return answer


def _first_message(error: Any) -> str:
    errors = getattr(error, "errors", None)
    return str(errors(include_url=False)[0]["msg"]) if errors is not None else str(error)


def _parse(annotation: Any, text: str) -> Any:
    return TypeAdapter(annotation).validate_python(text)


def _check_port(text: str) -> None:
    if not (text.isdecimal() and int(text) <= 65535):
        raise OperationRefused("write a number from 1 to 65535, or 0 for none")


def _check_source(text: str) -> None:
    if text:
        parse_source(text)
