"""Writes the CRDs' schemas that the tests check against: structure only, from the modules that publish them.

`python -m tests.schemas.refresh`; the CRDs are the test bed's, in its versions, which Go fetches when they aren't there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.controlplane import crds

HERE = Path(__file__).parent
KINDS = frozenset(
    "Application AppProject BackendTrafficPolicy Certificate ClientTrafficPolicy EC2NodeClass EnvoyExtensionPolicy EnvoyProxy"
    " ExternalSecret Gateway GatewayClass HTTPRoute HTTPRouteFilter NodeOverlay NodePool ObjectBucketClaim ReferenceGrant SecurityPolicy VolumeSnapshot".split()
)
KEPT = frozenset(
    "type properties items required enum pattern format additionalProperties minimum maximum minLength maxLength minItems maxItems"
    " minProperties maxProperties anyOf oneOf allOf not default uniqueItems".split()
)


def structure(node: Any) -> Any:
    """Return a schema without its texts, closed: a field that it doesn't name is refused."""
    if node.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    keywords = {key: value for key, value in node.items() if key in KEPT}
    if "properties" in keywords:
        keywords["properties"] = {name: structure(subschema) for name, subschema in keywords["properties"].items()}
        if not node.get("x-kubernetes-preserve-unknown-fields"):
            keywords.setdefault("additionalProperties", False)
    if isinstance(keywords.get("items"), dict):
        keywords["items"] = structure(keywords["items"])
    if isinstance(keywords.get("additionalProperties"), dict):
        keywords["additionalProperties"] = structure(keywords["additionalProperties"])
    return keywords


def main() -> None:
    """Write every kind that we render, beside the module and version that it comes from."""
    crds.build()
    for module, source in crds.SOURCES.items():
        for file in source.files:
            crd = crds.read(crds.home() / Path(file).name)
            group, kind = crd["spec"]["group"], crd["spec"]["names"]["kind"]
            for version in crd["spec"]["versions"]:
                if kind not in KINDS or version["name"] == "v1beta1":
                    continue  # of two versions we render the newer one
                schema = structure(version["schema"]["openAPIV3Schema"])
                schema["properties"] |= {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"type": "object"},
                }
                target = HERE / f"{group}_{version['name']}_{kind}.json"
                document = {"source": f"{module}@{source.version} {file}", "schema": schema}
                target.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
