"""The peers that we measure against, built from their Go modules into a cache outside the checkout."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

MODULES = Path(__file__).resolve().parent.parent / "controlplane"
PEERS = {"helm": ("helm", "helm.sh/helm/v3/cmd/helm"), "kubectl": ("kubernetes", "k8s.io/kubernetes/cmd/kubectl")}


def peer(name: str) -> Path | None:
    """Return a peer's binary, built when it is missing; None without Go."""
    folder, package = PEERS[name]
    module = MODULES / folder
    key = hashlib.sha256((module / "go.sum").read_bytes() + (module / "go.mod").read_bytes()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "allotment" / "peers" / key
    binary = cache / name
    if not binary.exists():
        if shutil.which("go") is None:
            return None
        print(f"building {name} from its Go module (once, minutes) …", flush=True)
        cache.mkdir(parents=True, exist_ok=True)
        subprocess.run(["go", "build", "-o", str(binary), package], cwd=module, check=True)
    return binary
