"""`allot ssh-gateway`: connects people with SSH keys to the containers of instances."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.service import metrics_option

if TYPE_CHECKING:
    from allotment.adapters.cluster.api import ApiServer


@click.command(context_settings={"auto_envvar_prefix": "ALLOT"})
@click.option("--cluster", metavar="NAME", required=True, help="The declared cluster of the API server.")
@click.option(
    "--host-key",
    "host_keys",
    multiple=True,
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    help="The file of a private key of the host, without a passphrase. Repeat it for keys of several types.",
)
@click.option(
    "--listen-ssh",
    default="127.0.0.1:2222",
    show_default=True,
    metavar="HOST:PORT",
    help="The address for SSH clients.",
)
@click.option(
    "--listen",
    default="127.0.0.1:8083",
    show_default=True,
    metavar="HOST:PORT",
    help="The address of /healthz and /readyz.",
)
@metrics_option
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The kubeconfig of the cluster. Default: the service account of a pod in the cluster, otherwise the usual kubeconfig.",
)
@click.option("--context", metavar="NAME", help="The context in the kubeconfig.")
def command(
    *,
    cluster: str,
    host_keys: tuple[str, ...],
    listen_ssh: str,
    listen: str,
    metrics_listen: str | None,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Serve SSH for the instances of a cluster that declare `access: [SSH]`.

    People log in as INSTANCE--TENANT with an SSH key of the tenant's Members. The gateway reads the keys from the cluster at
    each login. It starts programs in the instance's container through the API server, so the image needs no SSH server.
    It logs each login. SIGTERM stops it, and ends all connections. `ssh-keygen -t ed25519 -N "" -f FILE` creates a host key.

    \b
    Examples:
      allot ssh-gateway --cluster eu-1 --host-key ssh_host_ed25519_key --listen-ssh 0.0.0.0:2222
    """
    import asyncio

    from allotment.adapters.cluster.api import ApiServer
    from allotment.adapters.credential_files import read_credential_file
    from allotment.cli.service import parse_address, parse_addresses
    from allotment.declared.layout import name_error
    from allotment.problems import OperationRefused

    if wrong := name_error(cluster, 24):
        raise click.UsageError(f"--cluster: {wrong}")
    parse_addresses(listen, metrics_listen, {"--listen-ssh": listen_ssh})
    address = parse_address(listen_ssh)
    api = ApiServer.from_kubeconfig(kubeconfig, context)
    import asyncssh

    try:
        for file in host_keys:
            asyncssh.import_private_key(read_credential_file(Path(file)))
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        raise OperationRefused(
            f"{file}: not a private key without a passphrase ({error}): name a private key (a file without .pub), or remove its"
            f' passphrase by `ssh-keygen -p -N "" -f {file}`'
        ) from None
    asyncio.run(_serve(api, cluster, address, list(host_keys), listen, metrics_listen))


async def _serve(
    api: ApiServer,
    cluster: str,
    address: tuple[str, int],
    host_keys: list[str],
    listen: str,
    metrics_listen: str | None,
) -> None:
    import asyncio
    import logging
    import signal

    from allotment.access.ssh_gateway.gateway import Gateway, Heartbeat
    from allotment.access.ssh_gateway.server import serve
    from allotment.adapters.metrics import create_registry
    from allotment.adapters.ssh_metrics import SshMetrics
    from allotment.cli.service import create_logger, serve_http

    for name in ("asyncssh", "asyncio"):
        logging.getLogger(name).setLevel(logging.ERROR)  # a stranger could fill the log with warnings
    counts, log = create_registry(), create_logger()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    gateway = Gateway(api, cluster, log, SshMetrics(counts))
    try:
        acceptor = await serve(gateway, *address, host_keys)
    except OSError as error:
        raise click.UsageError(f"{address[0]}:{address[1]} can't be used as listen address: {error.strerror}") from None
    heartbeat = Heartbeat()
    with serve_http(
        listen,
        metrics_listen,
        counts,
        alive=heartbeat.is_fresh,
        ready=lambda: heartbeat.is_fresh() and not stopped.is_set(),
        on_wake=lambda: None,
    ) as at:
        log.info(
            "started", cluster=cluster, ssh=f"{address[0]}:{acceptor.get_port()}", listen=at.listen, metrics=at.metrics
        )
        await stopped.wait()
        acceptor.close()
        log.info("stopped")
