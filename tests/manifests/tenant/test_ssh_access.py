"""SSH access becomes a ConfigMap and a RoleBinding in the namespace of the tenant, only where an instance declares it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import DAY, Allot, edit
from tests.support.rendered_tree import misfits

from allotment.manifests.yaml_text import load

MEMBERS = "tenants/solo-ada/members.yaml"
INSTANCE = "tenants/solo-ada/instances/webui.yaml"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP3uQw1AvVfe6sGGzZeQAz0PBvkJqIBufObnF6t8fVAp"
OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJKnB5nhnYc0/s+45ZqpMOnzhvdkUFmh8vBOuEg8m18d"


def render(allot: Allot, root: Path, tenant: str = "solo-ada") -> dict[str, dict[str, Any]]:
    """Return the objects for the SSH gateway in the tenant's namespace file, by kind."""
    result = allot("render", "--repo", root, "--out", root / "out", "--as-of", DAY)
    assert result.code == 0, result
    file = root / f"out/eu-1/control/namespaces/{tenant[0]}/{tenant}.rendered.yaml"
    objects = load(file.read_bytes())
    return {manifest["kind"]: manifest for manifest in objects if manifest["metadata"]["name"] == "allot-ssh"}


def test_the_gateway_learns_keys_and_instances(sample: Path, allot: Allot) -> None:
    objects = render(allot, sample)
    assert sorted(objects) == ["ConfigMap", "RoleBinding"]
    assert [misfits(manifest) for manifest in objects.values()] == [[], []]
    assert objects["ConfigMap"]["metadata"]["namespace"] == "t-solo-ada"
    assert objects["ConfigMap"]["data"] == {"authorized_keys": f"{KEY} ada\n", "instances": "webui\n"}
    assert objects["RoleBinding"]["roleRef"]["name"] == "allotment-ssh"
    assert objects["RoleBinding"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "allot-ssh", "namespace": "allotment"}
    ]


def test_only_admins_and_members_have_keys_with_their_names_as_comments(sample: Path, allot: Allot) -> None:
    edit(
        sample,
        MEMBERS,
        f"        - {KEY}\n",
        f"        - {KEY} laptop@home\n    - name: eve\n      role: Viewer\n      sshKeys:\n        - {OTHER_KEY}\n",
    )
    assert render(allot, sample)["ConfigMap"]["data"]["authorized_keys"] == f"{KEY} ada\n"


def test_addresses_of_the_tenant_apply_to_ssh(sample: Path, allot: Allot) -> None:
    edit(
        sample,
        "tenants/solo-ada/tenant.yaml",
        "\nspec:\n",
        "\nspec:\n  allowedCIDRs:\n    - 203.0.113.0/24\n    - 198.51.100.0/24\n",
    )
    assert render(allot, sample)["ConfigMap"]["data"]["allowed_cidrs"] == "198.51.100.0/24\n203.0.113.0/24\n"


def test_no_access_without_an_instance_that_declares_it(sample: Path, allot: Allot) -> None:
    edit(sample, INSTANCE, "  access:\n    - SSH\n", "")
    assert render(allot, sample) == {}
    assert render(allot, sample, "ml-orbit") == {}
