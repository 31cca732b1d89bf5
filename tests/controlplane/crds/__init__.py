"""The CRDs of what Allotment renders: data, from the Go modules that publish them.

Everything is fetched in exactly the version and with the checksum that is named here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane import programs, sources
from tests.controlplane.sources import Source

_GATEWAY = "config/crd/standard/gateway.networking.k8s.io_"
_ENVOY = "charts/gateway-crds-helm/templates/generated/gateway.envoyproxy.io_"
_MONITORING = "example/prometheus-operator-crd-full/monitoring.coreos.com_"
_SNAPSHOTS = "config/crd/snapshot.storage.k8s.io_"
SOURCES: Mapping[str, Source] = {
    "github.com/argoproj/argo-cd/v3": Source(
        "v3.2.11",
        "h1:3hkR11XCp/nlyM2cWr3qeUSGuZgi3JkFdMpzgL5qOR8=",
        tuple(f"manifests/crds/{kind}-crd.yaml" for kind in ("application", "applicationset", "appproject")),
    ),
    "sigs.k8s.io/gateway-api": Source(
        "v1.6.1",
        "h1:mock6phZbI6rvZerwrVNk7hVNymQgHo+6sJ81Ia7ftY=",
        tuple(
            f"{_GATEWAY}{kind}.yaml"
            for kind in ("gatewayclasses", "gateways", "httproutes", "referencegrants", "tcproutes")
        ),
    ),
    "github.com/envoyproxy/gateway": Source(
        "v1.9.1",
        "h1:vAVp6/AlBXJ1aOhp1mxL7fNEzVEfjADUguUhm2wzxQY=",
        tuple(
            f"{_ENVOY}{kind}.yaml"
            for kind in (
                "backendtrafficpolicies",
                "clienttrafficpolicies",
                "envoyextensionpolicies",
                "envoyproxies",
                "httproutefilters",
                "securitypolicies",
            )
        ),
    ),
    "sigs.k8s.io/karpenter": Source(
        "v1.14.1",
        "h1:GjqvOHLjl2+OXM0ti5VEZSQuvcitB0pETd8zdChXEtI=",
        tuple(
            f"pkg/apis/crds/{kind}.yaml"
            for kind in ("karpenter.sh_nodeclaims", "karpenter.sh_nodeoverlays", "karpenter.sh_nodepools")
        ),
    ),
    "github.com/aws/karpenter-provider-aws": Source(
        "v1.14.1",
        "h1:WGtIQTQcxpElYMdWfWuPwaF2+9muR+hYhPZsTtoY8Gs=",
        ("pkg/apis/crds/karpenter.k8s.aws_ec2nodeclasses.yaml",),
    ),
    "github.com/kubernetes-csi/external-snapshotter/client/v8": Source(
        "v8.7.0",
        "h1:HVaSUeRRHPu49aSiL8eXOjS9Re9G6pM0NzdTGI7mM14=",
        tuple(
            f"{_SNAPSHOTS}{kind}.yaml"
            for kind in ("volumesnapshotclasses", "volumesnapshotcontents", "volumesnapshots")
        ),
    ),
    "github.com/rook/rook": Source(
        "v1.20.6",
        "h1:2+Qe/CLcZ2WrXf9Vhf21JwZQqN8cVXPQskZzHf3KLjU=",
        ("deploy/olm/assemble/objectbucket.io_objectbucketclaims.yaml",),
    ),
    "github.com/external-secrets/external-secrets": Source(
        "v1.3.2",
        "h1:u2J8RjlHIeF0oZCqtl92adI/uZWUwOesJIDkfql6LqQ=",
        tuple(
            f"config/crds/bases/external-secrets.io_{kind}.yaml" for kind in ("clustersecretstores", "externalsecrets")
        ),
    ),
    "github.com/cert-manager/cert-manager": Source(
        "v1.21.2",
        "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68=",
        tuple(f"deploy/crds/cert-manager.io_{kind}.yaml" for kind in ("certificates", "clusterissuers", "issuers")),
    ),
    "github.com/prometheus-operator/prometheus-operator": Source(
        "v0.85.0",
        "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
        tuple(f"{_MONITORING}{kind}.yaml" for kind in ("podmonitors", "prometheusrules", "servicemonitors")),
    ),
}


def home() -> Path:
    """Return the folder of the cache for exactly the sources that are named here."""
    return sources.home("crds", SOURCES)


def build() -> None:
    """Fetch the CRDs into the cache, if they aren't there. Raises NotBuilt when one can't be had or isn't what was pinned."""
    sources.build("crds", SOURCES)


def read(file: Path) -> dict[str, Any]:
    """Return a file's CRD. Lines of Helm's around it, as Envoy Gateway's chart has them, are left out."""
    lines = file.read_text(encoding="utf-8").splitlines()
    crd: dict[str, Any] = yaml.load(
        "\n".join(line for line in lines if not line.strip().startswith("{{")), yaml.CSafeLoader
    )
    return crd


def objects() -> Iterator[dict[str, Any]]:
    """Yield every CRD. Raises NotBuilt when the cache has none."""
    if not home().is_dir():
        raise programs.NotBuilt("CRDs")
    for file in sorted(home().glob("*.yaml")):
        yield read(file)
