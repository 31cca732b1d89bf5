"""`allot add-on`: a table of what is pinned, and another version in one file."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Allot

CERT_MANAGER = "platform/add-ons/cert-manager.yaml"


def test_add_on_list_prints_a_table(sample: Path, allot: Allot) -> None:
    result = allot("add-on", "list", "--repo", sample)
    assert (result.code, result.err) == (0, "")
    lines = [line.split() for line in result.out.splitlines()]
    assert lines[0] == ["NAME", "VERSION", "WAVE", "NAMESPACE", "CLUSTERS", "SOURCE"]
    cert_manager = ["cert-manager", "v1.21.2", "0", "cert-manager", "all", "https://charts.jetstack.io/cert-manager"]
    assert cert_manager in lines
    assert ["karpenter", "1.14.1", "0", "karpenter", "us-1", "oci://public.ecr.aws/karpenter/karpenter"] in lines


def test_add_on_list_prints_json(sample: Path, allot: Allot) -> None:
    output = json.loads(allot("add-on", "list", "--repo", sample, "-o", "json").out)
    assert output["kind"] == "AddOnOutput"
    assert {
        "name": "karpenter",
        "path": "platform/add-ons/karpenter.yaml",
        "type": "Chart",
        "source": "oci://public.ecr.aws/karpenter/karpenter",
        "version": "1.14.1",
        "digest": None,
        "namespace": "karpenter",
        "clusters": ["us-1"],
        "wave": 0,
        "was": None,
    } in output["addOns"]


def test_add_on_list_reports_an_invalid_file_and_lists_the_rest(sample: Path, allot: Allot) -> None:
    path = sample / CERT_MANAGER
    path.write_text(path.read_text().replace("v1.21.2", "latest"))
    result = allot("add-on", "list", "--repo", sample)
    assert result.code == 1
    assert result.err.startswith(f"{CERT_MANAGER}:11:14: spec.chart.version: 'latest' is not allowed here")
    assert "karpenter" in result.out


def test_an_upgrade_writes_the_version_and_nothing_else(sample: Path, allot: Allot) -> None:
    path = sample / CERT_MANAGER
    before = path.read_bytes()
    result = allot("add-on", "upgrade", "cert-manager", "v1.22.0", "--repo", sample)
    assert (result.code, result.out) == (0, f"{CERT_MANAGER}: v1.21.2 → v1.22.0\n")
    assert path.read_bytes() == before.replace(b"version: v1.21.2", b"version: v1.22.0")
    repeated_upgrade = allot("add-on", "upgrade", "cert-manager", "v1.22.0", "--repo", sample)
    assert (repeated_upgrade.code, repeated_upgrade.out) == (0, f"{CERT_MANAGER}: is v1.22.0 already\n")


def test_an_upgrade_writes_through_no_link(sample: Path, allot: Allot, tmp_path: Path) -> None:
    """A pull request may replace a folder by a link to another clone."""
    (sample / "platform/add-ons").rename(tmp_path / "add-ons")
    (sample / "platform/add-ons").symlink_to(tmp_path / "add-ons")
    before = (tmp_path / "add-ons/cert-manager.yaml").read_bytes()
    assert allot("add-on", "upgrade", "cert-manager", "v1.22.0", "--repo", sample).code != 0
    (sample / "platform").rename(tmp_path / "platform")
    (sample / "platform").symlink_to(tmp_path / "platform")
    (tmp_path / "platform/add-ons").unlink()
    (tmp_path / "add-ons").rename(tmp_path / "platform/add-ons")
    assert allot("add-on", "upgrade", "cert-manager", "v1.22.0", "--repo", sample).code != 0
    assert (tmp_path / "platform/add-ons/cert-manager.yaml").read_bytes() == before


def test_going_back_is_refused_unless_it_is_meant(sample: Path, allot: Allot) -> None:
    words = ("add-on", "upgrade", "cert-manager", "v1.20.9", "--repo", sample)
    result = allot(*words)
    assert (result.code, result.out) == (2, "")
    assert "v1.20.9 is older than v1.21.2: add --force" in result.err
    assert allot(*words, "--force").out == f"{CERT_MANAGER}: v1.21.2 → v1.20.9\n"


def test_add_on_upgrade_refuses_unknown_names_and_invalid_pins(sample: Path, allot: Allot) -> None:
    before = (sample / CERT_MANAGER).read_bytes()
    for words, why in (
        (("cert-manger", "v1.22.0"), "no add-on is named 'cert-manger'; did you mean 'cert-manager'?"),
        (("cert-manager", "latest"), "'latest' is not an exact version: write a version such as v1.21.2"),
        (
            ("cert-manager", "v1.22.0", "--digest", f"sha256:{'0f' * 32}"),
            "Argo CD checks no digest of an https:// chart",
        ),
        (("karpenter", "1.14.2", "--digest", "sha256:0f"), "'sha256:0f' is not a digest"),
        (
            ("karpenter", "v1.14.2"),
            "v1.14.2 has a different prefix than 1.14.1: write 1.14.2, or add --force if the chart has version",
        ),
        (
            ("cert-manager", "1.22.0"),
            "1.22.0 has a different prefix than v1.21.2: write v1.22.0, or add --force if the chart has version",
        ),
    ):
        result = allot("add-on", "upgrade", *words, "--repo", sample)
        assert (result.code, result.out) == (2, "")
        assert why in result.err
    assert (sample / CERT_MANAGER).read_bytes() == before


def test_a_digest_is_written_beside_the_version_and_asked_for_ever_after(sample: Path, allot: Allot) -> None:
    digest = f"sha256:{'0f' * 32}"
    result = allot("add-on", "upgrade", "karpenter", "1.14.2", "--digest", digest, "--repo", sample, "-o", "json")
    (add_on,) = json.loads(result.out)["addOns"]
    assert (add_on["version"], add_on["digest"], add_on["was"]) == ("1.14.2", digest, "1.14.1")
    later = allot("add-on", "upgrade", "karpenter", "1.14.3", "--repo", sample)
    assert later.code == 2
    assert "pins the chart by digest, and version 1.14.3 has a different digest: add --digest" in later.err


def test_ready_made_ones_are_added_as_the_sample_has_them(sample: Path, allot: Allot) -> None:
    folder = sample / "platform/add-ons"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name in ("cert-manager", "karpenter"):
        (folder / f"{name}.yaml").unlink()
    result = allot("add-on", "add", "cert-manager", "karpenter", "--repo", sample)
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "platform/add-ons/cert-manager.yaml: v1.21.2",
        "platform/add-ons/karpenter.yaml: 1.14.1; it names the clusters us-1: replace them with yours",
    ]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_none_is_overwritten_and_a_wrong_name_is_told(sample: Path, allot: Allot) -> None:
    (sample / "platform/add-ons/karpenter.yaml").unlink()
    result = allot("add-on", "add", "karpenter", "cert-manager", "--repo", sample)
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "allot: platform/add-ons/cert-manager.yaml exists: `allot add-on upgrade` writes another version into it\n"
    )
    assert not (sample / "platform/add-ons/karpenter.yaml").exists(), "all or none"
    result = allot("add-on", "add", "cert-manger", "--repo", sample)
    assert result.err == "allot: no ready-made add-on is named 'cert-manger'; did you mean 'cert-manager'?\n"
