"""The sample with a pool, specs, stocks and instances of each way of sharing that it has none of: MPS and DRA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from allotment.declared.kinds import KINDS
from tests.conftest import edit

_L4 = {"model": "nvidia-l4", "count": 1, "memory": "24Gi"}
_A100 = {"model": "nvidia-a100-80gb", "count": 1, "memory": "80Gi"}
_PRICES = [{"from": "2026-01-01", "perHour": "0.20"}]
_SMALL = {"cpu": 2, "memory": "8Gi", "disk": "50Gi", "prices": _PRICES}
WHOLE: dict[str, Any] = {"deviceClassName": "gpu.nvidia.com"}
PARTS: dict[str, Any] = {"deviceClassName": "mig.nvidia.com"}

SPECS: dict[str, dict[str, Any]] = {
    "l4-mps": {"gpu": _L4, **_SMALL, "sharing": {"mps": {"replicas": 4}}, "tenancy": "Multi"},
    "l4-mps-single": {"gpu": _L4, **_SMALL, "sharing": {"mps": {"replicas": 2}}, "tenancy": "Single"},
    "l4-dra": {"gpu": _L4, **_SMALL, "cpu": 8, "sharing": {"dra": WHOLE}},
    "l4-dra-pair": {"gpu": {**_L4, "count": 2}, **_SMALL, "cpu": 10, "sharing": {"dra": WHOLE}},
    "a100-dra-1g": {"gpu": _A100, **_SMALL, "sharing": {"dra": {**PARTS, "profile": "1g.10gb"}}},
    "a100-dra-3g": {"gpu": _A100, **_SMALL, "cpu": 6, "sharing": {"dra": {**PARTS, "profile": "3g.40gb"}}},
}
POOLS: dict[str, dict[str, Any]] = {
    "l4-mps": {"mps": {"replicas": 4}},
    "l4-mps-film": {"mps": {"replicas": 2}},
    "l4-dra": {"dra": WHOLE},
    "a100-dra": {"dra": {**PARTS, "devices": {"1g.10gb": 4, "3g.40gb": 1}}},
}
STOCKS: dict[str, dict[str, Any]] = {
    "l4-mps": {"gpuSpec": "l4-mps", "nodePool": "l4-mps", "count": 32},
    "l4-mps-film": {"gpuSpec": "l4-mps-single", "nodePool": "l4-mps-film", "count": 8, "tenant": "film-house"},
    "l4-dra": {"gpuSpec": "l4-dra", "nodePool": "l4-dra", "count": 4},
    "l4-dra-pair": {"gpuSpec": "l4-dra-pair", "nodePool": "l4-dra", "count": 2},
    "a100-dra-1g": {"gpuSpec": "a100-dra-1g", "nodePool": "a100-dra", "count": 20},
    "a100-dra-3g": {"gpuSpec": "a100-dra-3g", "nodePool": "a100-dra", "count": 8},
}
INSTANCES = {"by-mps": "l4-mps", "by-dra": "l4-dra", "by-mig-dra": "a100-dra-1g"}
TENANT = "studio-kite"


def declare(root: Path, path: str, kind: str, spec: dict[str, Any]) -> None:
    """Write a declaration."""
    assert kind in KINDS
    declaration = {
        "apiVersion": "allotment.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": Path(path).stem},
        "spec": spec,
    }
    (root / path).write_text(yaml.safe_dump(declaration, sort_keys=False), encoding="utf-8")


def declare_all(root: Path) -> None:
    """Add them all to a copy of the sample, in eu-1."""
    for name, spec in SPECS.items():
        declare(root, f"platform/specs/{name}.yaml", "GPUSpec", spec)
    for name, sharing in POOLS.items():
        model = "nvidia-a100-80gb" if name.startswith("a100") else "nvidia-l4"
        node = {"gpu": {"model": model, "count": 4}, "cpu": 46, "memory": "190Gi"}
        pool = {"node": node, "sharing": sharing, "static": {"nodes": 2, "nodeSelector": {"pool": name}}}
        declare(root, f"clusters/eu-1/node-pools/{name}.yaml", "NodePool", pool)
    for name, stock in STOCKS.items():
        declare(root, f"clusters/eu-1/stocks/{name}.yaml", "Stock", stock)
    edit(root, "platform/plans/team.yaml", "      - Mig\n", "      - Mig\n      - Mps\n      - Dra\n")
    for name, gpu_spec in INSTANCES.items():
        app = {"name": "stable-diffusion-webui", "version": "1.11.0"}
        instance = {"cluster": "eu-1", "gpuSpec": gpu_spec, "app": app}
        declare(root, f"tenants/{TENANT}/instances/{name}.yaml", "GPUInstance", instance)
