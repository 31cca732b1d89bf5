"""Live objects of a tenant that edits are detected in."""

from __future__ import annotations

import json
from typing import Any

from allotment.observed import decoding
from allotment.observed.objects import LiveObject
from tests.support import live
from tests.support.live_defaults import live as applied

Object = dict[str, Any]
COMPARED = decoding.WHOLE_OBJECT_KINDS | decoding.HUB_OBJECT_KINDS
SPACE = f"t-{live.TENANT}"
OURS = {"app.kubernetes.io/managed-by": "allotment", "allotment.dev/tenant": live.TENANT}


def manifest(kind: str, name: str, spec: Object, **labels: str) -> Object:
    return {"kind": kind, "metadata": {"name": name, "namespace": SPACE, "labels": {**OURS, **labels}}, "spec": spec}


POLICY = manifest("NetworkPolicy", "deny-all", {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
NAMESPACE = {"kind": "Namespace", "metadata": {"name": SPACE, "labels": OURS}}


def whole(*objects: Object) -> list[tuple[str, LiveObject]]:
    """Return objects as they are kept once an API server has sent them."""
    live_objects = []
    for number, raw_object in enumerate(objects):
        live_object = applied(raw_object)
        live_object["metadata"]["uid"] = f"{raw_object['kind']}-{raw_object['metadata']['name']}"
        created = raw_object["metadata"].get("creationTimestamp", live.AT.format(number))
        live_object["metadata"]["creationTimestamp"] = created
        line = json.dumps({"type": "ADDED", "object": live_object}).encode()
        event = COMPARED[raw_object["kind"]].decode_event(line)
        assert isinstance(event.object, LiveObject)
        live_objects.append((raw_object["kind"], event.object))
    return live_objects
