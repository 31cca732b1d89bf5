"""A Gitea of one's own, on SQLite: an administrator, two users, an organisation, and a token for each of them."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.controlplane import gitea_pages, processes, programs
from tests.controlplane.processes import LOOPBACK
from tests.controlplane.web import Answered, call
from tests.support.waiting import eventually

ADMIN, USERS, ORGANISATION, BOT = "admin0", ("ada", "bob"), "northlight", "northlight-bot"
HOST = "git.northlight.example"  # by which browsers know a Gitea that is not on the loopback
TOKEN = re.compile("[0-9a-f]{40}")
CONFIGURATION = """\
RUN_MODE = prod
{root}
[server]
PROTOCOL = https
CERT_FILE = {folder}/cert.pem
KEY_FILE = {folder}/key.pem
HTTP_ADDR = {address}
HTTP_PORT = {port}
ROOT_URL = {root_url}/
STATIC_ROOT_PATH = {static}
OFFLINE_MODE = true
DISABLE_SSH = true
[database]
DB_TYPE = sqlite3
PATH = {folder}/gitea.db
SQLITE_TIMEOUT = 20000
SQLITE_JOURNAL_MODE = WAL
[repository]
ROOT = {folder}/repositories
DEFAULT_BRANCH = main
[security]
INSTALL_LOCK = true
SECRET_KEY = {secret}
PASSWORD_HASH_ALGO = pbkdf2
[service]
DISABLE_REGISTRATION = true
[webhook]
ALLOWED_HOST_LIST = loopback
[log]
LEVEL = Info
MODE = console
[cron]
ENABLED = false
[actions]
ENABLED = false
"""


@dataclass(frozen=True)
class Gitea:
    """A running Gitea: its https:// URL, and a token by user name; `admin0` is the administrator, `ada` and `bob` are users.

    The organisation `northlight` is the administrator's; `tokens["northlight"]` is of its bot, a member of its owners.
    """

    url: str
    folder: Path
    tokens: Mapping[str, str]

    @property
    def authority(self) -> Path:
        """The certificate to trust it by: GIT_SSL_CAINFO for Git."""
        return self.folder / "cert.pem"

    def api(self, path: str, body: Any = None, *, user: str = ADMIN, method: str | None = None) -> Any:
        """Return what the API says to a user, such as `api("user/repos", {"name": "gpus"}, user="ada")`."""
        headers = {"Authorization": f"token {self.tokens[user]}"}
        return call(f"{self.url}/api/v1/{path}", body, method=method, headers=headers, authority=self.authority)

    def create(self, name: str) -> None:
        """Create the repository `owner/name` of an organisation, without the hook `update`: it starts a Gitea for each ref of a push,
        and does nothing but to refuse pushes to refs/pull."""
        owner, _, repository = name.partition("/")
        self.api(f"orgs/{owner}/repos", {"name": repository, "default_branch": "main"})
        (self.repository(name) / "hooks" / "update").unlink()

    def delete(self, name: str) -> None:
        """Delete the repository `owner/name`, if it exists. SQLite may refuse this for a moment, because others write."""

        def is_gone() -> bool:
            try:
                self.api(f"repos/{name}", method="DELETE")
            except Answered as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
            return True

        eventually(is_gone, f"the repository {name} to be deleted", pause=1)

    def set_password(self, user: str) -> str:
        """Give a user a new password, and return it."""
        password = secrets.token_hex(16)
        body = {"login_name": user, "source_id": 0, "password": password, "must_change_password": False}
        self.api(f"admin/users/{user}", body, method="PATCH")
        return password

    def repository(self, name: str) -> Path:
        """Return the bare repository of `owner/name` where the server has it: to look into, without a call."""
        return self.folder / "repositories" / f"{name}.git"

    def remote(self, repository: str, user: str = ADMIN) -> str:
        """Return the URL by which a user pushes to `owner/name`."""
        host = self.url.removeprefix("https://")
        return f"https://{user}:{self.tokens[user]}@{host}/{repository}.git"


def start(folder: Path, address: str = LOOPBACK) -> Gitea:
    """Start a Gitea whose data and log lie in `folder`, from nothing. At another address than the loopback, it is `HOST`."""
    binary = programs.program("gitea")
    port = next(processes.free_ports())
    url = f"https://{address}:{port}"
    root_url = url if address == LOOPBACK else f"https://{HOST}:{port}"
    configuration = folder / "app.ini"
    folder.mkdir(parents=True, exist_ok=True)
    as_root = "I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true" if os.geteuid() == 0 else ""
    configuration.write_text(
        CONFIGURATION.format(
            root=as_root,
            address=address,
            port=port,
            root_url=root_url,
            static=gitea_pages.static_folder(),
            folder=folder,
            secret=secrets.token_hex(32),
        ),
        encoding="utf-8",
    )
    environment = {"GITEA_WORK_DIR": str(folder), "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    environment |= {
        "GOGC": "off",
        "GOMEMLIMIT": "600MiB",
    }  # each push starts some more of it, which end before there is any garbage
    command: list[str | Path] = [binary, "--config", configuration]

    def admin(*words: str) -> str:
        run, own = [*command, *words], processes.environment(folder, environment)
        done = subprocess.run(run, cwd=folder, env=own, capture_output=True, text=True, check=False)
        if done.returncode:
            raise processes.NotStarted(
                f"gitea {' '.join(words[:3])} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}"
            )
        return done.stdout.strip()

    admin("cert", "--host", f"{address},{HOST}", "--ca")
    admin("migrate")
    started = processes.start(folder, "gitea", [*command, "web"], environment)
    started.wait_until(lambda: call(f"{url}/api/healthz", authority=folder / "cert.pem"))
    tokens = {user: _user(admin, user) for user in (ADMIN, *USERS, BOT)}
    gitea = Gitea(url, folder, tokens)
    gitea.api("orgs", {"username": ORGANISATION})
    owners = next(team["id"] for team in gitea.api(f"orgs/{ORGANISATION}/teams") if team["name"] == "Owners")
    gitea.api(f"teams/{owners}/members/{BOT}", method="PUT")
    return Gitea(url, folder, {**tokens, ORGANISATION: tokens[BOT]})


def _user(admin: Callable[..., str], name: str) -> str:
    """Create a user and return a token for everything that it may do."""
    more = ["--admin"] if name == ADMIN else []
    password = ["--random-password", "--must-change-password=false"]
    admin("admin", "user", "create", "--username", name, "--email", f"{name}@northlight.example", *password, *more)
    token = ["--username", name, "--token-name", "tests", "--scopes", "all", "--raw"]
    output = admin("admin", "user", "generate-access-token", *token)
    (access_token,) = (
        line for line in output.splitlines() if TOKEN.fullmatch(line)
    )  # what is logged comes before it, or after
    return access_token
