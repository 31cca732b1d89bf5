"""`make bench`: full validate and render, one tenant changed, published and planned, one file validated, a cluster reported, against the peers in the same run.

Every figure is a ratio to a peer that ran in turn with it, on the same objects. Nothing here fails on a number.
"""

from __future__ import annotations

import datetime
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.budgets import budgets
from tests.bench.generate import generate, write_tenant
from tests.bench.measure import machine, pairs, run
from tests.bench.peers import peer
from tests.bench.planning import planning
from tests.bench.pools import pools
from tests.bench.publishing import publishing
from tests.bench.reporting import reporting

PYTHON = sys.executable
ALLOT = [str(Path(PYTHON).with_name("allot"))]
DAY = datetime.date(2026, 11, 21)
SETTLE = 2.5  # seconds until a file's times can be trusted


def say(what: str, figure: str) -> None:
    print(f"  {what:<58} {figure}", flush=True)


def chart(folder: Path, tenant: dict[str, bytes], tenants: int) -> None:
    """Write a Helm chart that makes the same objects: tenant 0's, its own values as the template's."""
    text = b"---\n".join(tenant[path] for path in sorted(tenant)).decode()
    for old, key in (
        ("ateam-0x", "tenant"),
        ("dark-0", "theme"),
        ("--manifest=models-0", "manifest"),
        ("models-0x", "storage"),
    ):
        text = text.replace(old, "{{ ." + key + " }}")
    (folder / "templates").mkdir(parents=True, exist_ok=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: peer\nversion: 0.1.0\n")
    (folder / "templates/tenants.yaml").write_text("{{- range .Values.tenants }}\n---\n" + text + "{{- end }}\n")
    values = "".join(
        f"  - {{tenant: team-{n}x, theme: dark-{n % 50}, manifest: --manifest=models-{n}, storage: models-{n % 7}x}}\n"
        for n in range(tenants)
    )
    (folder / "values.yaml").write_text("tenants:\n" + values)


def rendered(repo: Path, out: Path) -> dict[str, bytes]:
    """Render a repository; return tenant 0's files."""
    run([*ALLOT, "render", "--repo", str(repo), "--out", str(out)])
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in out.rglob("*.yaml")
        if "ateam-0x" in path.as_posix() and "marker" not in path.name
    }


def objects(files: dict[str, bytes]) -> int:
    return sum(data.count(b"\nkind: ") for data in files.values())


def full(repo: Path, work: Path, tenants: int) -> None:
    """Everything validated and rendered, against both peers rendering the same objects."""
    out = work / "out"
    tenant = rendered(repo, out)
    print(f"\n{tenants:,} tenants, {objects(tenant)} objects each")
    validate = run([*ALLOT, "validate", "--no-memory", "--repo", str(repo)], memory=True)
    say("allot validate, nothing remembered", f"{validate.seconds:6.2f} s  {validate.megabytes:4.0f} MB")
    ours = [*ALLOT, "render", "--repo", str(repo), "--stdout"]
    mine = run(ours, memory=True)
    say("allot render --stdout (validates too)", f"{mine.seconds:6.2f} s  {mine.megabytes:4.0f} MB")
    second_render = run([*ALLOT, "render", "--repo", str(repo), "--out", str(out)])
    say("allot render --out, all files there and unchanged", f"{second_render.seconds:6.2f} s")
    helm, kubectl = peer("helm"), peer("kubectl")
    if helm is None:
        say("helm template", "skipped: no Go to build it")
    else:
        chart(work / "chart", tenant, tenants)
        theirs = [str(helm), "template", "peer", str(work / "chart")]
        own_seconds, other = pairs(lambda: run(ours).seconds, lambda: run(theirs).seconds, 3 if tenants <= 1000 else 2)
        say(
            "helm template of the same objects",
            f"{other:6.2f} s  allot render is {other / own_seconds:.1f} times as fast ({own_seconds:.2f} s)",
        )
    if kubectl is None:
        say("kubectl kustomize", "skipped: no Go to build it")
    elif tenants > 100:
        say("kubectl kustomize", "skipped: at 1,000 tenants it hadn't ended after 8 minutes; see 100")
    else:
        files = sorted(
            path.relative_to(out).as_posix()
            for path in out.rglob("*.yaml")
            if "marker" not in path.name and "/platform/" not in path.as_posix()
        )
        (out / "kustomization.yaml").write_text("resources:\n" + "".join(f"- {file}\n" for file in files))
        theirs = [str(kubectl), "kustomize", "--load-restrictor", "LoadRestrictionsNone", str(out)]
        own_seconds, other = pairs(lambda: run(ours).seconds, lambda: run(theirs).seconds, 1)
        say(
            "kubectl kustomize of the same objects",
            f"{other:6.2f} s  allot render is {other / own_seconds:.1f} times as fast ({own_seconds:.2f} s)",
        )
        (out / "kustomization.yaml").unlink()


