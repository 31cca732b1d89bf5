"""Another version changes the lines of the version and the digest, and no other line of a canonical file."""

from __future__ import annotations

import pytest

from allotment.declared.edit_version import is_older, with_version

FILE = """# why this one
apiVersion: allotment.dev/v1alpha1
kind: AddOn
metadata:
  name: own
spec:
  chart:  # of the registry
    repoURL: oci://registry.example/charts
    name: own
    version: %s  # the last that went well
  namespace: own
  values:
    version: 1.2.3
    z: 1
"""
DIGEST = f"sha256:{'0f' * 32}"


def test_only_the_version_changes() -> None:
    before, after = ((FILE % version).encode() for version in ("1.2.3", "1.2.4"))
    assert with_version(before, "1.2.4") == after


def test_a_digest_comes_on_a_line_of_its_own_and_is_replaced_there() -> None:
    before = (FILE % "1.2.3").encode()
    version, comment = b"    version: 1.2.4  # the last that went well\n", b"    digest: " + DIGEST.encode() + b"\n"
    once = with_version(before, "1.2.4", DIGEST)
    assert version + comment in once
    other = DIGEST.replace("0f", "a0")
    assert with_version(once, "1.2.4", other) == once.replace(DIGEST.encode(), other.encode())


def test_a_commit_that_looks_like_a_number_is_quoted() -> None:
    text = "spec:\n  manifests:\n    revision: " + "a" * 40 + "\n"
    assert with_version(text.encode(), "1" * 40) == text.replace("a" * 40, f'"{"1" * 40}"').encode()


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1.9.0", "1.10.0"),
        ("v1.21.1", "v1.21.2"),
        ("1.0.0-rc.1", "1.0.0"),
        ("1.0.0-rc.2", "1.0.0-rc.10"),
        ("1.0.0-1", "1.0.0-alpha"),
        ("0.20.0", "v1.0.0"),
    ],
)
def test_versions_are_ordered_as_semver_says(older: str, newer: str) -> None:
    assert is_older(older, newer)
    assert not is_older(newer, older)
    assert not is_older(f"{older}+build", older)
