"""Everything validated and rendered, against peers that render the same objects; and one tenant of many changed."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.generate import write_tenant
from tests.bench.measure import Run, Say, pairs, run, timed
from tests.bench.peers import peer

SETTLE = 2.5  # seconds until a file's times can be trusted
KUSTOMIZE_TENANTS = 100  # at 1,000 tenants, kubectl kustomize had not ended after 8 minutes


def write_chart(folder: Path, tenant: dict[str, bytes], tenants: int) -> None:
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


def render_first_tenant(repo: Path, out: Path, allot: list[str]) -> dict[str, bytes]:
    """Render a repository; return tenant 0's files."""
    run([*allot, "render", "--repo", str(repo), "--out", str(out)])
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in out.rglob("*.yaml")
        if "ateam-0x" in path.as_posix() and "marker" not in path.name
    }


def full(repo: Path, work: Path, tenants: int, allot: list[str], say: Say) -> float:
    """Measure a full validate and render; return the seconds of the render."""
    out = work / "out"
    tenant = render_first_tenant(repo, out, allot)
    objects = sum(data.count(b"\nkind: ") for data in tenant.values())
    print(f"\n{tenants:,} tenants, {objects} objects each")
    validate = run([*allot, "validate", "--no-memory", "--repo", str(repo)], memory=True)
    say("allot validate, nothing remembered", f"{validate.seconds:6.2f} s  {validate.megabytes:4.0f} MB")
    ours = [*allot, "render", "--repo", str(repo), "--stdout"]
    first = run(ours, memory=True)
    say(
        "allot render --stdout (validates too)",
        f"{first.seconds:6.2f} s  {first.megabytes:4.0f} MB  {1000 * first.seconds / tenants:.2f} ms a tenant",
    )
    again = run([*allot, "render", "--repo", str(repo), "--out", str(out)])
    say("allot render --out, all files there and unchanged", f"{again.seconds:6.2f} s")
    helm = peer("helm")
    if helm is None:
        say("helm template", "skipped: no Go to build it")
    else:
        write_chart(work / "chart", tenant, tenants)
        theirs = [str(helm), "template", "peer", str(work / "chart")]
        pair = pairs(lambda: run(ours), lambda: run(theirs), 3 if tenants <= 1000 else 1)
        goal = "; goal 5" if tenants >= 5000 else ""
        say(
            "helm template of the same objects",
            f"{pair.theirs.seconds:6.2f} s  allot render is {pair.speed} ({pair.ours.seconds:.2f} s){goal}",
        )
    _compare_with_kustomize(out, ours, tenants, say)
    return first.seconds


def _compare_with_kustomize(out: Path, ours: list[str], tenants: int, say: Say) -> None:
    if tenants > KUSTOMIZE_TENANTS:
        return
    kubectl = peer("kubectl")
    if kubectl is None:
        say("kubectl kustomize", "skipped: no Go to build it")
        return
    files = sorted(
        path.relative_to(out).as_posix()
        for path in out.rglob("*.yaml")
        if "marker" not in path.name and "/platform/" not in path.as_posix()
    )
    (out / "kustomization.yaml").write_text("resources:\n" + "".join(f"- {file}\n" for file in files))
    theirs = [str(kubectl), "kustomize", "--load-restrictor", "LoadRestrictionsNone", str(out)]
    pair = pairs(lambda: run(ours), lambda: run(theirs), 1)
    say(
        "kubectl kustomize of the same objects",
        f"{pair.theirs.seconds:6.2f} s  allot render is {pair.speed} ({pair.ours.seconds:.2f} s)",
    )
    (out / "kustomization.yaml").unlink()


def one_changed(repo: Path, work: Path, day: datetime.date, allot: list[str], say: Say) -> None:
    """Measure one changed tenant: in a process that watches, and as commands of their own."""
    own = _watching_process(repo, day)
    kubectl = peer("kubectl")
    if kubectl is None:
        say(
            "checked and rendered again, in a process that watches",
            f"{own().seconds * 1000:6.0f} ms  no Go for kubectl",
        )
    else:
        folder = work / "one"
        folder.mkdir()
        for path, data in render_first_tenant(repo, work / "out", allot).items():
            (folder / path.replace("/", "-")).write_bytes(data)
        (folder / "kustomization.yaml").write_text(
            "resources:\n" + "".join(f"- {file.name}\n" for file in sorted(folder.glob("*.yaml")))
        )
        pair = pairs(own, lambda: run([str(kubectl), "kustomize", str(folder)]), 9)
        say(
            "checked and rendered again, in a process that watches",
            f"{pair.ours.seconds * 1000:6.0f} ms  {pair.ratio} of kubectl kustomize of that tenant ({pair.theirs.seconds * 1000:.0f} ms)",
        )
    path = write_tenant(repo, 0)
    time.sleep(SETTLE)
    for _ in range(2):
        run([*allot, "validate", "--repo", str(repo)])
    turn = 0

    def one_file() -> Run:
        nonlocal turn
        turn += 1
        write_tenant(repo, 0, theme=f"turn{turn}")
        return run([*allot, "validate", "--repo", str(repo), str(repo / path)])

    schema = [str(Path(sys.executable).with_name("check-jsonschema")), "--help"]
    for what, ours, times, goal in (
        ("allot validate ONE_FILE, changed, as a process", one_file, 9, "; goal 1.5"),
        ("allot --help", lambda: run([*allot, "--help"]), 5, ""),
    ):
        pair = pairs(ours, lambda: run(schema), times)
        say(
            what,
            f"{pair.ours.seconds * 1000:6.0f} ms  {pair.ratio} of check-jsonschema --help ({pair.theirs.seconds * 1000:.0f} ms){goal}",
        )


def _watching_process(repo: Path, day: datetime.date) -> Callable[[], Run]:
    """Check a repository; return what changes a tenant, and checks and renders it again."""
    from allotment.adapters.folder_source import FolderSource
    from allotment.services.check.artifacts import ArtifactHook
    from allotment.services.check.repository_check import check_repository, recheck_tenants
    from allotment.services.publish.renderer import ClusterRenderer, Renderer

    source = FolderSource(repo)
    last = check_repository(source, day)
    clusters = ClusterRenderer(last.catalog)
    rendered: dict[str, list[tuple[str, bytes]] | None] = {}
    hook = ArtifactHook(Renderer[list[tuple[str, bytes]]](list), rendered.__setitem__)
    turn = 0

    def again(tenant: str) -> None:
        nonlocal last
        last = recheck_tenants(last, source, [tenant], hook=hook)
        claims = [claim for part in last.tally_entries.values() for claim in part.claims]
        list(clusters.render_files(claims, lambda _: "a"))

    def ours() -> Run:
        nonlocal turn
        turn += 1
        tenant = write_tenant(repo, 0, theme=f"turn{turn}").split("/")[1]
        measured = timed(lambda: again(tenant))
        if last.problems or f"turn{turn}".encode() not in b"".join(data for _, data in rendered[tenant] or ()):
            raise RuntimeError("the change was not rendered")
        return measured

    return ours
