"""The rendered manifests of a sample with secrets, and the admission policy for them."""

from __future__ import annotations

import datetime
import subprocess
import sys
from pathlib import Path
from typing import Any

from allotment.adapters.folder_source import FolderSource
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder
from allotment.isolation.entitlements import Entitlements
from allotment.isolation.gate import IsolationGate
from allotment.manifests.yaml_text import dump, load
from allotment.services.check.repository_check import check_repository
from allotment.services.check.workers import read_scope
from allotment.services.publish.renderer import build_gate
from tests.conftest import DAY

Manifest = dict[str, Any]
WEBUI = "eu-1/tenants/solo-ada/compute/webui.rendered.yaml"
ADMISSION = "eu-1/platform/cluster/admission.rendered.yaml"


class Bed:
    """A rendered tree with a secret, the gate of its clusters, and what solo-ada may have there."""

    def __init__(self, root: Path, tree: Path) -> None:
        source, scope = FolderSource(root), Scope("tenant", "solo-ada")
        catalog = check_repository(source, datetime.date.fromisoformat(DAY)).catalog
        folder = read_folder(scope, read_scope(source, scope).files)[0]
        self.gate = IsolationGate(build_gate(catalog).clusters)
        self.entitlements = Entitlements.from_declarations(catalog, catalog.clusters["eu-1"], folder)
        scope = Scope("tenant", "ml-orbit")
        folder = read_folder(scope, read_scope(source, scope).files)[0]
        self.of_orbit = {
            name: Entitlements.from_declarations(catalog, cluster, folder) for name, cluster in catalog.clusters.items()
        }
        self.tree = tree

    def objects(self, path: str) -> list[Manifest]:
        return load((self.tree / path).read_bytes())

    def check(self, path: str, objects: list[Manifest], *, published: bool = False) -> None:
        self.gate.check(path, dump(objects), self.entitlements, published=published)


def render_bed(root: Path) -> Bed:
    """Render the declarations in `root`, next to it."""
    out = root.with_name("out")
    run = [sys.executable, "-m", "allotment", "render", "--repo", str(root), "--out", str(out)]
    subprocess.run([*run, "--as-of", str(DAY)], check=True, capture_output=True)
    return Bed(root, out)
