"""Odd files in place of credentials: each gives a result, or one sentence with the file's name, and never a secret."""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from allotment.adapters import credential_files
from allotment.adapters.argocd.login import find_login as find_argocd_login
from allotment.adapters.cluster.api import ApiServer, list_contexts
from allotment.adapters.git.ssh_signatures import read_public_key
from allotment.adapters.oidc.token_store import LoginKey, TokenStore
from allotment.adapters.registry.credentials import find_login as find_registry_login
from allotment.cli.comment_options import TOKEN_VARIABLE, read_token
from allotment.cli.edit_commands.field_options import read_file
from allotment.cli.service import read_secret
from allotment.problems import OperationRefused

SECRET = "s3cretTokenOfAda0123456789"
KEY = LoginKey("https://git.example/cloud", "eu-1", "https://id.example", "allot", "eu-1.example")
ARGOCD = f"""\
current-context: argocd.example
contexts:
- {{name: argocd.example, server: argocd.example, user: ada}}
servers:
- server: argocd.example
users:
- {{name: ada, auth-token: {SECRET}}}
"""
KUBECONFIG = f"""\
current-context: eu-1
contexts:
- {{name: eu-1, context: {{cluster: eu-1, user: ada}}}}
clusters:
- name: eu-1
  cluster: {{server: "https://127.0.0.1:1"}}
users:
- name: ada
  user: {{token: {SECRET}}}
"""
STORED = {str(KEY): {"id_token": SECRET, "expires_at": 2e9, "token_endpoint": "https://id.example/token"}}
REQUIREMENT = "it must be a text file in UTF-8 with at most 1 MiB that this user may read"
LOG_IN, ARGOCD_LOG_IN = (f"remove it, and log in again with {name}" for name in ("`allot login`", "argocd login"))


def read_argocd(path: Path) -> object:
    os.environ["ARGOCD_CONFIG_DIR"] = str(path.parent)
    return find_argocd_login("")


def read_registry(path: Path) -> object:
    os.environ["DOCKER_CONFIG"] = str(path.parent)
    return find_registry_login("registry.example")


def read_kubeconfig(path: Path) -> object:
    return ApiServer.from_kubeconfig(path, None)._configuration.api_key


class Reader(NamedTuple):
    """A reader of a credential, a valid content of its file, and the end of the error for a file that can't be read."""

    file: str
    read: Callable[[Path], object]
    content: str
    remedy: str = REQUIREMENT


READERS = {
    "token": Reader("token", lambda path: read_token(path).secret, f"{SECRET}\n"),
    "secret": Reader("secret", read_secret, f"{SECRET}\n"),
    "logins": Reader("tokens.json", lambda path: TokenStore(path).read(KEY), json.dumps(STORED), LOG_IN),
    "argocd": Reader("config", read_argocd, ARGOCD, ARGOCD_LOG_IN),
    "kubeconfig": Reader("kubeconfig", read_kubeconfig, KUBECONFIG),
    "signing key": Reader("key", read_public_key, "a private key"),
}


class Fault(NamedTuple):
    make: Callable[[Path, str], object]
    reason: str


def write_large(path: Path, content: str) -> None:
    path.write_text(content)
    os.truncate(path, 100 << 20)


