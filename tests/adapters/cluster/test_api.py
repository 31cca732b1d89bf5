"""An API server's clock counts, not ours; its redirects and endless answers are not followed."""

from __future__ import annotations

import datetime
import json
import os
import time
from copy import copy
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.faults import Answer, Request, Server, api_of, fails, serving
from tests.support.kubeconfig import kubeconfig_of

from allotment.adapters.cluster import api as module
from allotment.adapters.cluster.api import ApiServer, list_contexts
from allotment.adapters.http_responses import ApiError, ApiUnavailable
from allotment.problems import OperationRefused, escape_unprintable

HOUR = datetime.timedelta(hours=1)


def dated(offset: datetime.timedelta) -> Answer:
    """Answer as a server whose clock is off."""

    def answer(request: Request) -> None:
        moment = datetime.datetime.now(datetime.UTC) + offset
        request.date_time_string = lambda timestamp=None: format_datetime(moment, usegmt=True)  # type: ignore[method-assign]
        request.whole(b"{}")

    return answer


def seconds_off(api: ApiServer) -> float:
    moment = datetime.datetime.fromisoformat(api.server_time())
    return (moment - datetime.datetime.now(datetime.UTC)).total_seconds()


def test_the_servers_clock_counts_and_never_goes_back() -> None:
    with serving(dated(HOUR), dated(-HOUR), otherwise=dated(HOUR)) as server:
        api = api_of(server)
        assert api.server_time() == ""
        api.read("/x", {}, "application/json", 5)
        assert abs(seconds_off(api) - 3600) < 3
        first = api.server_time()
        api.read("/x", {}, "application/json", 5)
        assert api.server_time() >= first


def test_an_error_is_told_with_how_long_to_wait() -> None:
    soon = format_datetime(datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=30), usegmt=True)
    with serving(
        fails(429, Retry_After="7"), fails(503, Retry_After=soon), fails(500, Retry_After="x"), otherwise=fails(302)
    ) as server:
        api, waits = api_of(server), []
        for _ in range(4):
            with pytest.raises(ApiError) as caught:
                api.read("/x", {}, "application/json", 5)
            waits.append((caught.value.status, round(caught.value.retry_after / 10)))
        assert waits == [(429, 1), (503, 3), (500, 0), (302, 0)]
        assert len(server.requests) == 4, "a redirect isn't followed"


def test_an_answer_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(request: Request) -> None:
        request.begin()
        for _ in range(40):
            request.say(b"x")
            time.sleep(0.05)

    with serving(slowly, otherwise=lambda request: request.whole(b"x" * 5000)) as server:
        api = api_of(server)
        with pytest.raises(ApiUnavailable, match="too slow"):
            api.read("/x", {}, "application/json", 0.5)
        monkeypatch.setattr(module, "MOST_BYTES", 1000)
        with pytest.raises(ApiUnavailable, match="too much"):
            api.read("/x", {}, "application/json", 5)


def test_a_server_that_is_away_says_nothing() -> None:
    with serving(otherwise=fails(500)) as server:
        api = api_of(server)
    with pytest.raises(ApiUnavailable, match="nothing listens there"):
        api.read("/x", {}, "application/json", 1)


def test_read_explains_why_the_api_server_is_unavailable() -> None:
    from kubernetes.client import Configuration

    def broken(request: Request) -> None:
        request.begin(Content_Length="1000")
        request.say(b"x")

    def silent(request: Request) -> None:
        time.sleep(1)

    with serving(broken, silent, otherwise=silent) as server:
        api = api_of(server)
        with pytest.raises(ApiUnavailable, match="the connection broke off"):
            api.read("/x", {}, "application/json", 1)
        with pytest.raises(ApiUnavailable, match="too slow"):
            api.read("/x", {}, "application/json", 0.2)
        for host, words in (
            ("https://127.0.0.1", "no TLS"),
            ("http://no-such-host.invalid", "its name could not be resolved"),
        ):
            elsewhere = Configuration(host=server.url.replace("http://127.0.0.1", host))
            with pytest.raises(ApiUnavailable, match=words):
                ApiServer(partial(copy, elsewhere)).read("/x", {}, "application/json", 1)


def test_a_kubeconfig_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("apiVersion: v1\nkind: Config\n")
    with pytest.raises(OperationRefused, match="leads to no API server"):
        ApiServer.from_kubeconfig(tmp_path / "kubeconfig", None)


def test_an_empty_variable_names_no_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", "")
    monkeypatch.setenv("HOME", "/nonexistent")
    with pytest.raises(
        OperationRefused, match=r"^there is no kubeconfig ~/.kube/config: name a kubeconfig with --kubeconfig$"
    ):
        ApiServer.from_kubeconfig(None, None)


TOKEN = "kube-t0ken-of-ada"


def write_kubeconfig(folder: Path, server: Server, user: dict[str, Any]) -> Path:
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig_of(server) | {"users": [{"name": "ada", "user": user}]}))
    return path


