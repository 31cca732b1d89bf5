"""What a world could leave on the machine: looked at before it begins, and after it ended."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.controlplane import debian, node
from tests.controlplane.world import Link

LINK = re.compile(r"\ballot[0-9]+\b")


def traces(folder: Path, link: Link | None = None) -> dict[str, object]:
    """Return what the world of a folder could leave on the machine: links, addresses, routes, mounts, cgroups, tables of
    nftables, and settings.

    `link` is the link of this world. Lines about links of other worlds are left out: these begin and end at any time, and one
    may have taken the name of this world's link.
    """
    own_links = {link.name} if link and link.exists() else set()

    def list_network(what: str) -> list[str]:
        lines = subprocess.run(["ip", "-o", what], capture_output=True, text=True, check=True).stdout.splitlines()
        return [line for line in lines if {*LINK.findall(line)} <= own_links]

    groups = sorted(str(path) for path in Path("/sys/fs/cgroup").glob(f"*/allotment{str(folder).replace('/', '-')}"))
    settings = {
        name: Path("/proc/sys", name).read_text(encoding="ascii") for name in (*node.SETTINGS, "net/ipv4/ip_forward")
    }
    environment = {**os.environ, "LD_LIBRARY_PATH": str(debian.library_path("nft"))}
    nft = [str(debian.folder("nft") / "usr" / "sbin" / "nft"), "list", "tables"]
    settings["tables"] = subprocess.run(nft, capture_output=True, text=True, check=True, env=environment).stdout
    network_state = {what: list_network(what) for what in ("link", "addr", "route")}
    return {
        **network_state,
        "mounts": Path("/proc/self/mounts").read_text(encoding="utf-8"),
        "groups": groups,
        **settings,
    }
