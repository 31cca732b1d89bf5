"""The CI that `allot init` writes: which host gets the job's token, and which process sees it."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from allotment.starter.ci import render_workflow
from allotment.starter.program import Program, parse_program

pytestmark = pytest.mark.process


IMAGE = f"registry.acme.dev/allotment:1.0@sha256:{64 * 'a'}"
COMMIT = f"allotment @ git+https://git.acme.dev/allotment@{40 * 'a'}"
SECRET = "t0ken-of-the-job"  # the tests look for this value
ACTIONS = ["GitHub", "Gitea", "Forgejo"]


class Host:
    """An HTTP server that asks for credentials, declines all, and notes which it was sent."""

    def __init__(self) -> None:
        sent: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                sent.append(self.headers.get("Authorization", ""))
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing."""

        self.sent = sent
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    """Yield a forge and another host."""
    pair = Host(), Host()
    yield pair
    for host in pair:
        host.close()


def jobs(forge: str, address: str) -> dict[str, Any]:
    program: Program = parse_program(address)
    loaded: dict[str, Any] = yaml.safe_load(render_workflow(forge, "main", program)[1])
    return loaded


def run(folder: Path, script: str, **environment: str) -> str:
    """Run a job's commands in an empty folder. Return the commands of Git that ran, as their processes were called."""
    trace, work = folder / "trace", folder / "work"
    work.mkdir()
    known = {
        "HOME": str(folder),
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "GIT_TRACE": str(trace),
        "GIT_TERMINAL_PROMPT": "0",
        **environment,
    }
    subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=work, env=known, capture_output=True, text=True, check=False
    )
    return trace.read_text()


def look_at(host: Host, folder: Path) -> None:
    """Let Git ask a host for its refs, with what the job configured."""
    words = ["git", "ls-remote", f"{host.url}/acme/gpus"]
    environment = {"HOME": str(folder), "PATH": os.environ["PATH"], "GIT_TERMINAL_PROMPT": "0", "ALLOT_TOKEN": SECRET}
    subprocess.run(words, cwd=folder / "work", env=environment, capture_output=True, check=False)


def basic(user: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{SECRET}".encode()).decode()


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("job", ["validate", "publish", "plan", "follow"])
@pytest.mark.parametrize("forge", ACTIONS)
def test_the_token_of_a_job_goes_to_the_forge_alone(
    forge: str, job: str, slash: str, hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    (step,) = (job_step for job_step in jobs(forge, IMAGE)["jobs"][job]["steps"] if job_step["name"] == "Check out")
    home, other = hosts
    addresses = {"GITHUB_SERVER_URL": f"{home.url}{slash}", "GITHUB_REPOSITORY": "acme/gpus"}
    commands = run(tmp_path, step["run"], TOKEN=SECRET, REF="refs/heads/main", **addresses)
    assert home.sent == [basic("x-access-token")]
    look_at(other, tmp_path)
    assert set(other.sent) == {""}
    look_at(home, tmp_path)
    assert home.sent[1] == basic("x-access-token"), "later steps of the job fetch and push with it"
    assert SECRET not in commands
    assert basic("x-access-token") not in commands


@pytest.mark.parametrize("forge", ACTIONS)
def test_no_job_sets_a_header_for_every_host(forge: str) -> None:
    for address in (IMAGE, COMMIT):
        _, text = render_workflow(forge, "main", parse_program(address))
        assert "http.extraHeader" not in text
        assert text.count('[http "%s"]') == (4 if address == IMAGE else 0)


@pytest.mark.parametrize("address", [IMAGE, COMMIT], ids=["image", "commit"])
def test_gitlabs_token_is_in_no_argument_and_goes_to_the_forge_alone(
    address: str, hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    home, other = hosts
    program = tmp_path / "allot"
    program.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$*" >> "$HOME/arguments"\nif [ "$1" = publish ]; then git ls-remote "$3"; fi\n'
    )
    program.chmod(0o755)
    script = "\n".join(jobs("GitLab", address)["publish"]["script"]).replace("/tmp/allot/bin/allot", "allot")
    commands = run(
        tmp_path,
        f"git init -q .\n{script}",
        ALLOT_TOKEN=SECRET,
        CI_SERVER_URL=home.url,
        CI_PROJECT_URL=f"{home.url}/acme/gpus",
        CI_SERVER_HOST="127.0.0.1",
        CI_PROJECT_PATH="acme/gpus",
    )
    assert (tmp_path / "arguments").read_text().splitlines() == [
        f"publish --to {home.url}/acme/gpus.git",
        "comment --all --branch main",
    ]
    assert home.sent == ["", basic("allotment")]
    assert SECRET not in commands
    look_at(other, tmp_path)
    assert set(other.sent) == {""}