NO_TEXT = "it is no text in UTF-8"
FAULTS = {
    "UTF-16": Fault(lambda path, content: path.write_bytes(content.encode("utf-16")), NO_TEXT),
    "UTF-16 without a mark": Fault(lambda path, content: path.write_bytes(content.encode("utf-16-le")), NO_TEXT),
    "Latin-1": Fault(lambda path, content: path.write_bytes(content.encode() + b"# \xe9"), NO_TEXT),
    "zeros": Fault(lambda path, _: path.write_bytes(bytes(40)), NO_TEXT),
    "large": Fault(write_large, "it has more than 1,048,576 bytes"),
    "directory": Fault(lambda path, _: path.mkdir(), "Is a directory"),
    "loop": Fault(lambda path, _: path.symlink_to(path), "Too many levels of symbolic links"),
    "pipe": Fault(lambda path, _: os.mkfifo(path), "it is no regular file"),
    "no permission": Fault(lambda path, content: path.write_text(content), "Permission denied"),
}


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ARGOCD_AUTH_TOKEN", "ARGOCD_SERVER", "ARGOCD_CONFIG_DIR", "DOCKER_CONFIG"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(credential_files, "PIPE_SECONDS", 0.05)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", READERS)
def test_an_unreadable_file_is_one_sentence(
    name: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, (make, reason) = READERS[name], FAULTS[fault]
    make(path := tmp_path / reader.file, reader.content)
    if fault == "no permission":  # a test may run as root, who may read each file
        monkeypatch.setattr(credential_files, "_open_at_once", refuse_permission)
    if name == "argocd" and fault in ("directory", "loop", "pipe"):
        assert reader.read(path) is None  # the `argocd` command finds no configuration there either
        return
    if fault == "pipe" and name in ("token", "secret"):
        reason = "nothing arrived within 0 s"
    with pytest.raises(OperationRefused) as refused:
        reader.read(path)
    assert str(refused.value) == f"{path} can't be read: {reason}: {reader.remedy}"


def refuse_permission(path: str, flags: int) -> int:
    raise PermissionError(13, "Permission denied", path)


@pytest.mark.parametrize("name", [name for name in READERS if name != "signing key"])
@pytest.mark.parametrize(
    "change",
    [str.encode, lambda content: content.replace("\n", "\r\n").encode() + b"\r\n\r\n", lambda content: content.encode("utf-8-sig")],
    ids=["plain", "CRLF", "byte order mark"],
)  # fmt: skip
def test_a_file_of_another_editor_gives_the_credential(
    name: str, change: Callable[[str], bytes], tmp_path: Path
) -> None:
    reader = READERS[name]
    path = tmp_path / reader.file
    path.write_bytes(change(reader.content))
    assert SECRET in str(reader.read(path))


ODD_YAML = ('a: "\\Uffffffff"', 'a: !!int ""', "a: !!bool x", "a: !!timestamp x", "a: !!float x")
CLAIMS = base64.urlsafe_b64encode(b'{"exp": 1' + b"0" * 30 + b"}").decode().rstrip("=")
OIDC_TOKEN = f"eyJhbGciOiAibm9uZSJ9.{CLAIMS}.x"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("token", "", "The file {path} is empty: write the token alone, as ASCII text."),
        ("token", " \r\n\t", "The file {path} is empty: write the token alone, as ASCII text."),
        ("token", f"{SECRET}\n{SECRET}", "The file {path} has characters that no token has: write the token alone, as ASCII text."),
        ("token", f"{SECRET}é", "The file {path} has characters that no token has: write the token alone, as ASCII text."),
        ("secret", "", "{path} must contain a secret of at least 16 ASCII characters"),
        ("secret", f"{SECRET}é", "{path} must contain a secret of at least 16 ASCII characters"),
        ("logins", "", f"{{path}} is damaged: Input data was truncated: {LOG_IN}"),
        ("logins", "[1]", f"{{path}} is damaged: Expected `object`, got `array`: {LOG_IN}"),
        ("logins", json.dumps({str(KEY): SECRET}), f"{{path}} is damaged: Expected `object`, got `str` - at `$[...]`: {LOG_IN}"),
        ("argocd", "a: [", "{path}, the configuration of argocd, is no YAML: log in again with argocd login"),
        *(
            ("argocd", text, "{path}, the configuration of argocd, is no YAML: log in again with argocd login")
            for text in ODD_YAML
        ),
        ("argocd", "[" * 100_000, "{path}, the configuration of argocd, is no YAML: log in again with argocd login"),
        ("argocd", ARGOCD.replace(SECRET, f'"{SECRET}é"'), "the token for Argo CD has a character that a header can't have: correct"
         " ARGOCD_AUTH_TOKEN, or log in again with argocd login"),
        ("argocd", ARGOCD.replace("argocd.example", '"[::1"'), "'https://[::1' is no URL of a server: correct ARGOCD_SERVER, or log in again with argocd login"),
    ],
)  # fmt: skip
def test_a_wrong_content_is_one_sentence_without_the_secret(
    name: str, content: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / READERS[name].file
    path.write_text(content, encoding="utf-8")
    with pytest.raises((OperationRefused, click.UsageError)) as refused:
        READERS[name].read(path)
    assert getattr(refused.value, "message", str(refused.value)) == message.format(path=path)


USER, CLUSTER = f"user: {{token: {SECRET}}}", 'cluster: {server: "https://127.0.0.1:1"}'
NO_PEM = "can't be used: no certificates in PEM, or no key without a passphrase"
SHAPE, EXPECTED = "it is no kubeconfig", "Invalid kube-config file. Expected key"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (KUBECONFIG, "[1]", SHAPE),
        (KUBECONFIG, "a: [", "it is no YAML"),
        (KUBECONFIG, "[" * 100_000, "it is no YAML"),
        *((KUBECONFIG, text, "it is no YAML") for text in ODD_YAML),
        (USER, f"user: {{auth-provider: {{name: oidc, config: {{id-token: {OIDC_TOKEN}}}}}}}", SHAPE),
        (KUBECONFIG, "", "Invalid kube-config. {path} file is empty"),
        (KUBECONFIG, "users: 3", SHAPE),
        (USER, f"token: {SECRET}", f"{EXPECTED} user in {{path}}"),
        (USER, f"user: {SECRET}", SHAPE),
        (USER, f"user: {{username: ada, password: [{SECRET}]}}", SHAPE),
        (USER, f"user: {{client-certificate-data: {SECRET}, client-key-data: a}}", "Incorrect padding"),
        (USER, "user: {tokenFile: odd}", "[Errno 21] Is a directory: '{folder}/odd'"),
        (USER, "user: {tokenFile: pipe}", "pipe is a pipe: write the token into a file"),
        (USER, "user: {client-certificate: text, client-key: text}", f"{{folder}}/text and {{folder}}/text {NO_PEM}"),
        (USER, "user: {client-certificate: odd, client-key: text}", "File does not exist: {folder}/odd"),
        (CLUSTER, CLUSTER.replace("}", ", certificate-authority: text}"), f"{{folder}}/text {NO_PEM}"),
        (CLUSTER, CLUSTER.replace("}", ", certificate-authority-data: 3}"), SHAPE),
        (CLUSTER, "server: [x]", f"{EXPECTED} cluster in {{path}}"),
        (CLUSTER, "cluster: {server: 3}", SHAPE),
    ],
)
def test_a_wrong_kubeconfig_is_one_sentence_without_the_secret(old: str, new: str, reason: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "odd").mkdir()
    (tmp_path / "text").write_text(SECRET)
    (path := tmp_path / "kubeconfig").write_text(KUBECONFIG.replace(old, new))
    with pytest.raises(OperationRefused) as refused:
        read_kubeconfig(path)
    text = reason.format(path=path, folder=tmp_path)
    assert str(refused.value) == f"{path} leads to no API server: {text}: correct it, or name another kubeconfig"


