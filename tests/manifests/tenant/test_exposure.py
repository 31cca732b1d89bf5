"""Who may open the URLs of a tenant: its members after a login, everybody, and only from the addresses that it declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import DAY, Allot, edit

from allotment.manifests.yaml_text import load

RANGES = '\n  allowedCIDRs:\n    - "2001:db8:5::/48"\n    - 203.0.113.0/24\n    - 203.0.113.0/24'
SORTED_RANGES = ["2001:db8:5::/48", "203.0.113.0/24"]


def authorization(allot: Allot, root: Path, out: Path, file: str, is_public: bool = False) -> dict[str, Any]:
    result = allot("render", "--repo", root, "--out", out, "--as-of", DAY)
    assert result.code == 0, result
    manifests = load((out / f"{file}.rendered.yaml").read_bytes())
    policy = next(o for o in manifests if o["kind"] == "SecurityPolicy" and ("oidc" in o["spec"]) is not is_public)
    rules: dict[str, Any] = policy["spec"]["authorization"]
    return rules


def test_a_member_must_come_from_an_allowed_address(sample: Path, allot: Allot, tmp_path: Path) -> None:
    file = "eu-1/tenants/studio-kite/compute/webui"
    before = authorization(allot, sample, tmp_path / "before", file)
    assert before["rules"] and not any("clientCIDRs" in rule["principal"] for rule in before["rules"])
    edit(sample, "tenants/studio-kite/tenant.yaml", "plan: team", f"plan: team{RANGES}")
    after = authorization(allot, sample, tmp_path / "after", file)
    assert after == {
        "defaultAction": "Deny",
        "rules": [
            {**rule, "principal": {**rule["principal"], "clientCIDRs": SORTED_RANGES}} for rule in before["rules"]
        ],
    }


def test_a_public_port_is_open_to_the_allowed_addresses_only(sample: Path, allot: Allot, tmp_path: Path) -> None:
    file = "us-1/tenants/acme-robotics/compute/simulate"
    assert authorization(allot, sample, tmp_path / "before", file, is_public=True) == {"defaultAction": "Allow"}
    plan = "plan: enterprise"
    edit(sample, "tenants/acme-robotics/tenant.yaml", plan, f"{plan}{RANGES}")
    assert authorization(allot, sample, tmp_path / "after", file, is_public=True) == {
        "defaultAction": "Deny",
        "rules": [{"name": "addresses", "action": "Allow", "principal": {"clientCIDRs": SORTED_RANGES}}],
    }
