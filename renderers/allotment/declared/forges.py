"""Define the supported forges. `FORGES` is the only registry."""

from __future__ import annotations

from typing import NamedTuple


class ForgeKind(NamedTuple):
    """A kind of forge.

    `module` is the name of its module in `adapters/forge/`. `head` is the ref of a pull request's head in the target
    repository. `workflow` is the path of the CI file that `allot init` writes. `file` and `folder` are the parts of
    URLs that show a file or a folder. `has_owner_regexes` says whether CODEOWNERS of the forge has regular
    expressions instead of glob patterns. Such a forge adds the owners of all lines that match a path.
    """

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