def one_changed(repo: Path, work: Path, tenants: int) -> None:
    """One tenant of many changed: in a process that watches, and as commands of their own."""
    from allotment.adapters.folder_source import FolderSource
    from allotment.services.check.repository_check import check_repository, recheck_tenants
    from allotment.services.renderer import ClusterRenderer, Renderer

    print(f"\none tenant of {tenants:,} changed, everything that crosses files checked")
    source = FolderSource(repo)
    last = check_repository(source, DAY)
    clusters = ClusterRenderer(last.catalog)
    turn = 0

    render = Renderer(list)

    def ours() -> float:
        nonlocal last, turn
        turn += 1
        path = write_tenant(repo, 0, theme=f"turn{turn}")
        begun = time.perf_counter()
        last = recheck_tenants(last, source, [path.split("/")[1]], render)
        claims = [claim for part in last.tally_entries.values() for claim in part.claims]
        list(clusters.render_files(claims, lambda _: "a"))
        seconds = time.perf_counter() - begun
        if last.problems or f"turn{turn}".encode() not in b"".join(data for _, data in last.artifacts["ateam-0x"]):
            raise RuntimeError("the change was not rendered")
        return seconds

    kubectl = peer("kubectl")
    if kubectl is None:
        say(
            "checked and rendered again, in a process that watches",
            f"{ours() * 1000:6.0f} ms  kubectl kustomize skipped: no Go to build it",
        )
    else:
        folder = work / "one"
        folder.mkdir()
        for path, data in rendered(repo, work / "out").items():
            (folder / path.replace("/", "-")).write_bytes(data)
        (folder / "kustomization.yaml").write_text(
            "resources:\n" + "".join(f"- {file.name}\n" for file in sorted(folder.glob("*.yaml")))
        )
        own_seconds, other = pairs(ours, lambda: run([str(kubectl), "kustomize", str(folder)]).seconds, 9)
        say(
            "checked and rendered again, in a process that watches",
            f"{own_seconds * 1000:6.0f} ms  {own_seconds / other:.2f} of kubectl kustomize of that tenant ({other * 1000:.0f} ms)",
        )
    path = write_tenant(repo, 0)
    time.sleep(SETTLE)
    run([*ALLOT, "validate", "--repo", str(repo)])
    run([*ALLOT, "validate", "--repo", str(repo)])

    def one_file() -> float:
        nonlocal turn
        turn += 1
        write_tenant(repo, 0, theme=f"turn{turn}")
        return run([*ALLOT, "validate", "--repo", str(repo), str(repo / path)]).seconds

    schema = [str(Path(PYTHON).with_name("check-jsonschema")), "--help"]
    own_seconds, other = pairs(one_file, lambda: run(schema).seconds, 7)
    say(
        "allot validate ONE_FILE, changed, as a process",
        f"{own_seconds * 1000:6.0f} ms  {own_seconds / other:.2f} of check-jsonschema --help ({other * 1000:.0f} ms)",
    )
    own_seconds, other = pairs(lambda: run([*ALLOT, "--help"]).seconds, lambda: run(schema).seconds, 5)
    say("allot --help", f"{own_seconds * 1000:6.0f} ms  {own_seconds / other:.2f} of check-jsonschema --help")


def main() -> None:
    """Run everything, small to large."""
    sizes = [int(size) for size in sys.argv[1:]] or [100, 1000, 5000]
    print(
        f"allot bench on {machine()}; seconds are wall time of whole processes, MB the peak of all their processes together"
    )
    for tenants in sizes:
        with tempfile.TemporaryDirectory(prefix="allot-bench-") as folder:
            work = Path(folder)
            repo = work / "repo"
            generate(repo, tenants)
            full(repo, work, tenants)
            if tenants == sizes[-1]:
                one_changed(repo, work, tenants)
                print(f"\none tenant of {tenants:,} changed, published")
                publishing(repo, work, DAY, ALLOT, say)
                print(f"\none tenant of {tenants:,} changed, planned")
                planning(repo, work, ALLOT, say)
                print(f"\none tenant of {tenants:,} hostile: the others' publish, and the next pull request's verdict")
                budgets(repo, work, DAY, say)
    with tempfile.TemporaryDirectory(prefix="allot-bench-") as folder:
        pools(Path(folder), ALLOT, say)
    print("\na cluster, reported")
    reporting(say)


if __name__ == "__main__":
    main()
