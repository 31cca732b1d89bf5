"""The rule of SSH access: the cluster has a gateway, and somebody has a key."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import DAY, Allot, edit, errors

INSTANCE, MEMBERS = "tenants/solo-ada/instances/webui.yaml", "tenants/solo-ada/members.yaml"
GATEWAY = "  ssh:\n    host: ssh.eu-1.gpu.northlight.example\n"
KEYS = "      sshKeys:\n        - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP3uQw1AvVfe6sGGzZeQAz0PBvkJqIBufObnF6t8fVAp\n"


def test_a_cluster_without_a_gateway_has_no_ssh(sample: Path, allot: Allot) -> None:
    edit(sample, "clusters/eu-1/cluster.yaml", GATEWAY, "")
    assert errors(allot("validate", "--repo", sample, "--as-of", DAY)) == [
        f"{INSTANCE}:13:7: spec.access[0]: cluster eu-1 has no SSH gateway: the platform team declares spec.ssh in"
        " clusters/eu-1/cluster.yaml; until then, `allot exec` opens a shell [ssh]"
    ]


def test_an_instance_that_nobody_can_reach_is_a_warning(sample: Path, allot: Allot) -> None:
    edit(sample, MEMBERS, KEYS, "")
    result = allot("validate", "--repo", sample, "--as-of", DAY)
    assert result.code == 0, result
    assert (
        f"{INSTANCE}:13:7: spec.access[0]: warning: no Admin or Member of the tenant has an SSH key: add sshKeys to a user in"
        f" {MEMBERS} [ssh]" in result.out.splitlines()
    )


def test_the_key_of_a_viewer_opens_nothing(sample: Path, allot: Allot) -> None:
    edit(sample, MEMBERS, "role: Admin", "role: Viewer")
    result = allot("validate", "--repo", sample, "--as-of", DAY)
    assert f"{INSTANCE}:13:7: spec.access[0]: warning: no Admin or Member" in result.out


def test_a_viewer_with_a_key_is_a_warning(sample: Path, allot: Allot) -> None:
    edit(sample, MEMBERS, "role: Admin", "role: Viewer")
    lines = allot("validate", "--repo", sample, "--as-of", DAY).out.splitlines()
    assert (
        f"{MEMBERS}:12:7: spec.users[0].sshKeys: warning: ada is a Viewer, who can't connect by SSH: remove the keys, or change the"
        " role [ssh]" in lines
    )
