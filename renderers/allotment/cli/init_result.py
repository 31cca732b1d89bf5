"""`allot init`: prints the new repository, the values to fill in, and the next commands."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.options import print_note

if TYPE_CHECKING:
    from allotment.cli.init_catalog import CatalogFiles
    from allotment.starter.declarations import Cloud

BOOTSTRAP_COMMAND = (
    "allot bootstrap | kubectl apply --server-side --force-conflicts --filename -     # where Argo CD runs"
)


def print_result(
    folder: Path, cloud: Cloud, files: dict[str, bytes], *, catalog: CatalogFiles, sample: bool, style: str
) -> None:
    """Print the written files, the blanks to fill in, the images without a digest, and the next steps."""
    from allotment.starter.declarations import list_blanks

    remaining_blanks = [] if sample else list_blanks(cloud, files)
    commands = [
        f"cd {shlex.quote(str(folder))}",
        "allot validate",
        *_list_push_commands(folder, cloud),
        BOOTSTRAP_COMMAND,
    ]
    if style == "json":
        from allotment.reports import outputs
        from allotment.reports.outputs.init import BlankOutput, InitOutput, MissingImageOutput

        output = InitOutput(
            folder=str(folder),
            files=tuple(sorted(files)),
            blanks=tuple(
                BlankOutput(blank.path, blank.line, blank.field, blank.description) for blank in remaining_blanks
            ),
            next=tuple(commands),
            missing_images=tuple(MissingImageOutput(*image) for image in catalog.missing),
        )
        click.echo(outputs.as_json(output), nl=False)
        return
    print_note(
        f"{folder}: {'a sample cloud' if sample else 'a cloud with one cluster and no tenant'}, and CI for {cloud.forge}."
    )
    if remaining_blanks:
        print_note("\nReplace these values in this folder:")
        for blank in remaining_blanks:
            print_note(f"  {blank.path}:{blank.line}  {blank.field}  {blank.description}")
        print_note("\nREADME.md also has this list, with check boxes.")
    for image in catalog.missing:
        print_note(f"\n{image.image} is not declared: {image.reason}\nTo declare it later: {image.remedy}")
    if sample:
        print_note("\nIts people, hosts and images are examples: `allot validate` warns until you replace the hosts.")
    if shutil.which("allot") is None:
        print_note(f"\nTo call `allot`: export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH")
    print_note(
        "\n".join(["\nNext:", *(f"  {line}" for line in commands), f"\nCI publishes each push to {cloud.branch}."])
    )


def _list_push_commands(folder: Path, cloud: Cloud) -> list[str]:
    """Return the commands that push the new repository to the forge.

    If the folder is a clone, the commands add no remote, because a clone already has a remote.
    """
    begin = [f"git init --initial-branch {cloud.branch}", f"git remote add origin {cloud.url}"]
    is_clone = (folder / ".git").exists()
    return [
        *([] if is_clone else begin),
        "git add --all && git commit --message Begin",
        f"git push --set-upstream origin {cloud.branch}",
    ]
