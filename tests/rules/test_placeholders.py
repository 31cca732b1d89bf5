"""Placeholders are warnings: once for each domain that nobody has, and for each digest of one digit."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import DAY, Allot, edit, own

PLATFORM = "platform/platform.yaml"
DIGEST = "5b1f0a39e2d4c7b8a6950e1f2d3c4b5a69788796a5b4c3d2e1f0a1b2c3d4e5f6"


def warnings(root: Path, allot: Allot) -> list[str]:
    result = allot("validate", "--repo", root, "--as-of", DAY)
    assert result.code == 0, "a warning"
    return [line for line in result.lines if line.endswith("[placeholder]")]


def test_a_sample_is_told_what_isnt_its_own(sample: Path, allot: Allot) -> None:
    assert warnings(sample, allot) == [
        "platform/apps/comfyui.yaml:11:16: spec.versions[0].container.image: warning: 'registry.example' is a"
        " placeholder, here and in 9 more files: write your own [placeholder]",
        "platform/platform.yaml:21:10: spec.argocd.url: warning: 'northlight.example' is a placeholder, here and in 2"
        " more files: write your own [placeholder]",
    ]
    elsewhere = allot("validate", "--repo", sample, "--as-of", DAY, sample / "clusters/us-1/cluster.yaml")
    assert "'northlight.example' is a placeholder" in elsewhere.out, "each file that has one says so"


def test_a_digest_of_one_digit_is_nobodys(sample: Path, allot: Allot) -> None:
    edit(
        sample,
        PLATFORM,
        f"registry.example/mirror/dufs:v0.46.0@sha256:{DIGEST}",
        f"ghcr.io/dufs:v0.46.0@sha256:{64 * '0'}",
    )
    line = f"{PLATFORM}:19:12: spec.images.files: warning: 'sha256:{64 * '0'}' is a placeholder: write your own [placeholder]"
    assert line in warnings(sample, allot)


def test_validate_ignores_own_domains_and_mentions_in_text(sample: Path, allot: Allot) -> None:
    own(sample)
    edit(sample, PLATFORM, "displayName: Northlight GPU cloud", "displayName: once.northlight.example")
    edit(sample, PLATFORM, "https://argocd.northlight.dev", "https://example.northlight.dev/a.example")
    assert warnings(sample, allot) == []
