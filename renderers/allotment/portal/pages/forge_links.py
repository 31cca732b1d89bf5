"""Builds the addresses of files, commits and editors at the forge."""

from __future__ import annotations

from typing import NamedTuple

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
        return f"{self.url}/-/commit/{commit}" if self.forge == "GitLab" else f"{self.url}/commit/{commit}"

    def file(self, path: str) -> str:
        """Return the address of a file on the branch."""
        return f"{self._base('blob', 'src/branch')}/{_encode_path(path)}"

    def editor(self, path: str) -> str:
        """Return the address that opens an existing file in the forge's editor."""
        return f"{self._base('edit', '_edit')}/{_encode_path(path)}"

    @property
    def new_file(self) -> str:
        """The address that opens a new file in the forge's editor. Its query sets the path and the content."""
        return self._base("new", "_new")

    @property
    def new_file_fields(self) -> tuple[str, str]:
        """The fields of the query of `new_file`: for the path, and for the content; empty if the forge has no such field."""
        return ("file_name", "") if self.forge == "GitLab" else ("filename", "value")

    def pull_request(self, number: int) -> str:
        """Return the address of a pull request."""
        return f"{self.pull_requests.removesuffix('s') if self.forge == 'GitHub' else self.pull_requests}/{number}"

    @property
    def pull_requests(self) -> str:
        """The address of the list of pull requests."""
        names = {"GitHub": "pulls", "GitLab": "-/merge_requests"}
        return f"{self.url}/{names.get(self.forge, 'pulls')}"

    def _base(self, action: str, gitea_action: str) -> str:
        branch = _encode_path(self.branch)
        if self.forge == "GitHub":
            return f"{self.url}/{action}/{branch}"
        return f"{self.url}/-/{action}/{branch}" if self.forge == "GitLab" else f"{self.url}/{gitea_action}/{branch}"


def _encode_path(path: str) -> str:
    return "/".join(percent_encode(part) for part in path.split("/"))
