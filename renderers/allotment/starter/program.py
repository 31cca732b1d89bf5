"""Define the pinned source from which CI and people install Allotment, and the commands that install it."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from allotment.declared.forges import FORGES
from allotment.problems import quote_value

FOLDER = ".allot"
REQUIREMENTS_LOCK, PROGRAM_LOCK = f"{FOLDER}/requirements.lock", f"{FOLDER}/program.lock"

_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,253})(?::[0-9]{1,5})?"
_PATH = r"(?:/[A-Za-z0-9._~+-]{1,255}){1,32}"
_GIT = re.compile(rf"git\+(?:https://|ssh://(?:[A-Za-z0-9._-]{{1,64}}@)?){_HOST}{_PATH}@[0-9a-f]{{40}}")
_REPOSITORY = re.compile(r"git\+(?:https|ssh)://(?:[^@/]+@)?([^/:]+)(?::\d+)?/(.+?)(?:\.git)?@([0-9a-f]{40})")
_USERINFO = re.compile(r"(?:git\+)?https?://[^/]*@")
_WHEEL = re.compile(rf"(?P<url>(?:https?://{_HOST}|file://){_PATH}\.whl)#sha256=(?P<hash>[0-9a-f]{{64}})")
_IMAGE = re.compile(
    rf"{_HOST}(?:/[a-z0-9][a-z0-9._-]{{0,127}}){{1,16}}(?::[A-Za-z0-9_][A-Za-z0-9._-]{{0,127}})?@sha256:[0-9a-f]{{64}}"
)
_NAME = re.compile(r"^allotment ?@ ?")
_FORGE_WORDS = {"github": "GitHub", "gitlab": "GitLab", "gitea": "Gitea", "codeberg": "Forgejo", "forgejo": "Forgejo"}
ACCEPTED_FORMS = (
    "git+https://…@ and a commit's 40 digits, a wheel's https://….whl#sha256=… with its hash, or an image by its digest,"
    " registry/name@sha256:…"
)


class Program(NamedTuple):
    """The source of this program.

    `address` is a Git URL with a commit, the URL of a wheel, or an image. `hash` is the hash of the wheel.
    """

    kind: Literal["git", "wheel", "image"]
    address: str
    hash: str = ""

    @property
    def address_text(self) -> str:
        """Return the source as text, in the form that `allot init --program` takes."""
        return f"{self.address}#sha256={self.hash}" if self.hash else self.address

    def find_documentation(self, forge: str, url: str) -> str:
        """Return the URL of the documentation: the folder docs/ at the pinned commit; empty for a wheel or image.

        A known word in the name of the host, such as gitlab, names the forge. Otherwise, `forge` is the forge at the host of
        `url`. If the forge is unknown, return the URL of the repository instead.
        """
        match = _REPOSITORY.fullmatch(self.address)
        if self.kind != "git" or match is None:
            return ""
        host, path, commit = match.groups()
        default = forge if host == urlsplit(url).hostname else ""
        kind = FORGES.get(next((name for word, name in _FORGE_WORDS.items() if word in host), default))
        tree = kind.folder.replace("branch", "commit") if kind is not None else ""
        return f"https://{host}/{path}{f'/{tree}/{commit}/docs' if tree else ''}"

    @property
    def is_image(self) -> bool:
        """Return whether the program is a container image. CI jobs run in this image, without an installation."""
        return self.kind == "image"


def parse_program(text: str) -> Program:
    """Parse the source of a program. The text may have the prefix `allotment @`.

    Raises ValueError, with a message for people, if the text is not a pinned source.
    """
    address = _NAME.sub("", text.strip(), count=1)
    if _USERINFO.match(address):
        raise ValueError(
            "the URL contains a name or a token, which a commit would publish: omit it, or write git+ssh://"
        )
    if _GIT.fullmatch(address):
        return Program("git", address)
    if wheel := _WHEEL.fullmatch(address):
        return Program("wheel", wheel["url"], wheel["hash"])
    if _IMAGE.fullmatch(address):
        return Program("image", address)
    raise ValueError(f"{quote_value(text)} names nothing that stays the same: write {ACCEPTED_FORMS}")


def lock_files(program: Program, runs: str, builds: str) -> dict[str, str]:
    """Return the lock files for the installation; none for an image.

    `runs` and `builds` are the requirements, with hashes, for running and for building this program. The program has
    its own file, because pip accepts no Git commit in a file with hashes. A Git commit needs no hash, because it
    identifies its content. For a Git commit, requirements.lock also has the requirements for building the program.
    """
    if program.is_image:
        return {}
    needed = [*_requirement_lines(runs), *(_requirement_lines(builds) if program.kind == "git" else ())]
    comment = "what allotment needs, by hashes; wheels alone, since what pip would build a package with has none"
    lock = [
        f"# {comment}. `allot init` wrote it.",
        "--require-hashes",
        "--only-binary :all:",
        *_merge_requirements(needed),
    ]
    if program.kind == "wheel":
        own = ["--require-hashes", f"allotment @ {program.address} \\", f"    --hash=sha256:{program.hash}"]
    else:
        own = [f"allotment @ {program.address}"]
    head = "# Allotment itself. `allot init --upgrade` of another version updates this line, and requirements.lock."
    return {REQUIREMENTS_LOCK: "\n".join([*lock, ""]), PROGRAM_LOCK: "\n".join([head, *own, ""])}


def install_commands(pip: str, lock: str = REQUIREMENTS_LOCK, own: str = PROGRAM_LOCK) -> list[str]:
    """Return the commands that install the program from its lock files into the environment of `pip`.

    The program itself is installed without a cache, because no hash verifies a wheel that pip built and cached.
    """
    return [
        f"{pip} install --quiet --require-hashes --requirement {lock}",
        f"{pip} install --quiet --no-cache-dir --no-deps --no-build-isolation --requirement {own}",
    ]


def _requirement_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def _merge_requirements(lines: list[str]) -> list[str]:
    """Return requirements without duplicates: a build requirement may be a runtime requirement too."""
    requirements: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        if not line.startswith(" "):
            name = line.split("==")[0]
            if name in requirements:
                name = ""
                continue
            requirements[name] = []
        if name:
            requirements[name].append(line)
    return [line for each in requirements.values() for line in each]
