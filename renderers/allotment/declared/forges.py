"""Define the supported forges. `FORGES` is the only registry."""

from __future__ import annotations

from typing import Literal, NamedTuple


class ForgeKind(NamedTuple):
    """A kind of forge.

    `module` is the name of its module in `adapters/forge/`. `head` is the ref of a pull request's head in the target
    repository. `workflow` is the path of the CI file that `allot init` writes, and `pipeline` is the language of this
    file. `has_owner_regexes` says whether the patterns in CODEOWNERS are regular expressions instead of globs. If they
    are, every line that matches a path adds owners. Otherwise, only the last line that matches a path sets the owners.

    In the URLs of files and folders, `file` and `folder` are the segments before the name of the branch; so are `edit`
    and `new` in the URLs of the editor, and `remove` in the URL of the page that removes a file. `commit`, `pull_request` and `pull_requests` are the segments before a commit,
    before the number of a pull request, and of the list of pull requests. In the URL of a new file, `new_file_fields`
    are the fields of the query for the path and for the content; the field is empty if the forge has none.

    `caches_downloads` says whether jobs cache the downloads of pip. They do so only if the forge separates the caches of
    pull requests from the caches of the branch. `email` is the address of the author of commits that CI writes.
    """

    module: str
    head: str
    workflow: str
    file: str
    folder: str
    edit: str
    new: str
    remove: str
    commit: str = "commit"
    pull_request: str = "pulls"
    pull_requests: str = "pulls"
    new_file_fields: tuple[str, str] = ("filename", "value")
    pipeline: Literal["Actions", "GitLab"] = "Actions"
    caches_downloads: bool = False
    email: str = "allotment@localhost"
    has_owner_regexes: bool = False


_GITEA = ForgeKind(
    "gitea",
    "refs/pull/{number}/head",
    ".gitea/workflows/allot.yaml",
    file="src/branch",
    folder="src/branch",
    edit="_edit",
    new="_new",
    remove="_delete",
    has_owner_regexes=True,
)
FORGES = {
    "GitHub": ForgeKind(
        "github",
        "refs/pull/{number}/head",
        ".github/workflows/allot.yaml",
        file="blob",
        folder="tree",
        edit="edit",
        new="new",
        remove="delete",
        pull_request="pull",
        caches_downloads=True,
        email="allotment@users.noreply.github.com",
    ),
    "GitLab": ForgeKind(
        "gitlab",
        "refs/merge-requests/{number}/head",
        ".gitlab-ci.yml",
        file="-/blob",
        folder="-/tree",
        edit="-/edit",
        new="-/new",
        remove="-/blob",  # the page of the file has a button
        commit="-/commit",
        pull_request="-/merge_requests",
        pull_requests="-/merge_requests",
        new_file_fields=("file_name", ""),
        pipeline="GitLab",
        caches_downloads=True,
    ),
    "Gitea": _GITEA,
    "Forgejo": _GITEA._replace(workflow=".forgejo/workflows/allot.yaml"),
}
