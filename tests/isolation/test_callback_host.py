"""With a callback host, the gate accepts a login in the policy of the listener and no public route; without it, the reverse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import DAY, Allot, edit
from tests.support.gate_bed import BOUNDARIES

from allotment.isolation.boundary import Boundary
from allotment.isolation.published_policy import FileOwner, judge
from allotment.manifests.yaml_text import dump, load

PATH = "eu-1/tenants/solo-ada/compute/webui.rendered.yaml"
OWN = BOUNDARIES["eu-1"]
SHARED = OWN._replace(has_callback_host=True)


def policy(root: Path, allot: Allot, out: Path) -> Any:
    assert allot("render", "--repo", root, "--out", out, "--as-of", DAY).code == 0
    return next(manifest for manifest in load((out / PATH).read_bytes()) if manifest["kind"] == "SecurityPolicy")


def violations(boundary: Boundary, manifest: Any) -> list[str]:
    return list(judge(boundary, FileOwner("tenant", "solo-ada", "webui"), dump([manifest]).decode().removesuffix("\n")))


def test_a_policy_without_a_login_of_its_own_needs_one_in_the_listener(
    sample: Path, allot: Allot, tmp_path: Path
) -> None:
    host = "login.eu-1.gpu.northlight.example"
    client = "    clientID: allotment\n"
    edit(sample, "clusters/eu-1/cluster.yaml", client, f"{client}    callbackHost: {host}\n")
    merged = policy(sample, allot, tmp_path / "out")
    assert violations(SHARED, merged) == []
    assert violations(OWN, merged) == ["mergeType is set, but the listener of this cluster has no login"]


def test_no_published_route_stays_public_where_a_login_counts_for_all_hosts(
    sample: Path, allot: Allot, tmp_path: Path
) -> None:
    public = policy(sample, allot, tmp_path / "out")
    assert violations(SHARED, public) == [], "a policy of before, with a login of its own"
    public["spec"] = {"targetRefs": public["spec"]["targetRefs"], "authorization": {"defaultAction": "Allow"}}
    assert violations(OWN, public) == []
    assert violations(SHARED, public) == [
        "a route is public, although the login of this cluster counts for all its hosts"
    ]
