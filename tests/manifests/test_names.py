"""Names: injective, and short enough for one DNS label."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

from allotment.manifests.names import application, files_host, instance_host, namespace

# Words that other names are made of, and those that we put between names: every thing of them, with every other.
NAMES = ("aaa", "bbb", "aaa-bbb", "bbb-aaa", "files", "http", "files-aaa", "aaa-files", "aaa-http", "http-aaa")
PORTS = tuple(one for one in NAMES if one != "files")


def test_hosts_are_injective() -> None:
    things: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for tenant, name in product(NAMES, NAMES):
        things[files_host(name, tenant, "d.example")].add(("files", name, tenant))
        for port in PORTS:
            things[instance_host(name, port, tenant, "d.example")].add(("port", name, port, tenant))
    assert len(things) == len(NAMES) ** 2 * (1 + len(PORTS))
    assert [several for several in things.values() if len(several) > 1] == []


def test_the_longest_names_fit() -> None:
    tenant, instance, cluster, storage, port = "t" * 20, "i" * 24, "c" * 24, "s" * 32, "p" * 15
    assert len(instance_host(instance, port, tenant, "d").split(".")[0]) == 63
    assert len(files_host(storage, tenant, "d").split(".")[0]) <= 63
    assert len(application(tenant, cluster, "storage")) <= 63
    assert len(namespace(tenant)) <= 63
