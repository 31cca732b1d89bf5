"""Writes signed tags."""

from __future__ import annotations

from allotment.adapters.git.commands import QUIET_SETTINGS
from allotment.adapters.git.repository import Repository
from allotment.problems import OperationRefused

_MAX_OUTPUT = 800  # characters of Git's output


def write_signed_tag(repository: Repository, name: str, commit: str, message: str) -> str:
    """Write a tag of a commit into the repository with the configured signing key, and return its id.

    Replaces a tag with this name. Raises OperationRefused if Git can't sign.
    """
    options = ("--sign", "--force", "--cleanup=verbatim", "--file=-", "--end-of-options")
    settings = (*QUIET_SETTINGS, *repository.signing)
    ended = repository.git.run("tag", *options, name, commit, data=message.encode(), settings=settings)
    if ended.exit_code:
        reason = ended.stderr[-_MAX_OUTPUT:].strip()
        raise OperationRefused(
            f"Git couldn't sign the tag {name}: name a key with --signing-key, or set user.signingKey with git config: {reason}"
        )
    ref = f"refs/tags/{name}"
    target = repository.find_ref_targets(ref).get(ref)
    if target is None:
        raise OperationRefused(f"another command deleted the tag {name} in this clone: run the command again")
    return target


def delete_tag(repository: Repository, name: str) -> None:
    """Delete a tag of the repository, if it exists."""
    repository.git.run("tag", "--delete", name, settings=QUIET_SETTINGS)
