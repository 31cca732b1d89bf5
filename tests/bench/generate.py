"""Writes a repository of any number of tenants, about 20 objects each, for measuring."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

HEAD = "apiVersion: allotment.dev/v1alpha1\nkind: {kind}\nmetadata:\n  name: {name}\nspec:\n"
APPS = ("stable-diffusion-webui", "jupyter", "comfyui")
NAMES = ("webui", "notebook", "comfy", "preview", "render", "train", "lab", "demo")
DIGEST = "sha256:" + hashlib.sha256(b"bench").hexdigest()
SIZES = (20, 50, 100, 200)


def write(root: Path, path: str, kind: str, spec: str) -> None:
    """Write one declaration; its name is what the path says."""
    file = root / path
    name = file.parent.name if kind in ("Tenant", "Members", "Cluster") else file.stem
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(HEAD.format(kind=kind, name=name) + spec, encoding="utf-8")


def write_offers(root: Path, tenants: int) -> None:
    """Write a platform and one cluster that are large enough."""
    write(
        root,
        "platform/platform.yaml",
        "Platform",
        "  git: {forge: Gitea, url: 'https://git.test/gpus'}\n  billing: {currency: EUR, timeZone: Europe/Berlin}\n"
        f"  images: {{files: 'registry.test/dufs:v0.46.0@sha256:{'ab' * 32}'}}\n",
    )
    write(
        root,
        "platform/specs/l4-quarter.yaml",
        "GPUSpec",
        "  gpu: {model: nvidia-l4, count: 1, memory: 24Gi}\n  cpu: 3\n  memory: 12Gi\n  disk: 50Gi\n"
        "  sharing: {timeSlicing: {replicas: 4}}\n  tenancy: Multi\n  prices: [{from: '2026-01-01', perHour: '0.24'}]\n",
    )
    write(
        root,
        "platform/storage-specs/shared-files.yaml",
        "StorageSpec",
        "  volume: {accessMode: ReadWriteMany}\n  size: {min: 10Gi, max: 2Ti}\n  prices: [{from: '2026-01-01', perGiBMonth: '0.16'}]\n",
    )
    write(
        root,
        "platform/plans/team.yaml",
        "Plan",
        "  quota: {gpus: {nvidia-l4: 8}, instances: 20, storages: 50, storage: 5Ti}\n  budget: {perMonth: '2000'}\n"
        "  allow: {sharing: [TimeSlicing], exposure: [Members], imageRegistries: [registry.test/]}\n",
    )
    for app in APPS:
        write(
            root,
            f"platform/apps/{app}.yaml",
            "App",
            f"  versions:\n  - version: '1.0.0'\n    container:\n      image: registry.test/{app}:1.0.0@{DIGEST}\n      args: [--listen, --port=7860]\n"
            "      env: [{name: HF_HOME, value: /scratch/hf}]\n"
            "      ports: [{name: http, containerPort: 7860, exposure: Members}]\n      probe: {httpGet: {path: /, port: http}, startTimeout: 20m}\n"
            "      shmSize: 4Gi\n",
        )
    write(
        root,
        "clusters/eu-1/cluster.yaml",
        "Cluster",
        "  destination: {name: eu-1}\n  domain: eu-1.gpu.test\n  gateway: {name: edge, namespace: edge, sectionName: https}\n"
        "  oidc: {issuer: 'https://id.test', clientID: allotment, clientSecretRef: {name: oidc, namespace: edge}}\n"
        "  storages: [{storageSpec: shared-files, storageClassName: cephfs, capacity: 9000Ti}]\n  diskStorageClassName: scratch\n",
    )
    write(
        root,
        "clusters/eu-1/node-pools/l4-ts4.yaml",
        "NodePool",
        f"  node: {{gpu: {{model: nvidia-l4, count: 4}}, cpu: 48, memory: 192Gi}}\n  sharing: {{timeSlicing: {{replicas: 4}}}}\n"
        f"  static: {{nodes: {tenants // 16 + 1}, nodeSelector: {{pool: l4-ts4}}}}\n",
    )
    write(
        root,
        "clusters/eu-1/stocks/l4-quarter.yaml",
        "Stock",
        f"  gpuSpec: l4-quarter\n  nodePool: l4-ts4\n  count: {tenants}\n  warm: 20\n",
    )


def write_tenant(root: Path, number: int, theme: str = "dark") -> str:
    """Write one tenant; return the path of its instance."""
    tenant = f"{'abcdefghijklmnopqrstuvwxyz'[number % 26]}team-{number}x"
    folder, storage, instance = f"tenants/{tenant}", f"models-{number % 7}x", NAMES[number % len(NAMES)]
    write(root, f"{folder}/tenant.yaml", "Tenant", "  plan: team\n")
    write(root, f"{folder}/members.yaml", "Members", f"  groups:\n    - name: {tenant}-people\n      role: Member\n")
    write(
        root,
        f"{folder}/storages/{storage}.yaml",
        "GPUStorage",
        f"  cluster: eu-1\n  storageSpec: shared-files\n  size: {SIZES[number % 4]}Gi\n  prepare:\n    source:\n      image:\n"
        f"        image: registry.test/fetch:2.3.0@{DIGEST}\n        args:\n          - --manifest=models-{number}\n"
        "  accessor:\n    exposure: Members\n",
    )
    path = f"{folder}/instances/{instance}.yaml"
    write(
        root,
        path,
        "GPUInstance",
        f"  state: Running\n  cluster: eu-1\n  gpuSpec: l4-quarter\n  app:\n    name: {APPS[number % 3]}\n    version: '1.0.0'\n"
        f"  container:\n    env:\n      - name: UI_THEME\n        value: {theme}-{number % 50}\n"
        f"  storages:\n    - name: {storage}\n      mountPath: /workspace/models\n      readOnly: true\n",
    )
    return path


def generate(root: Path, tenants: int) -> None:
    """Write a repository of `tenants` tenants."""
    write_offers(root, tenants)
    for number in range(tenants):
        write_tenant(root, number)


if __name__ == "__main__":
    generate(Path(sys.argv[1]), int(sys.argv[2]))
