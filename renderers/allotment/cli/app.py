"""`allot app`: adds apps from the built-in catalog or from an image, pins new versions, and deprecates versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from allotment.cli.app_list import list_all
from allotment.cli.change_options import ChangeOptions, change_options
from allotment.cli.change_run import run_change
from allotment.cli.completers import complete_apps, complete_catalog_apps
from allotment.cli.edit_commands.field_options import run_field_change
from allotment.cli.options import WholeNumber
from allotment.cli.subcommand_group import SubcommandGroup
from allotment.problems import OperationRefused, quote_value

if TYPE_CHECKING:
    from allotment.edits.change_set import ChangeSet
    from allotment.edits.declarations import Declarations
    from allotment.starter.apps import CatalogApp, ImageSettings


class _AppImage(NamedTuple):
    """An image as the command line names it. `resolve` returns it with its digest."""

    text: str
    resolve: Callable[[], str]


_IMAGE_OPTIONS = {
    "display_name": "--display-name",
    "port": "--port",
    "ready_path": "--ready-path",
    "exposure": "--exposure",
    "arguments": "--arg",
    "folders": "--folder",
    "shm_size": "--shm-size",
}
_INPUTS_BY_FIELD = {
    "spec.displayName": "--display-name",
    "spec.versions[].version": "--version",
    "spec.versions[].folders": "--folder",
    "spec.versions[].container.args": "--arg",
    "spec.versions[].container.probe.httpGet.path": "--ready-path",
    "spec.versions[].container.shmSize": "--shm-size",
}


@click.group(cls=SubcommandGroup)
def command() -> None:
    """Offer apps to tenants: add an app, pin a new version of its image, and deprecate a version.

    \b
    Examples:
      allot app list
      allot app add jupyter
      allot app pin vllm vllm/vllm-openai:v0.28.1
      allot app deprecate vllm 0.28.0
    """


@command.command("add")
@click.argument("name", metavar="NAME", shell_complete=complete_catalog_apps)
@click.option(
    "--from",
    "entry",
    metavar="ENTRY",
    shell_complete=complete_catalog_apps,
    help="The app of the built-in catalog, as `allot app list` shows it. Default: NAME, unless --image is given.",
)
@click.option(
    "--image",
    metavar="IMAGE:TAG",
    help="The image. With --from, it replaces the image of the catalog, for example by a copy in your registry.",
)
@click.option("--version", metavar="NAME", help="The name of the version. Default: that of the catalog, or the tag.")
@click.option("--display-name", metavar="TEXT", help="The name that people see.")
@click.option("--port", type=WholeNumber(1, 65535), metavar="NUMBER", help="The port of its web interface.")
@click.option("--ready-path", metavar="PATH", help="The path that answers once the app is ready, such as /health.")
@click.option(
    "--exposure",
    type=click.Choice(["Namespace", "Members", "Public"]),
    help="The people or pods that can connect to the port. Default: Members.",
)
@click.option("--arg", "arguments", multiple=True, metavar="TEXT", help="An argument of the container. Repeatable.")
@click.option("--folder", "folders", multiple=True, metavar="PATH", help="A folder for a storage. Repeatable.")
@click.option("--shm-size", metavar="SIZE", help="The size of /dev/shm, such as 2Gi.")
@change_options
def add(
    *,
    name: str,
    entry: str | None,
    image: str | None,
    version: str | None,
    options: ChangeOptions,
    **settings: Any,
) -> None:
    """Declare an app from the built-in catalog, or from an image.

    The command asks the registry of the image for the digest of the tag, and writes the image with both. The logins of
    `docker login` are used, except those of credential helpers. An image with a digest, IMAGE:TAG@sha256:…, needs no
    registry.

    Exit status: 0 success, 2 the app exists, or a value is wrong, or the registry gives no digest.

    \b
    Examples:
      allot app add jupyter
      allot app add chat --from vllm --image registry.example/mirror/vllm-openai:v0.28.0 --commit
      allot app add whisper --image registry.example/apps/whisper:1.0.0 --port 8000 --ready-path /health --folder /models
    """
    wrong = [option for key, option in _IMAGE_OPTIONS.items() if settings[key]]
    catalog_app = _choose_entry(name, entry, image)
    if catalog_app is not None and wrong:
        raise click.UsageError(f"{wrong[0]}: only with --image and without --from, because the catalog has its own")
    if not settings["port"] and (settings["ready_path"] or settings["exposure"]):
        raise click.UsageError(f"{'--ready-path' if settings['ready_path'] else '--exposure'}: add --port NUMBER")
    text = image or (catalog_app.image if catalog_app else "")
    app_image = _AppImage(
        text, _create_resolver(options, text, f"{'' if entry or image else f'--from {name} '}--image")
    )
    run_field_change(
        options,
        lambda declarations: _build_app(declarations, name, catalog_app, app_image, version, settings),
        _INPUTS_BY_FIELD,
    )


def _create_resolver(options: ChangeOptions, image: str, option: str) -> Callable[[], str]:
    """Return a function that returns an image with its digest. It asks the registry at the first call only.

    Raises OperationRefused if the options have an operation ID, and the image has no digest: the tag may move before the
    command is repeated. `option` precedes the image on the command line.
    """
    import functools

    from allotment.adapters.registry.client import resolve_image
    from allotment.adapters.registry.connection import RegistryUnreachable
    from allotment.declared.image_reference import parse_image_reference

    reference = parse_image_reference(image)
    example = f"'{f'{option} {image}@sha256:DIGEST'.strip()}'"  # as a whole, so that a person can copy it
    if options.operation_id and not reference.digest:
        raise OperationRefused(
            f"the image {quote_value(image)} has no digest, and a repeat with --operation-id could get another digest of the"
            f" tag: write {example}"
        )

    def resolve() -> str:
        try:
            return resolve_image(image)
        except RegistryUnreachable as error:
            raise OperationRefused(f"{error}: {example} in the same command needs no registry") from None

    return functools.cache(resolve)


def _choose_entry(name: str, entry: str | None, image: str | None) -> CatalogApp | None:
    """Return the app of the catalog that the arguments name, or None for an image of its own."""
    from allotment.declared.reading import suggest_name
    from allotment.starter.apps import APPS

    if entry is None and image is not None:
        return None
    if (entry or name) not in APPS:
        remedy = "" if entry else ": add --image IMAGE:TAG to declare it from an image"
        raise OperationRefused(
            f"the catalog has no app {quote_value(entry or name)}{remedy}{suggest_name(entry or name, APPS)}"
        )
    return APPS[entry or name]


def _build_app(
    declarations: Declarations,
    name: str,
    catalog_app: CatalogApp | None,
    image: _AppImage,
    version: str | None,
    settings: dict[str, Any],
) -> ChangeSet:
    from allotment.declared.image_reference import parse_image_reference
    from allotment.declared.kinds.app import App
    from allotment.declared.layout import PLATFORM
    from allotment.edits.app_edits import add_app, version_of_tag
    from allotment.starter.apps import ImageSettings, app_spec, image_spec

    declarations.create_path(App, PLATFORM, name)  # before the registry is asked
    tag = parse_image_reference(image.text).tag
    if catalog_app is not None:
        is_own_tag = tag == parse_image_reference(catalog_app.image).tag
        name_of_version = version or (catalog_app.version if is_own_tag else version_of_tag(tag))
        return add_app(declarations, name, app_spec(catalog_app, image.resolve(), name_of_version))
    name_of_version = version or version_of_tag(tag)
    spec = image_spec(
        image.resolve(), name_of_version, _image_settings(ImageSettings, settings), settings["display_name"] or ""
    )
    change = add_app(declarations, name, spec)
    return change._replace(notes=(*change.notes, *_list_dropped_settings(name, settings)))


def _list_dropped_settings(name: str, settings: dict[str, Any]) -> Iterator[str]:
    """Yield a note about the port and the folders of the built-in app with this name, if the new App lacks them."""
    from allotment.starter.apps import APPS

    if name not in APPS:
        return
    app = APPS[name]
    ports = [] if settings["port"] else [f"port {port['containerPort']}" for port in app.container["ports"]]
    folders = [f"folder {path}" for path in app.folders if path not in settings["folders"]]
    if dropped := [*ports, *folders]:
        yield (
            f"The App has only the values of your options, without those of the built-in app {name}: {', '.join(dropped)}."
            f" To keep them, run the command with --from {name}."
        )


def _image_settings(kind: type[ImageSettings], settings: dict[str, Any]) -> ImageSettings:
    return kind(
        port=settings["port"] or 0,
        ready_path=settings["ready_path"] or "",
        exposure=settings["exposure"] or "Members",
        arguments=settings["arguments"],
        folders=settings["folders"],
        shm_size=settings["shm_size"] or "",
    )


@command.command("pin")
@click.argument("name", metavar="APP", shell_complete=complete_apps)
@click.argument("image", metavar="IMAGE:TAG")
@click.option("--version", metavar="NAME", help="The name of the new version. Default: the tag, without a leading v.")
@click.option(
    "--like",
    metavar="VERSION",
    help="An existing version. The command copies its container. Default: the newest version.",
)
@change_options
def pin(*, name: str, image: str, version: str | None, like: str | None, options: ChangeOptions) -> None:
    """Add a version of an app with another image, and with the arguments, ports and folders of an existing version.

    The command asks the registry for the digest of the tag. The existing versions and their instances stay as they are,
    because the container of a merged version can't change.

    Exit status: 0 success, 2 the version exists, or a value is wrong, or the registry gives no digest.

    \b
    Examples:
      allot app pin vllm vllm/vllm-openai:v0.28.1
      allot app pin jupyter quay.io/jupyter/pytorch-notebook:cuda12-2026-10-05 --version 2026-10-05 --push
    """

    resolve = _create_resolver(options, image, "")

    def build(declarations: Declarations) -> ChangeSet:
        from allotment.declared.image_reference import parse_image_reference
        from allotment.declared.kinds.app import App
        from allotment.declared.layout import PLATFORM
        from allotment.edits.app_edits import pin_version

        declarations.find(App, PLATFORM, name)  # before the registry is asked
        resolved = parse_image_reference(resolve())
        return pin_version(declarations, name, resolved, version=version or "", like=like or "")

    run_field_change(options, build, _INPUTS_BY_FIELD)


@command.command("deprecate")
@click.argument("name", metavar="APP", shell_complete=complete_apps)
@click.argument("version", metavar="[VERSION]", required=False)
@click.option("--replaced-by", metavar="VERSION", help="The version to use instead, which stays Active.")
@change_options
def deprecate(*, name: str, version: str | None, replaced_by: str | None, options: ChangeOptions) -> None:
    """Deprecate a version of an app, or all its versions: their users get a warning, and their instances keep running.

    Exit status: 0 success, 2 the app or the version does not exist.

    \b
    Examples:
      allot app deprecate vllm 0.28.0 --replaced-by 0.28.1
      allot app deprecate stable-diffusion-webui --commit
    """
    from allotment.edits.app_edits import deprecate_versions

    run_change(
        options,
        lambda declarations: deprecate_versions(declarations, name, version or "", replaced_by or ""),
    )


command.add_command(list_all)
