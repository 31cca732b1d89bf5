"""The forges that pull requests are on. `FORGES` is the only registry."""

from __future__ import annotations

from typing import NamedTuple


class ForgeKind(NamedTuple):
    """A kind of forge: its module in `adapters/forge/`, the ref of a pull request's head in the target repository, the path
    of the CI that `allot init` writes, the parts of URLs that show a file and a folder, and whether every line of its
    CODEOWNERS that matches counts, as a regular expression."""

    module: str
    head: str
    workflow: str
    file: str
    folder: str
    has_owner_regexes: bool = False


FORGES = {
    "GitHub": ForgeKind("github", "refs/pull/{number}/head", ".github/workflows/allot.yaml", "blob", "tree"),
    "GitLab": ForgeKind("gitlab", "refs/merge-requests/{number}/head", ".gitlab-ci.yml", "-/blob", "-/tree"),
    "Gitea": ForgeKind(
        "gitea", "refs/pull/{number}/head", ".gitea/workflows/allot.yaml", "src/branch", "src/branch", True
    ),
    "Forgejo": ForgeKind(
        "gitea", "refs/pull/{number}/head", ".forgejo/workflows/allot.yaml", "src/branch", "src/branch", True
    ),
}
