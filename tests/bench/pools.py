"""Validating and rendering many pools and stocks, against kubectl kustomize of the same objects."""

from __future__ import annotations

from pathlib import Path

from tests.bench.generate import write, write_offers
from tests.bench.measure import Say, pairs, run
from tests.bench.peers import peer

POOLS, EACH = 200, 10  # each pool's stocks


def pools(work: Path, allot: list[str], say: Say) -> None:
    """Measure, on a cluster whose pools are half static, half Karpenter's."""
    repo, out = work / "pools", work / "pools-out"
    write_offers(repo, 1)
    cluster = next((repo / "clusters").iterdir())
    for file in [*cluster.glob("stocks/*"), *cluster.glob("node-pools/*")]:
        file.unlink()
    declared = cluster / "cluster.yaml"
    declared.write_text(declared.read_text("utf-8") + "  karpenter: {featureGates: [NodeOverlay]}\n", "utf-8")
    for number in range(POOLS):
        write_pool(repo, cluster.name, number)
    ours = [*allot, "render", "--repo", str(repo), "--out", str(out)]
    run(ours)
    files = sorted(out.rglob("platform/node-pools/*.yaml")) + sorted(out.rglob("platform/stock/*.yaml"))
    files = [file for file in files if "marker" not in file.name]
    objects = sum(file.read_bytes().count(b"\nkind: ") + file.read_bytes().startswith(b"kind: ") for file in files)
    print(f"\n{POOLS} pools with {POOLS * EACH:,} stocks, {objects:,} objects")
    validate = [*allot, "validate", "--no-memory", "--repo", str(repo)]
    say("allot validate, nothing remembered", f"{run(validate).seconds:6.2f} s")
    kubectl = peer("kubectl")
    if kubectl is None:
        say("allot render", f"{run(ours).seconds:6.2f} s  kubectl kustomize skipped: no Go to build it")
        return
    listed = "".join(f"- {file.relative_to(out)}\n" for file in files)
    (out / "kustomization.yaml").write_text("resources:\n" + listed)
    theirs = [str(kubectl), "kustomize", "--load-restrictor", "LoadRestrictionsNone", str(out)]
    rendering = [*allot, "render", "--repo", str(repo), "--stdout"]
    pair = pairs(lambda: run(rendering), lambda: run(theirs), 1)
    words = f"{pair.ours.seconds:6.2f} s  {pair.ratio} of kubectl kustomize of the same objects ({pair.theirs.seconds:.2f} s)"
    say("allot render --stdout (validates too)", words)


def write_pool(repo: Path, cluster: str, number: int) -> None:
    """Write a pool of sliced GPUs with its stocks."""
    name = "pool-" + "".join(chr(97 + int(digit)) for digit in f"{number:03}")
    node = (
        "  node: {gpu: {model: nvidia-l4, count: 4}, cpu: 46, memory: 190Gi}\n  sharing: {timeSlicing: {replicas: 4}}\n"
    )
    static = f"  static: {{nodes: 3, nodeSelector: {{pool: {name}}}}}\n"
    bought = "  karpenter: {maxNodes: 3, nodeClassRef: {group: karpenter.azure.com, kind: AKSNodeClass, name: gpu}}\n"
    write(repo, f"clusters/{cluster}/node-pools/{name}.yaml", "NodePool", node + (bought if number % 2 else static))
    for stock in range(EACH):
        path = f"clusters/{cluster}/stocks/{name}-{chr(97 + stock)}.yaml"
        write(repo, path, "Stock", f"  gpuSpec: l4-quarter\n  nodePool: {name}\n  count: 4\n")
