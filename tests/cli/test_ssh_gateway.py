"""`allot ssh-gateway`: what it needs before it serves, and how it ends.

`tests/e2e/node/test_ssh.py` runs it in front of a real node, and `tests/access/ssh_gateway/` tests what it serves.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import asyncssh
import pytest
import yaml
from tests.conftest import Allot
from tests.support.faults import serving
from tests.support.kubeconfig import kubeconfig_of


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Return a kubeconfig; nobody needs its server before the first login."""
    with serving(otherwise=lambda request: request.whole(b"", 404)) as server:
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig_of(server)), encoding="utf-8")
        return path


@pytest.fixture
def host_key(tmp_path: Path) -> Path:
    path = tmp_path / "host_key"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(path)
    return path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cluster", "EU_1"], "--cluster: "),
        (["--cluster", "eu-1", "--listen-ssh", "2222"], "'2222' is not in the format HOST:PORT"),
        (["--cluster", "eu-1", "--listen", "x"], "'x' is not in the format HOST:PORT"),
        (["--cluster", "eu-1", "--listen-ssh", "192.0.2.1:2222"], "192.0.2.1:2222 can't be used as listen address"),
    ],
)
def test_a_wrong_option_says_what_is_right(
    allot: Allot, host_key: Path, kubeconfig: Path, words: list[str], message: str
) -> None:
    result = allot("ssh-gateway", "--host-key", host_key, "--kubeconfig", kubeconfig, *words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_a_host_key_must_be_a_private_key_without_a_passphrase(allot: Allot, kubeconfig: Path, tmp_path: Path) -> None:
    path = tmp_path / "host_key"
    encrypted = asyncssh.generate_private_key("ssh-ed25519").export_private_key("pkcs8-pem", passphrase="x")
    for text in (b"", b"ssh-ed25519 AAAA\n", encrypted):
        path.write_bytes(text)
        result = allot("ssh-gateway", "--cluster", "eu-1", "--host-key", path, "--kubeconfig", kubeconfig)
        assert (result.code, result.out) == (2, "")
        assert f"{path}: not a private key without a passphrase" in result.err
        assert 'ssh-keygen -p -N ""' in result.err


@pytest.mark.process
def test_ssh_gateway_greets_reports_health_and_ends_at_a_signal(host_key: Path, kubeconfig: Path) -> None:
    options = ["--cluster", "eu-1", "--host-key", str(host_key), "--kubeconfig", str(kubeconfig)]
    options += ["--listen-ssh", "127.0.0.1:0", "--listen", "127.0.0.1:0"]
    command = [sys.executable, "-m", "allotment", "ssh-gateway", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as gateway:
        assert gateway.stdout is not None
        started = json.loads(gateway.stdout.readline())
        try:
            port = int(started["ssh"].rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port), 10) as connection:
                assert connection.recv(8) == b"SSH-2.0-"
                address = started["listen"].rpartition(":")
                with socket.create_connection((address[0], int(address[2])), 10) as health:
                    health.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
                    assert b" 200 " in health.recv(100)
                gateway.send_signal(signal.SIGTERM)
                assert gateway.wait(30) == 0
        finally:
            gateway.kill()
        assert json.loads(gateway.stdout.readline())["event"] == "stopped"
