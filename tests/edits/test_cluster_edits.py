"""`cluster_edits` writes clusters and node pools, and names the values that the team must still supply."""

from __future__ import annotations

import re

import pytest
from tests.conftest import PROJECT

from allotment.adapters.folder_source import FolderSource
from allotment.edits.cluster_edits import add_cluster, add_pool
from allotment.edits.new_declaration import InvalidField
from allotment.problems import OperationRefused
from allotment.services.changes.declared_files import open_declarations

DECLARED = open_declarations(FolderSource(PROJECT))
CLUSTER = {
    "domain": "us-2.gpu.acme.dev",
    "oidc_issuer": "https://id.acme.dev",
    "destination": None,
    "disk_storage_class": None,
}
POOL = {"gpu": "nvidia-l4", "gpu_count": "4", "cpu": "46", "memory": "190Gi", "nodes": "2", "node_selector": ()}
BLANK = re.compile(r"Replace (\S+) in (\S+):(\d+): .*\.")


def test_a_cluster_has_the_given_values_and_lists_the_others() -> None:
    change = add_cluster(DECLARED, "us-2", CLUSTER)
    path = "clusters/us-2/cluster.yaml"
    assert (change.title, change.resources, [*change.files]) == ("Add cluster us-2", ("Cluster us-2",), [path])
    lines = (change.files[path] or b"").decode().splitlines()
    blanks = [match for note in change.notes if (match := BLANK.fullmatch(note))]
    assert [match[1] for match in blanks] == [
        "spec.destination.name",
        "spec.gateway.name",
        "spec.oidc.clientID",
        "spec.oidc.clientSecretRef.name",
        "spec.diskStorageClassName",
    ]
    for match in blanks:
        assert match[2] == path
        assert lines[int(match[3]) - 1].strip().startswith(f"{match[1].split('.')[-1]}:")
    assert "  domain: us-2.gpu.acme.dev" in lines


def test_a_given_value_is_no_blank() -> None:
    change = add_cluster(DECLARED, "us-2", CLUSTER | {"destination": "prod", "disk_storage_class": "gp3"})
    text = (change.files["clusters/us-2/cluster.yaml"] or b"").decode()
    assert "    name: prod\n" in text
    assert "diskStorageClassName: gp3\n" in text
    assert [note for note in change.notes if "destination" in note or "diskStorageClassName" in note] == []


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("eu-1", {}, "clusters/eu-1/cluster.yaml exists already: choose another name"),
        ("us-2", {"domain": "us_"}, "spec.domain: 'us_' is not allowed"),
        ("us-2", {"oidc_issuer": "http://id.acme.dev"}, "spec.oidc.issuer: 'http://id.acme.dev' is not allowed here"),
        ("u" * 25, {}, "has 25 characters: write 3 to 24"),
        ("u", {}, "has 1 character: write 3 to 24"),
    ],
)
def test_a_wrong_cluster_is_refused(name: str, values: dict[str, str], message: str) -> None:
    with pytest.raises(OperationRefused, match=re.escape(message)):
        add_cluster(DECLARED, name, CLUSTER | values)


def test_a_pool_without_a_selector_has_its_name_as_a_blank() -> None:
    change = add_pool(DECLARED, "eu-1", "l4-more", POOL)
    assert change.files == {
        "clusters/eu-1/node-pools/l4-more.yaml": b"""\
# yaml-language-server: $schema=../../../schemas/NodePool.schema.json
apiVersion: allotment.dev/v1alpha1
kind: NodePool
metadata:
  name: l4-more
spec:
  node:
    gpu:
      model: nvidia-l4
      count: 4
    cpu: 46
    memory: 190Gi
  static:
    nodes: 2
    nodeSelector:
      pool: l4-more
"""
    }
    assert (change.title, change.resources) == ("Add node pool eu-1/l4-more", ("NodePool eu-1/l4-more",))
    assert [note.split(":")[0] for note in change.notes] == [
        "Replace spec.static.nodeSelector in clusters/eu-1/node-pools/l4-more.yaml",
        "No tenant can hold its units yet",
    ]
    given = add_pool(DECLARED, "eu-1", "l4-more", POOL | {"node_selector": ("rack=r7", "zone=a")})
    assert (given.files["clusters/eu-1/node-pools/l4-more.yaml"] or b"").endswith(
        b"    nodeSelector:\n      rack: r7\n      zone: a\n"
    )
    assert len(given.notes) == 1


@pytest.mark.parametrize(
    ("cluster", "values", "error", "message"),
    [
        ("eu-2", {}, OperationRefused, "no cluster is named 'eu-2'; did you mean 'eu-1'?"),
        (
            "eu-1",
            {"node_selector": ("rack",)},
            OperationRefused,
            "--node-selector: 'rack' is not in the format KEY=VALUE",
        ),
        ("eu-1", {"memory": "190"}, InvalidField, "spec.node.memory: '190' is not a size"),
        ("eu-1", {"nodes": "two"}, InvalidField, "spec.static.nodes: "),
    ],
)
def test_a_wrong_pool_is_refused(
    cluster: str, values: dict[str, object], error: type[OperationRefused], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        add_pool(DECLARED, cluster, "l4-more", POOL | values)
