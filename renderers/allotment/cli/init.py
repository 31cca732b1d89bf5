"""`allot init`: creates a repository of declarations for a platform team."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.adapters.checkout_paths import refuse_committed_links
from allotment.cli.init_catalog import (
    CatalogChoice,
    CatalogFiles,
    ask_choice,
    build_catalog_files,
    catalog_options,
    check_choice,
)
from allotment.cli.init_files import build_generated_files, read_files_below
from allotment.cli.init_questions import QUESTIONS
from allotment.cli.init_result import print_result
from allotment.cli.options import find_sample_folder, output_option
from allotment.cli.prompts import prompt_value
from allotment.declared.forges import FORGES
from allotment.problems import OperationRefused, pluralize, quote_value

if TYPE_CHECKING:
    from allotment.starter.declarations import Cloud
    from allotment.starter.program import Program

ALLOWED_ENTRIES = {".git"}  # entries that the folder may have before `allot init`
SAMPLE_FOLDERS = ("platform", "clusters", "tenants")
# With --sample, these options are refused, because the sample cloud has its own values.
_CLOUD_OPTIONS = ("cluster", "domain", "oidc_issuer", "admin")


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--program", metavar="SOURCE", help=f"{QUESTIONS['program'].text}.")
@click.option("--forge", type=click.Choice(list(FORGES), case_sensitive=False), help=f"{QUESTIONS['forge'].text}.")
@click.option("--url", metavar="URL", help=f"{QUESTIONS['url'].text}.")
@click.option("--branch", default="main", show_default=True, metavar="NAME", help="The branch of merged declarations.")
@click.option("--cluster", metavar="NAME", help=f"{QUESTIONS['cluster'].text}, such as eu-1.")
@click.option("--domain", metavar="DOMAIN", help="Instances are served at https://NAME--TENANT.CLUSTER.DOMAIN.")
@click.option("--oidc-issuer", metavar="URL", help=f"{QUESTIONS['oidc_issuer'].text}.")
@click.option("--admin", metavar="LOGIN", help=f"{QUESTIONS['admin'].text}.")
@click.option("--currency", metavar="CODE", help="The currency of prices. It cannot change later. Default: EUR.")
@click.option(
    "--time-zone", metavar="ZONE", help="The time zone of billing days. It cannot change later. Default: UTC."
)
@catalog_options
@click.option(
    "--docs-url",
    metavar="URL",
    help="The URL of the documentation for the README. Default: the folder docs/ of a Git --program.",
)
@click.option(
    "--upgrade",
    is_flag=True,
    help="Update the generated files of the repository DIR to this version: schemas, CI, hooks, pins.",
)
@click.option("--dry-run", is_flag=True, help="With --upgrade: only show the difference.")
@click.option("--sample", is_flag=True, help="Write a sample cloud with seven tenants instead.")
@output_option()
def command(
    *,
    folder: Path,
    sample: bool,
    branch: str,
    style: str,
    docs_url: str | None,
    upgrade: bool,
    dry_run: bool,
    apps: tuple[str, ...],
    add_ons: tuple[str, ...],
    files_image: str | None,
    **options: str | None,
) -> None:
    """Write a repository of declarations to begin with: one cluster, one GPU spec, one plan, no tenant, and CI.

    DIR is empty, or a clone of an empty repository; nothing is overwritten. On a terminal the command asks for each
    missing option, and then for apps and add-ons. It ends with a list of values to fill in, and with the next commands.

    An app and the file server are declared with the digest that their registry has now. If a registry gives no answer, the
    command leaves the image out, and says how to declare it later.

    With --upgrade, DIR is an existing repository. The command updates the files that nobody edits by hand, and shows the
    difference. It refuses to overwrite a file with uncommitted changes.

    \b
    Examples:
      allot init gpus
      allot init gpus --program 'allotment @ git+https://git.example.com/allotment@COMMIT' --forge github
        --url https://github.com/acme/gpus --cluster eu-1 --domain gpu.acme.dev
        --oidc-issuer https://id.acme.dev --admin alice --app jupyter --app vllm
        --add-on cert-manager --add-on envoy-gateway --add-on nvidia-device-plugin
      allot init --upgrade . --program 'allotment @ git+https://git.example.com/allotment@COMMIT'
    """
    from allotment.starter.program import parse_program

    choice = CatalogChoice(apps, add_ons, files_image or "")
    check_choice(choice, new_cloud=not (upgrade or sample))
    if upgrade:
        from allotment.cli.init_upgrade import upgrade_repository

        upgrade_repository(folder, options, sample=sample, dry_run=dry_run, style=style)
        return
    if dry_run:
        raise click.UsageError("--dry-run: only with --upgrade")
    if sample and (extra := [name for name in (*_CLOUD_OPTIONS, "currency", "time_zone") if options[name]]):
        raise click.UsageError(f"{_format_option(extra[0])}: the sample has its own")
    existing_names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    if conflicts := [name for name in existing_names if name not in ALLOWED_ENTRIES]:
        raise OperationRefused(f"{quote_value(str(folder))} holds {quote_value(conflicts[0])}: name an empty folder")
    if not options["program"] and not _has_terminal():
        options["program"] = find_default_answer("program")
    missing = _find_missing_names(branch, options, sample)
    if missing:
        count = len(missing) + (0 if sample else sum(not part for part in choice))
        click.echo(
            f"Answer {pluralize(count, 'question')} (? explains each), and the command writes the repository to"
            f" {quote_value(str(folder))}."
        )
    for name in missing:
        _ask_value(name, branch, options, sample)
    program, cloud = parse_program(options["program"] or ""), _build_cloud(branch, options)
    catalog = build_catalog_files(ask_choice(choice) if missing and not sample else choice)
    files = _build_files(program, cloud, sample, docs_url, catalog)
    _write_files(folder, files)
    print_result(folder, cloud, files, catalog=catalog, sample=sample, style=style)


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _format_option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _list_choices(name: str) -> str:
    return f" ({', '.join(FORGES)})" if name == "forge" else ""


def _find_missing_names(branch: str, options: dict[str, str | None], sample: bool) -> list[str]:
    """Return the names of the required options without a value.

    Raises UsageError if an option is invalid. Without a terminal, also raises UsageError if an option is missing.
    """
    required_names = QUESTIONS.keys() - (_CLOUD_OPTIONS if sample else ())
    missing = [name for name in QUESTIONS if name in required_names and not options[name]]
    wrong = [
        f"{_format_option(name)}: {message}"
        for name, message in _find_wrong_values(branch, options, sample)
        if name not in missing
    ]
    if missing and not _has_terminal():
        lacks = [
            "these options are missing:",
            *(f"  {_format_option(name)}: {QUESTIONS[name].text}{_list_choices(name)}" for name in missing),
        ]
        raise click.UsageError(
            "\n".join([*lacks, *(["these options are invalid:", *(f"  {line}" for line in wrong)] if wrong else [])])
        )
    if wrong:
        raise click.UsageError("\n".join(wrong))
    return missing


def _ask_value(name: str, branch: str, options: dict[str, str | None], sample: bool) -> None:
    """Ask a person for a value until it is valid, and store it in `options`."""
    choice = click.Choice(list(FORGES), case_sensitive=False)

    def right(text: str) -> str:
        options[name] = choice.convert(text, None, None) if name == "forge" else text
        for option, message in _find_wrong_values(branch, options, sample):
            if option == name:
                raise click.UsageError(message)
        return text

    question, explanation = QUESTIONS[name]
    prompt_value(f"{question}{_list_choices(name)}", explanation, right, find_default_answer(name))


def find_default_answer(name: str) -> str | None:
    """Return the default answer to a question, or None.

    For `program`, the default is the source from which the running program was installed, if this source is pinned: a
    commit that the remote of the checkout has, the commit of a Git URL, or a wheel with its hash.
    """
    if name != "program":
        return "eu-1" if name == "cluster" else None
    from allotment.adapters.installed import installed_address
    from allotment.starter.program import parse_program

    try:
        return parse_program(installed_address()).address_text
    except ValueError:
        return None


def _build_cloud(branch: str, options: dict[str, str | None]) -> Cloud:
    from allotment.declared.layout import MAX_NAME_LENGTHS, name_error
    from allotment.starter.declarations import Cloud

    cluster, domain = options["cluster"] or "", options["domain"] or ""
    # Leave an invalid cluster name out of the domain. Otherwise, the domain would also be reported as invalid.
    above = "" if name_error(cluster, MAX_NAME_LENGTHS["cluster"]) else f"{cluster}."
    return Cloud(
        forge=options["forge"] or "",
        url=options["url"] or "",
        branch=branch,
        cluster=cluster,
        domain=domain if domain.startswith(above) else f"{above}{domain}",
        issuer=options["oidc_issuer"] or "",
        admin=options["admin"] or "",
        currency=options["currency"] or "EUR",
        time_zone=options["time_zone"] or "UTC",
    )


def _find_wrong_values(branch: str, options: dict[str, str | None], sample: bool) -> list[tuple[str, str]]:
    """Return the name of each option with an invalid or missing value, and the reason."""
    from allotment.starter.declarations import invalid_values
    from allotment.starter.program import parse_program

    problems: list[tuple[str, str]] = []
    try:
        parse_program(options["program"] or "")
    except ValueError as error:
        problems.append(("program", str(error)))
    domain = options["domain"] or ""
    if domain and "." not in domain and not sample:
        problems.append(("domain", f"{quote_value(domain)} has no dot: write a domain of yours, such as gpu.acme.dev"))
    cloud = _build_cloud(branch, options)
    scheme_message = f"{quote_value(domain)} has a scheme: write the domain without it, such as gpu.acme.dev"
    return [
        *problems,
        *(
            (name, scheme_message)
            if name == "domain" and "://" in domain
            else (name, message.replace(quote_value(cloud.domain), quote_value(domain)))
            for name, message in invalid_values(cloud, sample=sample)
        ),
    ]


def _build_files(
    program: Program, cloud: Cloud, sample: bool, docs_url: str | None, catalog: CatalogFiles
) -> dict[str, bytes]:
    """Return all files of the repository, by path."""
    from allotment.starter.declarations import list_blanks, sample_platform, starter_declarations
    from allotment.starter.repository import tenants_page

    source = find_sample_folder()
    files: dict[str, bytes] = {}
    if sample:
        files |= {f"{name}/{path}": data for name in SAMPLE_FOLDERS for path, data in read_files_below(source / name)}
        files["platform/platform.yaml"] = sample_platform(files["platform/platform.yaml"], cloud)
    else:
        files |= starter_declarations(cloud, catalog.files_image) | catalog.files
        files["tenants/README.md"] = tenants_page(cloud.admin)
    remaining_blanks = [] if sample else list_blanks(cloud, files)
    return files | build_generated_files(cloud.forge, cloud.url, cloud.branch, program, remaining_blanks, docs_url)


def _write_files(folder: Path, files: dict[str, bytes]) -> None:
    """Write all files to a temporary folder, then move them to `folder`. If a write fails, no file stays behind."""
    refuse_committed_links(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".allot-init-", dir=folder) as place:
        for path, data in files.items():
            (Path(place) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(place) / path).write_bytes(data)
        for entry in sorted(Path(place).iterdir()):
            os.rename(entry, folder / entry.name)
