"""Two clusters with one destination are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import Allot, edit

CLUSTER = "clusters/us-1/cluster.yaml"
US = "    server: https://us-1.k8s.northlight.example:6443\n"


def set_destinations(root: Path, eu: str, us: str) -> None:
    edit(root, "clusters/eu-1/cluster.yaml", "    name: eu-1\n", f"    {eu}\n")
    edit(root, CLUSTER, US, f"    {us}\n")


@pytest.mark.parametrize(
    ("eu", "us"),
    [
        ("name: prod", "name: prod"),
        ("server: https://api.acme.dev", "server: https://api.acme.dev:443/"),
        ("server: https://api.acme.dev:6443/k8s", "server: https://api.acme.dev:6443/k8s/"),
        ("name: in-cluster", "server: https://kubernetes.default.svc"),
    ],
)
def test_a_destination_of_two_clusters_is_an_error(sample: Path, allot: Allot, eu: str, us: str) -> None:
    set_destinations(sample, eu, us)
    lines = allot("validate", "--repo", sample).lines
    (line,) = [line for line in lines if line.endswith("[destination]")]
    assert line == (
        f"{CLUSTER}:8:3: spec.destination: is the destination of cluster eu-1 too: both would change the same objects;"
        " name another [destination]"
    )


@pytest.mark.parametrize(
    ("eu", "us"),
    [
        ("name: prod", "name: prod-2"),
        ("server: https://api.acme.dev", "server: https://api.acme.dev:6443"),
        ("server: https://api.acme.dev/a", "server: https://api.acme.dev/b"),
    ],
)
def test_different_destinations_are_none(sample: Path, allot: Allot, eu: str, us: str) -> None:
    set_destinations(sample, eu, us)
    assert "[destination]" not in allot("validate", "--repo", sample).out
