"""`allot login`: logs a person in at the identity provider of a cluster, so that programs can call the URLs of tenants."""

from __future__ import annotations

from pathlib import Path

import click

from allotment.adapters.foreign_programs import open_browser
from allotment.cli.completers import complete_clusters
from allotment.cli.options import WholeNumber, find_repository, open_source, print_note, repository_option
from allotment.problems import OperationRefused, escape_unprintable, quote_value


@click.command()
@click.argument("cluster", metavar="CLUSTER", shell_complete=complete_clusters)
@click.option("--print-token", is_flag=True, help="Print a valid ID token, and refresh it if necessary. Don't log in.")
@click.option("--remove", is_flag=True, help="Remove the stored tokens. They stay valid until they expire.")
@click.option(
    "--port",
    type=WholeNumber(0, 65535),
    default=0,
    help="The port of this machine for the callback, if the provider permits no other port. Default: a free port.",
)
@click.option("--no-browser", is_flag=True, help="Only print the URL of the login, and open no browser.")
@repository_option
def command(*, cluster: str, print_token: bool, remove: bool, port: int, no_browser: bool, repo: Path | None) -> None:
    """Log in at the identity provider of a cluster, to call the URLs of tenants from programs.

    The command opens a browser, and waits up to 5 minutes for your login. It stores the tokens in
    $XDG_CONFIG_HOME/allotment/tokens.json, which only you may read. A program sends the ID token in the header
    `Authorization: Bearer`. Send it only to Members ports and accessors: whoever has it can use it until it expires. Each
    cluster of a repository has a login of its own.

    The branch of declarations at origin declares the provider. Files of the folder don't change it, because they may be a
    stranger's.

    On a machine without a browser, open the printed URL elsewhere, and forward the port: ssh -L 8400:localhost:8400 HOST.

    Exit status: 0 success, 2 the login failed or there is none.

    \b
    Examples:
      allot login eu-1
      curl -H "Authorization: Bearer $(allot login eu-1 --print-token)" https://webui--solo-ada.eu-1.gpu.example/
      allot login eu-1 --port 8400 --no-browser
      allot login eu-1 --remove
    """
    from allotment.access.pods.tokens import LoginOptions, log_in, read_token, remove_tokens
    from allotment.branches.declarations_clone import DeclarationsClone, open_merged_source
    from allotment.branches.platform_settings import list_cluster_names, read_cluster
    from allotment.declared.reading import suggest_name

    if print_token and remove:
        raise click.UsageError("--print-token and --remove exclude each other: omit one of them")
    root = find_repository(repo)
    source = open_source(root, None) if print_token or remove else open_merged_source(root, may_be_folder=False)
    names = list_cluster_names(source)
    if cluster not in names:
        raise OperationRefused(f"no cluster is named {quote_value(cluster)}{suggest_name(cluster, names)}")
    declared = read_cluster(source, cluster)
    if declared is None:
        raise OperationRefused(f"clusters/{cluster}/cluster.yaml can't be read: `allot validate` shows the reason")
    repository = DeclarationsClone(root).origin_url
    if print_token:
        click.echo(read_token(declared, repository))
    elif remove:
        print_note("The login is removed." if remove_tokens(declared, repository) else "There was no login.")
    else:
        claims = log_in(declared, repository, LoginOptions(_print_url if no_browser else _open_url, port))
        print_note(
            f"You are logged in as {escape_unprintable(claims.subject)} at the hosts below {declared.spec.domain}."
        )


def _print_url(url: str) -> None:
    click.echo(f"Log in at {url}", err=True)


def _open_url(url: str) -> None:
    _print_url(url)
    open_browser(url)
