"""Define the supported forges. `FORGES` is the only registry."""

from __future__ import annotations

from typing import NamedTuple


class ForgeKind(NamedTuple):
    """A kind of forge.

    `module` is the name of its module in `adapters/forge/`. `head` is the ref of a pull request's head in the target
    repository. `workflow` is the path of the CI file that `allot init` writes. In the URLs of files and folders, `file`
    and `folder` are the segments before the name of the branch. `has_owner_regexes` says whether the patterns in
    CODEOWNERS are regular expressions instead of globs. If they are, every line that matches a path adds owners.
    Otherwise, only the last line that matches a path sets the owners.
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
