"""Builds the addresses of files, commits and editors at the forge."""

from __future__ import annotations

from typing import NamedTuple

from allotment.declared.forges import FORGES, ForgeKind
from allotment.manifests.links import percent_encode

MAX_URL = 7_000  # characters; servers refuse longer addresses


class ForgeLinks(NamedTuple):
    """The addresses of a repository at its forge. `url` is the address of the repository without `.git`."""

    forge: str
    url: str
    branch: str

    @staticmethod
    def of_repository(forge: str, clone_url: str, branch: str) -> ForgeLinks:
        """Return the addresses of the repository with this clone URL."""
        return ForgeLinks(forge, clone_url.rstrip("/").removesuffix(".git"), branch)

    @property
    def name(self) -> str:
        """The last two parts of the address: the owner and the name of the repository."""
        return "/".join(self.url.split("/")[-2:])

    def commit(self, commit: str) -> str:
        """Return the address of a commit."""
        return f"{self.url}/{self._kind.commit}/{commit}"

    def file(self, path: str) -> str:
        """Return the address of a file on the branch."""
        return f"{self._of_branch(self._kind.file)}/{_encode_path(path)}"

    def editor(self, path: str) -> str:
        """Return the address that opens an existing file in the forge's editor."""
        return f"{self._of_branch(self._kind.edit)}/{_encode_path(path)}"

    def removal(self, path: str) -> str:
        """Return the address that removes an existing file."""
        return f"{self._of_branch(self._kind.remove)}/{_encode_path(path)}"

    @property
    def new_file(self) -> str:
        """The address that opens a new file in the forge's editor. Its query sets the path and the content."""
        return self._of_branch(self._kind.new)

    @property
    def new_file_fields(self) -> tuple[str, str]:
        """The fields of the query of `new_file`: for the path, and for the content; empty if the forge has no such field."""
        return self._kind.new_file_fields

    def pull_request(self, number: int) -> str:
        """Return the address of a pull request."""
        return f"{self.url}/{self._kind.pull_request}/{number}"

    @property
    def pull_requests(self) -> str:
        """The address of the list of pull requests."""
        return f"{self.url}/{self._kind.pull_requests}"

    @property
    def _kind(self) -> ForgeKind:
        return FORGES[self.forge]

    def _of_branch(self, segments: str) -> str:
        return f"{self.url}/{segments}/{_encode_path(self.branch)}"


def _encode_path(path: str) -> str:
    return "/".join(percent_encode(part) for part in path.split("/"))
