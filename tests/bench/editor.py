"""Measures the time from an edit in an editor to its diagnostics, with the language server in a process of its own."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from tests.bench.measure import Say
from tests.support.editor import Editor

EDITS = 30
GOAL = 100  # milliseconds
PLAN = "platform/plans/team.yaml"


def editor(repo: Path, work: Path, say: Say) -> None:
    """Measure edits of an instance and of a tariff plan, on a repository that `tests.bench.generate` wrote.

    `work` is a folder for the cache of the server. Prints the median and the worst of the edits of the instance.
    """
    tenant = next((repo / "tenants").glob("ateam-0*")).name
    path = f"tenants/{tenant}/instances/webui.yaml"
    text = (repo / path).read_text(encoding="utf-8")
    wrong_text = text.replace("l4-quarter", "l4-quater")
    with Editor(repo, environment={"XDG_CACHE_HOME": str(work)}) as client:
        begun = time.perf_counter()
        client.open(path, text)
        client.await_diagnostics(path, 1)
        say("allot lsp, the first diagnostics", f"{time.perf_counter() - begun:6.2f} s")
        seconds = [
            _edit(client, path, wrong_text if version % 2 == 0 else text, version) for version in range(2, EDITS + 2)
        ]
        milliseconds = sorted(second * 1000 for second in seconds)
        say(
            "allot lsp, an edit to its diagnostics",
            f"{statistics.median(milliseconds):6.1f} ms   the worst {milliseconds[-1]:.1f} ms; goal {GOAL} ms",
        )
        plan_text = (repo / PLAN).read_text(encoding="utf-8")
        client.open(PLAN, plan_text)
        client.await_diagnostics(PLAN, 1)
        seconds = [_edit(client, PLAN, plan_text + f"# {version}\n", version) for version in range(2, 7)]
        say(
            "allot lsp, an edit of a tariff plan to its diagnostics",
            f"{statistics.median(seconds) * 1000:6.1f} ms   the tenants follow in the background",
        )


def _edit(client: Editor, path: str, text: str, version: int) -> float:
    """Return the seconds from an edit to the diagnostics of its version."""
    begun = time.perf_counter()
    client.change(path, text, version)
    client.await_diagnostics(path, version)
    return time.perf_counter() - begun
