"""A node pool of the sample whose GPUs are sliced."""

from __future__ import annotations

from pathlib import Path

POOL = "clusters/us-1/node-pools/l4-ts4.yaml"
SLICED = """\
apiVersion: allotment.dev/v1alpha1
kind: NodePool
metadata:
  name: l4-ts4
spec:
  node:
    gpu:
      model: nvidia-l4
      count: 4
    cpu: 46
    memory: 190Gi
  sharing:
    timeSlicing:
      replicas: 4
  generation: 3
  karpenter:
    maxNodes: 3
    nodeClassRef:
      group: karpenter.azure.com
      kind: AKSNodeClass
      name: gpu
"""


def declared(root: Path, text: str = SLICED) -> Path:
    (root / POOL).write_text(text, encoding="utf-8")
    return root