@pytest.mark.parametrize("in_file", [True, False])
@pytest.mark.parametrize("end", ["\n", "\r\n", " \n\n"])
def test_a_token_that_ends_with_a_newline_is_sent_without_it(tmp_path: Path, in_file: bool, end: str) -> None:
    sent: list[str | None] = []

    def answer(request: Request) -> None:
        sent.append(request.headers["Authorization"])
        request.whole(b"{}")

    (tmp_path / "token").write_text(TOKEN + end)
    with serving(otherwise=answer) as server:
        user = {"tokenFile": str(tmp_path / "token")} if in_file else {"token": TOKEN + end}
        api = ApiServer.from_kubeconfig(write_kubeconfig(tmp_path, server, user), None)
        for _ in range(2):
            assert api.read("/x", {}, "application/json", 5) == b"{}"
    assert sent == [f"Bearer {TOKEN}"] * 2
    assert TOKEN not in escape_unprintable(f"the server says {TOKEN}")


def test_a_token_that_no_header_can_contain_is_refused(tmp_path: Path) -> None:
    with (
        serving(otherwise=fails(500)) as server,
        pytest.raises(OperationRefused, match=r"has a character that a header can't have") as refused,
    ):
        ApiServer.from_kubeconfig(write_kubeconfig(tmp_path, server, {"token": f"{TOKEN}\nsecond"}), None)
    assert TOKEN not in str(refused.value)


def test_a_plugin_for_credentials_that_fails_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", "printf 'run \\033[31maws sso login' >&2; exit 3"],
        "interactiveMode": "Never",
    }
    with serving(otherwise=fails(401)) as server:
        path = write_kubeconfig(tmp_path, server, {"exec": plugin})
        with pytest.raises(OperationRefused, match=r"its login failed: exec: process returned 3. run \\x1b\[31maws"):
            ApiServer.from_kubeconfig(path, None)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("exec sleep 60", "doesn't end within 0 s"),
        ("exec yes", "prints more than 1 MiB"),
        ("echo null", "prints no ExecCredential"),
        ("echo hello", "prints no ExecCredential"),
        ("""echo '{"status": null}'""", "prints no ExecCredential"),
    ],
)
def test_a_plugin_for_credentials_has_limits(
    script: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allotment.adapters.cluster.login_plugin.PLUGIN_SECONDS", 0.4)
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script]}
    with serving(otherwise=fails(401)) as server:
        path = write_kubeconfig(tmp_path, server, {"exec": plugin})
        with pytest.raises(OperationRefused, match=f"its login failed: the plugin for credentials {fault}: correct it"):
            ApiServer.from_kubeconfig(path, None)


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.DependencyWarning")
@pytest.mark.parametrize("proxy", ["http://me:proxyPass99@127.0.0.1:99999", "socks5://me:proxyPass99@127.0.0.1:9"])
def test_a_proxy_that_cannot_be_used_is_named_without_its_password(proxy: str, tmp_path: Path) -> None:
    with serving(otherwise=fails(500)) as server:
        configuration = kubeconfig_of(server)
        configuration["clusters"][0]["cluster"]["proxy-url"] = proxy
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(configuration))
        with pytest.raises(OperationRefused, match=r"names no proxy that can be used|speaks SOCKS") as refused:
            ApiServer.from_kubeconfig(tmp_path / "kubeconfig", None)
    assert "proxyPass99" not in str(refused.value)


@pytest.mark.parametrize("text", ["clusters: [\n", "token: *S3cretTokenOfAda\n", "token: !S3cretTokenOfAda x\n"])
def test_a_kubeconfig_that_is_no_yaml_is_named_without_its_content(text: str, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(text)
    with pytest.raises(OperationRefused, match="leads to no API server: it is no YAML") as refused:
        ApiServer.from_kubeconfig(tmp_path / "kubeconfig", None)
    assert "S3cret" not in str(refused.value)
    assert list_contexts(tmp_path / "kubeconfig") == []


@pytest.mark.parametrize(
    "clusters", [["name", ["S3cretTokenOfAda"] * 2000], {"name": ["S3cretTokenOfAda"] * 2000}], ids=["list", "mapping"]
)
def test_a_kubeconfig_with_a_wrong_shape_is_named_without_its_content(clusters: object, tmp_path: Path) -> None:
    with serving(otherwise=fails(401)) as server:
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig_of(server) | {"clusters": [clusters]}))
    with pytest.raises(OperationRefused, match="leads to no API server: ") as refused:
        ApiServer.from_kubeconfig(tmp_path / "kubeconfig", None)
    assert "S3cret" not in str(refused.value)
    assert len(str(refused.value)) < 600


def test_a_plugin_for_credentials_gets_no_token_of_the_forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOT_FORGE_TOKEN", "s3cret")
    script = f"env > {tmp_path}/seen; cat {tmp_path}/answer"
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "mine"}}
    (tmp_path / "answer").write_text(json.dumps(answer))
    plugin = {"apiVersion": answer["apiVersion"], "command": "sh", "args": ["-c", script], "interactiveMode": "Never"}
    with serving(otherwise=lambda request: request.whole(b"{}")) as server:
        configuration = kubeconfig_of(server) | {"users": [{"name": "ada", "user": {"exec": plugin}}]}
        (tmp_path / "with-plugin").write_text(yaml.safe_dump(configuration))
        ApiServer.from_kubeconfig(tmp_path / "with-plugin", None)
    seen = (tmp_path / "seen").read_text()
    assert ("PATH=" in seen, "s3cret" in seen) == (True, False)
    assert os.environ["ALLOT_FORGE_TOKEN"] == "s3cret"
