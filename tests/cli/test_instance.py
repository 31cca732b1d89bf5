"""`allot instance open`: the URL of a port, the SSH command, and what it says if there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import Allot, checked, edit
from tests.support.published import Place
from tests.support.unmerged_branch import check_out_branch

WEBUI, CLUSTER = "tenants/solo-ada/instances/webui.yaml", "clusters/eu-1/cluster.yaml"
URL = "https://webui--solo-ada.eu-1.gpu.northlight.example/"
SSH = "ssh webui--solo-ada@ssh.eu-1.gpu.northlight.example"
HOST = "    host: ssh.eu-1.gpu.northlight.example\n"
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJKnB5nhnYc0/s+45ZqpMOnzhvdkUFmh8vBOuEg8m18d"


def test_instance_open_prints_the_url(sample: Path, allot: Allot) -> None:
    result = allot("instance", "open", "solo-ada/webui", "--repo", sample)
    assert (result.code, result.out, result.err) == (0, f"{URL}\n", "")


def test_instance_open_prints_the_ssh_command(sample: Path, allot: Allot) -> None:
    result = allot("instance", "open", "solo-ada/webui", "--ssh", "--repo", sample)
    assert (result.code, result.out, result.err) == (0, f"{SSH}\n", "")
    edit(sample, CLUSTER, HOST, f"{HOST}    port: 2222\n    hostKey: {HOST_KEY}\n")
    result = allot("instance", "open", "solo-ada/webui", "--ssh", "--repo", sample)
    assert (result.code, result.out) == (0, f"{SSH.replace('ssh ', 'ssh -p 2222 ', 1)}\n")
    assert result.err == "The key of the host has the fingerprint SHA256:wM+KAUPk29f5bI3yPxv2HmNuVmdfNFA2ChqI4V14T/A\n"


def test_a_branch_names_no_host(published: Place, allot: Allot) -> None:
    check_out_branch(published, (CLUSTER, HOST, "    host: ssh.elsewhere.example\n"))
    result = allot("instance", "open", "solo-ada/webui", "--ssh", "--repo", published.root)
    assert (result.code, result.out) == (0, f"{SSH}\n"), result.err


def test_instance_open_prints_all_addresses_as_json(sample: Path, allot: Allot) -> None:
    output = checked("instance", allot("instance", "open", "solo-ada/webui", "-o", "json", "--repo", sample).out)
    assert output["urls"] == [{"port": "http", "url": URL, "exposure": "Members"}]
    assert output["ssh"] == {
        "command": SSH,
        "user": "webui--solo-ada",
        "host": "ssh.eu-1.gpu.northlight.example",
        "port": 22,
        "hostKey": None,
        "fingerprint": None,
    }
    trainer = allot("instance", "open", "film-house/train-river", "-o", "json", "--repo", sample)
    assert json.loads(trainer.out)["ssh"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["webui"], "webui is not in the format TENANT/NAME"),
        (["solo-ada/webu"], "solo-ada declares no valid instance named 'webu'; did you mean 'webui'?"),
        (["solo-adda/webui"], "no tenant is named 'solo-adda'; did you mean 'solo-ada'?"),
        (["solo-ada/webui", "--port", "api"], "has no exposed port named 'api'; its exposed ports: http"),
        (["solo-ada/webui", "--port", "http", "--ssh"], "--ssh and --port exclude each other"),
        (
            ["studio-kite/comfy", "--ssh"],
            "studio-kite/comfy has no SSH: write `access: [SSH]` in tenants/studio-kite/instances/comfy.yaml, or open a"
            " shell by `allot exec studio-kite/comfy`",
        ),
        (
            ["ml-orbit/pretrain", "--ssh"],
            "the cluster of ml-orbit/pretrain has no SSH gateway: open a shell by `allot exec",
        ),
        (["ml-orbit/pretrain"], "ml-orbit/pretrain has no URL: write `exposure: Members` at a port in"),
    ],
)
def test_instance_open_explains_a_missing_address(sample: Path, allot: Allot, words: list[str], message: str) -> None:
    result = allot("instance", "open", *words, "--repo", sample)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_an_app_that_cannot_be_read_says_so(sample: Path, allot: Allot) -> None:
    (sample / "platform/apps/stable-diffusion-webui.yaml").unlink()
    result = allot("instance", "open", "solo-ada/webui", "--repo", sample)
    assert (result.code, result.out) == (2, "")
    assert f"the cluster or the app of {WEBUI} can't be read: `allot validate` shows the reason" in result.err
