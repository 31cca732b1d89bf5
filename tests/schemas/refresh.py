"""Writes the CRDs' schemas that the tests check against: structure only, from the modules that publish them.

Needs Go, which fetches the modules: `python tests/schemas/refresh.py`. Versions are those of the manifests we render.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
SOURCES = {
    "github.com/argoproj/argo-cd/v3@v3.2.11": [
        "manifests/crds/application-crd.yaml",
        "manifests/crds/appproject-crd.yaml",
    ],
    "sigs.k8s.io/gateway-api@v1.6.1": [
        "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
        "config/crd/standard/gateway.networking.k8s.io_referencegrants.yaml",
    ],
    "github.com/envoyproxy/gateway@v1.9.0": [
        "charts/gateway-crds-helm/templates/generated/gateway.envoyproxy.io_securitypolicies.yaml"
    ],
    "sigs.k8s.io/karpenter@v1.14.1": ["pkg/apis/crds/karpenter.sh_nodepools.yaml"],
    "github.com/aws/karpenter-provider-aws@v1.14.1": ["pkg/apis/crds/karpenter.k8s.aws_ec2nodeclasses.yaml"],
}
KEPT = frozenset(
    "type properties items required enum pattern format additionalProperties minimum maximum minLength maxLength minItems maxItems"
    " minProperties maxProperties anyOf oneOf allOf not default uniqueItems".split()
)


def structure(node: Any) -> Any:
    """Return a schema without its texts, closed: a field that it doesn't name is refused."""
    if node.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    kept = {key: value for key, value in node.items() if key in KEPT}
    if "properties" in kept:
        kept["properties"] = {name: structure(one) for name, one in kept["properties"].items()}
        if not node.get("x-kubernetes-preserve-unknown-fields"):
            kept.setdefault("additionalProperties", False)
    if isinstance(kept.get("items"), dict):
        kept["items"] = structure(kept["items"])
    if isinstance(kept.get("additionalProperties"), dict):
        kept["additionalProperties"] = structure(kept["additionalProperties"])
    return kept


def main() -> None:
    """Fetch every module and write its kinds, each beside its version."""
    for module, files in SOURCES.items():
        found = json.loads(
            subprocess.run(
                ["go", "mod", "download", "-json", module], check=True, capture_output=True, text=True
            ).stdout
        )
        for file in files:
            text = (Path(found["Dir"]) / file).read_text(encoding="utf-8")
            crd = yaml.safe_load("\n".join(line for line in text.splitlines() if not line.strip().startswith("{{")))
            group, kind = crd["spec"]["group"], crd["spec"]["names"]["kind"]
            for version in crd["spec"]["versions"]:
                if version["name"] == "v1beta1":
                    continue  # we render the newer one
                schema = structure(version["schema"]["openAPIV3Schema"])
                schema["properties"]["metadata"] = {"type": "object"}
                target = HERE / f"{group}_{version['name']}_{kind}.json"
                target.write_text(
                    json.dumps({"source": f"{module} {file}", "schema": schema}, separators=(",", ":")) + "\n",
                    encoding="utf-8",
                )


if __name__ == "__main__":
    main()
