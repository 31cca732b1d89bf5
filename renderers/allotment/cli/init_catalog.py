"""`allot init`: the apps, the add-ons and the file server that a new cloud starts with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from allotment.cli.completers import complete_catalog_apps, complete_first_add_ons
from allotment.cli.options import find_sample_folder
from allotment.cli.prompts import prompt_value
from allotment.problems import OperationRefused, quote_value

_NONE = "none"


class CatalogChoice(NamedTuple):
    """The choice of a team: names of catalog apps, names of add-ons, and the image of the file server, or empty."""

    apps: tuple[str, ...] = ()
    add_ons: tuple[str, ...] = ()
    files_image: str = ""


class MissingImage(NamedTuple):
    """An image without a digest, with the reason, and the way to declare it later."""

    image: str
    reason: str
    remedy: str


class CatalogFiles(NamedTuple):
    """The files of a choice, the image of the file server with its digest or empty, and the images without a digest."""

    files: dict[str, bytes]
    files_image: str
    missing: list[MissingImage]


def catalog_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options --app, --add-on and --files-image to a command."""
    for option in (
        click.option(
            "--files-image",
            metavar="IMAGE:TAG",
            help="The image of dufs, which shows the files of storages, such as docker.io/sigoden/dufs:v0.46.0.",
        ),
        click.option(
            "--add-on",
            "add_ons",
            multiple=True,
            metavar="NAME",
            shell_complete=complete_first_add_ons,
            help="An add-on for the cluster: cert-manager, envoy-gateway or nvidia-device-plugin. Repeatable.",
        ),
        click.option(
            "--app",
            "apps",
            multiple=True,
            metavar="NAME",
            shell_complete=complete_catalog_apps,
            help="An app to offer, as `allot app list` shows them. Its registry is asked for the digest. Repeatable.",
        ),
    ):
        function = option(function)
    return function


def check_choice(choice: CatalogChoice, *, new_cloud: bool) -> None:
    """Raise UsageError for an invalid choice, or for any choice if the command does not write a new cloud."""
    from allotment.declared.image_reference import parse_image_reference
    from allotment.starter.apps import APPS, FIRST_ADD_ONS

    for option, names in (("--app", choice.apps), ("--add-on", choice.add_ons), ("--files-image", choice.files_image)):
        if names and not new_cloud:
            raise click.UsageError(f"{option}: only for a new cloud, so neither with --sample nor with --upgrade")
    _check_names("--app", choice.apps, APPS)
    _check_names("--add-on", choice.add_ons, FIRST_ADD_ONS)
    if choice.files_image:
        try:
            parse_image_reference(choice.files_image)
        except OperationRefused as error:
            raise click.UsageError(f"--files-image: {error}") from None


def _check_names(option: str, names: Sequence[str], allowed: Sequence[str] | Any) -> None:
    if unknown := next((name for name in names if name not in allowed), None):
        raise click.UsageError(f"{option}: {quote_value(unknown)} is not one of {', '.join(allowed)}")


def ask_choice(choice: CatalogChoice) -> CatalogChoice:
    """Ask a person for each part of the choice that no option has. The word `none` declines."""
    from allotment.starter.apps import APPS, FILES_IMAGE, FIRST_ADD_ONS

    apps = choice.apps or _ask_words(
        f"The apps to offer ({', '.join(APPS)}; or {_NONE})",
        "Programs that tenants can start at once. Each becomes a file below platform/apps. `allot app list` shows them all.",
        "jupyter",
        lambda words: CatalogChoice(apps=words),
    )
    add_ons = choice.add_ons or _ask_words(
        f"The add-ons that the cluster lacks (or {_NONE})",
        "Argo CD installs them: cert-manager for certificates, Envoy Gateway for the addresses of instances, and the device"
        " plugin for GPUs. Leave out an add-on that the cluster already has.",
        " ".join(FIRST_ADD_ONS),
        lambda words: CatalogChoice(add_ons=words),
    )
    images = (
        (choice.files_image,)
        if choice.files_image
        else _ask_words(
            f"The image of the file server of storages (or {_NONE})",
            "The container image that shows the files of a storage as a web page, and lets tenants copy shared storages.",
            FILES_IMAGE,
            lambda words: CatalogChoice(files_image=" ".join(words)),
        )
    )
    return CatalogChoice(apps, add_ons, "".join(images))


def _ask_words(
    question: str, explanation: str, default: str, choose: Callable[[tuple[str, ...]], CatalogChoice]
) -> tuple[str, ...]:
    """Ask until the words of the answer are a valid choice, and return them."""

    def read(text: str) -> tuple[str, ...]:
        words = tuple(text.replace(",", " ").split())
        words = () if words == (_NONE,) else words
        check_choice(choose(words), new_cloud=True)
        return words

    return prompt_value(question, explanation, read, default)


def build_catalog_files(choice: CatalogChoice, resolve: Callable[[str], str] | None = None) -> CatalogFiles:
    """Return the files of a choice. `resolve` returns an image with its digest; by default, it asks the registry.

    If a registry gives no digest, the app or the file server is left out, and is in `missing`.
    """
    from allotment.adapters.registry.client import resolve_image
    from allotment.starter.apps import APPS, app_file, app_path

    resolve = resolve or resolve_image
    folder = find_sample_folder() / "platform/add-ons"
    files = {f"platform/add-ons/{name}.yaml": (folder / f"{name}.yaml").read_bytes() for name in choice.add_ons}
    missing: list[MissingImage] = []
    for name in dict.fromkeys(choice.apps):
        try:
            files[app_path(name)] = app_file(APPS[name], resolve(APPS[name].image))
        except OperationRefused as error:
            missing.append(MissingImage(APPS[name].image, str(error), f"allot app add {name}"))
    files_image = ""
    if choice.files_image:
        try:
            files_image = resolve(choice.files_image)
        except OperationRefused as error:
            remedy = "write `images.files` below `spec:` in platform/platform.yaml, with the digest"
            missing.append(MissingImage(choice.files_image, str(error), remedy))
    return CatalogFiles(files, files_image, missing)
