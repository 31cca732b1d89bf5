"""`make demo`: validates and renders the sample, and says in a screenful what it did and where to look."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
ALLOT = Path(sys.executable).with_name("allot")


def allot(*arguments: str) -> str:
    """Run the command and return what it said; end with its status when it fails."""
    run = subprocess.run([ALLOT, *arguments], cwd=PROJECT, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.stderr.write(run.stdout + run.stderr)
        sys.exit(run.returncode)
    return run.stdout


def main() -> None:
    """Show the way from a declaration to its manifests."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    say = sys.stdout.write
    say("$ allot validate\n" + allot("validate"))
    say(f"\n$ allot render --out {out}\n" + allot("render", "--out", str(out)))
    rendered = out / "eu-1/tenants/solo-ada/compute/webui.yaml"
    declared = (PROJECT / "tenants/solo-ada/instances/webui.yaml").read_text(encoding="utf-8").splitlines()
    text = (PROJECT / rendered).read_text(encoding="utf-8")
    kinds = [line.split(": ")[1] for line in text.splitlines() if line.startswith("kind: ")]
    say(
        f"""
One declaration of {len(declared)} lines became {len(kinds)} objects of {len(text.splitlines())} lines ({", ".join(kinds)}):
    tenants/solo-ada/instances/webui.yaml
    {rendered}

Where to look next
    platform/  clusters/  tenants/     what is declared: the catalog, the clusters, what six tenants want
    {out}/eu-1/control/                what Argo CD reads first: projects, namespaces, Applications
    {out}/eu-1/platform/stock/         placeholders that hold free GPUs until an instance starts
    {out}/eu-1/tenants/                what each tenant's declarations became

Try it
    .venv/bin/allot explain GPUInstance.spec
    Write l4-quater for l4-quarter in tenants/solo-ada/instances/webui.yaml, and run .venv/bin/allot validate
"""
    )


if __name__ == "__main__":
    main()
