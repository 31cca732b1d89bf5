"""`make demo`: validates, renders and publishes the sample, and says in a screenful what it did and where to look."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
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


def git(*words: str) -> str:
    """Return what Git says in this repository; nothing where it says no."""
    return subprocess.run(["git", *words], cwd=PROJECT, capture_output=True, text=True, check=False).stdout


def published(remote: Path) -> str:
    """Publish what is committed to a new bare repository, and return what there is to see.

    The repository is outside this checkout, because Allotment pushes to no repository in a work tree.
    """
    if git("rev-parse", "--is-shallow-repository").strip() != "false":
        return "skipped `allot publish`: this is no whole clone, and the order of commits is seen from their history\n"
    git("init", "--quiet", "--bare", str(remote))
    os.environ.setdefault("GIT_COMMITTER_NAME", "allotment")
    os.environ.setdefault("GIT_COMMITTER_EMAIL", "allotment@localhost")
    words = ("publish", "--to", str(remote))
    git_command = (
        "--git-dir",
        str(remote),
        "log",
        "-1",
        "--stat=80",
        "--stat-count=6",
        "--format=%h %an: %s%n%(trailers:key=Source-Commit)",
        "rendered/eu-1",
    )
    return f"$ allot {' '.join(words)}\n{allot(*words)}\n$ git log -1 --stat rendered/eu-1\n{git(*git_command)}"


def main() -> None:
    """Show the way from a declaration to its manifests."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    say = sys.stdout.write
    say("$ allot validate\n" + allot("validate"))
    say(f"\n$ allot render --out {out}\n" + allot("render", "--out", str(out)))
    remote = Path(tempfile.mkdtemp(prefix="allotment-demo-")) / "out.git"
    say(f"\n{published(remote)}")
    rendered = out / "eu-1/tenants/solo-ada/compute/webui.rendered.yaml"
    declared = (PROJECT / "tenants/solo-ada/instances/webui.yaml").read_text(encoding="utf-8").splitlines()
    text = (PROJECT / rendered).read_text(encoding="utf-8")
    kinds = [line.split(": ")[1] for line in text.splitlines() if line.startswith("kind: ")]
    say(
        f"""
One declaration of {len(declared)} lines became {len(kinds)} objects of {len(text.splitlines())} lines ({", ".join(kinds)}):
    tenants/solo-ada/instances/webui.yaml
    {rendered}

Where to look next
    platform/  clusters/  tenants/     what is declared: the catalog, the clusters, what seven tenants want
    {f"{out}/eu-1/control/":<35}what Argo CD reads first: projects, namespaces, Applications
    {f"{out}/eu-1/platform/stock/":<35}placeholders that hold free GPUs until an instance starts
    {f"{out}/eu-1/tenants/":<35}what each tenant's declarations became
    {remote}
                                       the branches rendered/eu-1 and rendered/us-1, as Argo CD would sync them

Try it
    .venv/bin/allot explain GPUInstance.spec
    .venv/bin/allot portal build --out site, and open site/index.html in a browser
    Write l4-quater for l4-quarter in tenants/solo-ada/instances/webui.yaml, and run .venv/bin/allot validate
"""
    )


if __name__ == "__main__":
    main()
