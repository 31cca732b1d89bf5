"""`allot secret list` and `show`: the declared secrets of tenants, without their values."""

from __future__ import annotations

from pathlib import Path

import click

from allotment.cli.completers import create_resource_completer
from allotment.cli.edit_commands.field_options import require_resource_name
from allotment.cli.list_options import list_output_options, open_merged_source, print_rows, tenant_filter
from allotment.cli.options import output_option, repository_option


@click.command("list")
@tenant_filter
@list_output_options
@repository_option
def command(*, tenants: tuple[str, ...], sort_by: str | None, style: str, repo: Path | None) -> None:
    """List secrets: their keys, and the instances that read them. No command reads a value.

    The command reads the merged declarations.

    \b
    Examples:
      allot secret list
      allot secret list ml-orbit -o wide
      allot secret list --sort-by -used-by -o json
    """
    from allotment.reports.list_table import sort_rows
    from allotment.reports.outputs.secret_list import SecretListOutput
    from allotment.reports.secret_columns import secret_columns
    from allotment.services.status_view.secret_reader import read_secrets

    columns = secret_columns()
    rows = sort_rows(read_secrets(open_merged_source(repo), tenants), columns, sort_by)
    print_rows(rows, columns, style, SecretListOutput(secrets=tuple(rows)), lambda row: row.label)


@click.command("show")
@click.argument("label", metavar="TENANT/NAME", shell_complete=create_resource_completer("secrets"))
@output_option("yaml")
@repository_option
def show(label: str, style: str, repo: Path | None) -> None:
    """Show a secret: its keys, the places of their values in the secret store, and the instances that read it.

    \b
    Examples:
      allot secret show ml-orbit/huggingface
      allot secret show ml-orbit/huggingface -o json
    """
    from allotment.reports.outputs import as_json
    from allotment.reports.outputs.secret_show import SecretShowOutput
    from allotment.reports.outputs.yaml_form import as_yaml
    from allotment.reports.secret_columns import secret_facts
    from allotment.reports.sheets import print_output
    from allotment.services.status_view.secret_reader import find_secret

    tenant, name = require_resource_name(label, "ml-orbit/huggingface")
    row = find_secret(open_merged_source(repo), tenant, name)
    if style == "text":
        print_output(secret_facts(row))
    else:
        output = SecretShowOutput(secret=row)
        click.echo(as_json(output) if style == "json" else as_yaml(output), nl=False)