@pytest.mark.parametrize("token", [" ", "\\u00e9", "two\\nlines"])
def test_a_token_of_a_kubeconfig_that_no_header_can_have_is_refused(token: str, tmp_path: Path) -> None:
    (path := tmp_path / "kubeconfig").write_text(KUBECONFIG.replace(SECRET, f'"{token}"'))
    with pytest.raises(OperationRefused) as refused:
        read_kubeconfig(path)
    words = "is empty or has a character that a header can't have: write it again"
    assert str(refused.value) == f"the token of {path} {words}"


@pytest.mark.parametrize("fault", FAULTS)
def test_an_unreadable_kubeconfig_has_no_contexts(fault: str, tmp_path: Path) -> None:
    FAULTS[fault].make(path := tmp_path / "kubeconfig", KUBECONFIG)
    assert list_contexts(path) == (["eu-1"] if fault == "no permission" else [])


@pytest.mark.parametrize("fault", [name for name in FAULTS if name != "no permission"])
def test_an_unreadable_login_at_a_registry_is_none(fault: str, tmp_path: Path) -> None:
    login = base64.b64encode(f"ada:{SECRET}".encode()).decode()
    content = json.dumps({"auths": {"registry.example": {"auth": login}}})
    path = tmp_path / "config.json"
    FAULTS[fault].make(path, content)
    assert read_registry(path) == ""
    path.rmdir() if fault == "directory" else path.unlink()
    path.write_text(f"\ufeff{content}", encoding="utf-8")
    assert read_registry(path) == f"ada:{SECRET}"


def test_a_pipe_gives_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a password manager in a shell: `--forge-token-file <(pass show token)`."""
    os.mkfifo(path := tmp_path / "pipe")
    writer = threading.Thread(target=path.write_text, args=(f"{SECRET}\n",))
    monkeypatch.setattr(credential_files, "PIPE_SECONDS", 30.0)
    writer.start()
    credential_files.PIPE_SECONDS = 30.0
    assert read_token(path).secret == SECRET
    writer.join()


def test_a_pipe_without_a_writer_is_no_file_of_an_option(tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "pipe")
    with pytest.raises(OperationRefused) as refused:
        read_file("--from", path)
    assert str(refused.value) == f"--from: '{path}' can't be read: nothing arrived within 0 s"


@pytest.mark.parametrize("value", [f"{SECRET}\udce9", f"\ufeff{SECRET}", "\udcff\udcfe"])
def test_a_wrong_token_in_the_environment_is_not_shown(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, value)
    with pytest.raises(click.UsageError) as refused:
        read_token(None)
    words = "has characters that no token has: write the token alone, as ASCII text."
    assert refused.value.message == f"The environment variable {TOKEN_VARIABLE} {words}"


def test_a_user_without_a_home_is_told_to_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", find_no_home)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for read in (TokenStore.open_default, lambda: find_argocd_login("")):
        with pytest.raises(OperationRefused, match="this user has no home folder: set the environment variable HOME"):
            read()
    assert find_registry_login("registry.example") == ""
