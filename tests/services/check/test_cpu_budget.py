"""A tenant that takes longer than its share of a publish is kept as it was and named; the others are published."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.conftest import edit
from tests.support.published import Place

from allotment.adapters.folder_source import FolderSource
from allotment.declared import reading
from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.layout import Scope
from allotment.preparation.runtime_state import RuntimeState
from allotment.services.check import cpu_budget, workers
from allotment.services.check.artifacts import ArtifactHook
from allotment.services.check.check_options import CheckOptions
from allotment.services.check.cpu_budget import RULE, BudgetExceeded, CpuBudget
from allotment.services.check.repository_check import RepositoryCheck, check_repository
from allotment.services.publish.renderer import Renderer

DAY = datetime.date(2026, 11, 21)
TENANT = "tenants/solo-ada"
SLOW = 120


def slow_files(root: Path) -> None:
    """Write files whose every one takes a third of a second."""
    for n in range(SLOW):
        head = f"apiVersion: allotment.dev/v1alpha1\nkind: GPUInstance\nmetadata:\n  name: bad-{n}\nspec:\n  x: ["
        (root / TENANT / f"instances/bad-{n}.yaml").write_text(head + "a,  " * 15_000)


def check_and_render(root: Path, processes: int) -> tuple[RepositoryCheck, dict[str, list[tuple[str, bytes]] | None]]:
    """Return the check of a folder with a budget of half a second, and the rendered files of each tenant."""
    rendered: dict[str, list[tuple[str, bytes]] | None] = {}
    options = CheckOptions(processes=processes, cpu_seconds=0.5)
    hook = ArtifactHook(Renderer[list[tuple[str, bytes]]](list), rendered.__setitem__)
    return check_repository(FolderSource(root), DAY, options, hook=hook), rendered


def test_check_repository_stops_and_names_a_slow_tenant_in_time(sample: Path) -> None:
    slow_files(sample)
    begun = time.thread_time()
    repository_check, rendered = check_and_render(sample, 1)
    assert time.thread_time() - begun < 10
    assert [(problem.path, problem.rule) for problem in repository_check.tenant_problems["solo-ada"]] == [
        (TENANT, RULE)
    ]
    assert "exceeds the time limit of a tenant" in repository_check.tenant_problems["solo-ada"][0].message
    assert [
        name
        for name, problems in repository_check.tenant_problems.items()
        if not all(problem.warning for problem in problems)
    ] == ["solo-ada"]
    assert all(rendered[name] for name in repository_check.tally_entries if name != "solo-ada")


def _ten_times(clock: Callable[[], float]) -> float:
    return 10 * clock()


def test_publish_retains_the_files_of_a_slow_tenant(published: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: text for path, text in published.tree("eu-1").items() if path.startswith("tenants/solo-ada/")}
    slow_files(published.root)
    quick = SimpleNamespace(
        **{name: partial(_ten_times, getattr(time, name)) for name in ("thread_time", "perf_counter")}
    )
    monkeypatch.setattr(cpu_budget, "time", quick)
    edit(published.root, "tenants/studio-kite/instances/comfy.yaml", "spec:\n", "spec:\n  description: New.\n")
    result = published.merged()
    assert result.code == 4
    assert "retained: tenant solo-ada, 1 problem" in result.err
    assert "exceeds the time limit of a tenant" in result.err
    after = published.tree("eu-1")
    assert {path: text for path, text in after.items() if path.startswith("tenants/solo-ada/")} == before
    assert published.log("eu-1", "%s")[0].startswith("Publish eu-1: ")


@pytest.mark.parametrize("processes", [1, 2])
def test_rendering_counts_too(sample: Path, processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from allotment.manifests import layout

    real = layout.render_tenant

    def slow(
        catalog: Catalog, tenant: ScopeDeclarations, runtime_state: RuntimeState, only: frozenset[str] | None = None
    ) -> Iterator[tuple[str, bytes]]:
        for rendered_file in real(catalog, tenant, runtime_state, only):
            end = time.thread_time() + 0.3
            while tenant.name == "studio-kite" and time.thread_time() < end:
                pass
            yield rendered_file

    monkeypatch.setattr(layout, "render_tenant", slow)
    monkeypatch.setattr(workers, "MIN_PARALLEL_TENANTS", 2)
    repository_check, rendered = check_and_render(sample, processes)
    assert [problem.rule for problem in repository_check.tenant_problems["studio-kite"] if not problem.warning] == [
        RULE
    ]
    assert rendered["studio-kite"] is None
    assert all(rendered[name] for name in repository_check.tally_entries if name != "studio-kite")


def test_a_tenant_of_too_many_files_or_bytes_is_not_read_to_its_end(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in (("MAX_FILES", 3), ("MAX_BYTES", 500)):
        with monkeypatch.context() as patch:
            patch.setattr(workers, name, most)
            raw = workers.read_scope(FolderSource(sample), Scope("tenant", "studio-kite"))
            assert [(problem.path, problem.rule) for problem in raw.problems] == [("tenants/studio-kite", "size")]
            assert len(raw.files) <= 3
            assert not workers.read_scope(FolderSource(sample), Scope("platform", "")).problems


def test_a_share_is_of_the_time_that_is_worked() -> None:
    mine = CpuBudget(0.2)
    with mine.measure():
        for _ in mine.meter(range(3)):
            time.sleep(0.15)
    with pytest.raises(BudgetExceeded), mine.measure():
        for _ in mine.meter(range(1_000_000_000)):
            pass
    with pytest.raises(BudgetExceeded), mine.measure():
        pass
    with CpuBudget(None).measure():
        assert list(CpuBudget(None).meter("ab")) == ["a", "b"]


def test_check_repository_charges_no_time_for_cached_broken_files(sample: Path) -> None:
    reading._read_cache.clear()
    slow_files(sample)
    for n in range(SLOW - 2):
        (sample / TENANT / f"instances/bad-{n}.yaml").unlink()
    check_repository(FolderSource(sample), DAY, CheckOptions(processes=1))
    repository_check = check_repository(FolderSource(sample), DAY, CheckOptions(processes=1, cpu_seconds=0.3))
    assert RULE not in {problem.rule for problem in repository_check.tenant_problems["solo-ada"]}
