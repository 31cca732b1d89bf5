"""Checks SSH signatures and reads SSH keys with ssh-keygen."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from allotment.adapters.credential_files import read_credential_file
from allotment.adapters.git.commands import ENVIRONMENT
from allotment.problems import OperationRefused, escape_unprintable

# The exit status and the text of ssh-keygen for a signature that is not good. After other errors, it ends with 255 too.
_REFUSED, _REFUSED_TEXT = 255, b"Could not verify signature"


class SignaturesUnavailable(OperationRefused):
    """This machine can neither make nor check signatures, so nothing is known about the signature of a commit."""


def read_public_key(key: Path) -> str:
    """Return the public key of a private SSH key. Raises OperationRefused and SignaturesUnavailable."""
    if read_credential_file(key).startswith(("ssh-", "ecdsa-", "sk-")):
        raise OperationRefused(f"{key} is the public half of a key: name the private key")
    _require_ssh_keygen()
    done = _run_ssh_keygen("-y", "-P", "", "-f", str(key.resolve()))
    if done.returncode:
        reason = escape_unprintable(_decode(done.stderr).rpartition("\n")[2], 200)
        raise OperationRefused(f"{key} is not a private SSH key without a passphrase: {reason}")
    return _decode(done.stdout)


def verify_signature(payload: bytes, signature: bytes, key: str) -> bool:
    """Return whether a signature of a text is by the owner of a public SSH key.

    Git's own check ends alike for a wrong signature and for a check that failed, and its words may be those of a stranger.
    Raises SignaturesUnavailable.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="allot-signature-") as folder:
            signers, file = Path(folder, "signers"), Path(folder, "signature")
            signers.write_text(f'signer namespaces="git" {key.strip()}\n', encoding="utf-8")
            file.write_bytes(signature)
            words = ("-Y", "verify", "-n", "git", "-I", "signer", "-f", str(signers), "-s", str(file))
            done = _run_ssh_keygen(*words, data=payload)
    except OSError as error:
        raise SignaturesUnavailable(f"signatures can't be checked: {error.strerror}") from None
    if done.returncode == 0:
        return True
    if done.returncode == _REFUSED and _REFUSED_TEXT in done.stdout:
        return False
    _require_ssh_keygen()
    reason = f" with {escape_unprintable(_decode(done.stderr), 200)!r}" if done.stderr else ""
    raise SignaturesUnavailable(
        f"signatures can't be checked: ssh-keygen ended with status {done.returncode}{reason}: try again"
    )


def _run_ssh_keygen(*arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run ssh-keygen with `data` as its input. Raises SignaturesUnavailable if it can't be started."""
    try:
        return subprocess.run(  # noqa: S603  # no argument is from a stranger
            ["ssh-keygen", *arguments],  # noqa: S607
            input=data,
            env={**os.environ, **ENVIRONMENT},
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise SignaturesUnavailable(
            f"signatures can't be checked: ssh-keygen can't be started ({error.strerror}): install the client of OpenSSH"
        ) from None


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip()


def _require_ssh_keygen() -> None:
    """Raise SignaturesUnavailable if ssh-keygen always fails, as for a user without a line in /etc/passwd."""
    done = _run_ssh_keygen("-F", "host", "-f", os.devnull)  # searches an empty file: 1 if nothing is found
    if done.returncode not in (0, 1):
        raise SignaturesUnavailable(
            f"signatures can't be checked: ssh-keygen fails with {escape_unprintable(_decode(done.stderr))!r}: give this user a"
            " line in /etc/passwd"
        )
