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
from tests.published import Place

from allotment.adapters.folder import FolderSource
from allotment.declared import reading
from allotment.declared.inventory import Folder, Offers
from allotment.declared.layout import Scope
from allotment.pipeline.check import share, workers
from allotment.pipeline.check.share import RULE, Spent, TimeShare
from allotment.pipeline.check.survey import survey
from allotment.pipeline.render import Renderer
from allotment.readiness.standing import Standing

DAY = datetime.date(2026, 11, 21)
TENANT = "tenants/solo-ada"
SLOW = 120


def slow_files(root: Path) -> None:
    """Write files whose every one takes a third of a second."""
    for n in range(SLOW):
        head = f"apiVersion: allotment.dev/v1alpha1\nkind: GPUInstance\nmetadata:\n  name: bad-{n}\nspec:\n  x: ["
        (root / TENANT / f"instances/bad-{n}.yaml").write_text(head + "a,  " * 15_000)


def test_who_takes_too_long_is_named_and_ends_in_time(sample: Path) -> None:
    slow_files(sample)
    begun = time.thread_time()
    found = survey(FolderSource(sample), DAY, render=Renderer(list), processes=1, share=0.5)
    assert time.thread_time() - begun < 10
    assert [(one.path, one.rule) for one in found.by_tenant["solo-ada"]] == [(TENANT, RULE)]
    assert "longer than a tenant's share of a publish" in found.by_tenant["solo-ada"][0].message
    assert [name for name, several in found.by_tenant.items() if not all(one.warning for one in several)] == [
        "solo-ada"
    ]
    assert all(found.made[name] for name in found.parts if name != "solo-ada")


def _ten_times(clock: Callable[[], float]) -> float:
    return 10 * clock()


def test_it_keeps_what_was_published_and_the_others_follow(published: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: text for path, text in published.tree("eu-1").items() if path.startswith("tenants/solo-ada/")}
    slow_files(published.root)
    quick = SimpleNamespace(
        **{name: partial(_ten_times, getattr(time, name)) for name in ("thread_time", "perf_counter")}
    )
    monkeypatch.setattr(share, "time", quick)
    edit(published.root, "tenants/studio-kite/instances/comfy.yaml", "spec:\n", "spec:\n  description: New.\n")
    result = published.merged()
    assert result.code == 4
    assert "kept as it was: tenant solo-ada, 1 problem" in result.err
    assert "longer than a tenant's share of a publish" in result.err
    after = published.tree("eu-1")
    assert {path: text for path, text in after.items() if path.startswith("tenants/solo-ada/")} == before
    assert published.log("eu-1", "%s")[0].startswith("Publish eu-1: ")


@pytest.mark.parametrize("processes", [1, 2])
def test_rendering_counts_too(sample: Path, processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from allotment.manifests import tree

    real = tree.render_tenant

    def slow(
        offers: Offers, tenant: Folder, standing: Standing, only: frozenset[str] | None = None
    ) -> Iterator[tuple[str, bytes]]:
        for one in real(offers, tenant, standing, only):
            end = time.thread_time() + 0.3
            while tenant.name == "studio-kite" and time.thread_time() < end:
                pass
            yield one

    monkeypatch.setattr(tree, "render_tenant", slow)
    monkeypatch.setattr(workers, "ALONE", 2)
    found = survey(FolderSource(sample), DAY, render=Renderer(list), processes=processes, share=0.5)
    assert [one.rule for one in found.by_tenant["studio-kite"] if not one.warning] == [RULE]
    assert found.made["studio-kite"] is None
    assert all(found.made[name] for name in found.parts if name != "studio-kite")


def test_a_tenant_of_too_many_files_or_bytes_is_not_read_to_its_end(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in (("MOST_FILES", 3), ("MOST_BYTES", 500)):
        with monkeypatch.context() as patch:
            patch.setattr(workers, name, most)
            raw = workers.read_scope(FolderSource(sample), Scope("tenant", "studio-kite"))
            assert [(one.path, one.rule) for one in raw.problems] == [("tenants/studio-kite", "size")]
            assert len(raw.files) <= 3
            assert not workers.read_scope(FolderSource(sample), Scope("platform", "")).problems


def test_a_share_is_of_the_time_that_is_worked() -> None:
    mine = TimeShare(0.2)
    with mine.taken():
        for _ in mine.through(range(3)):
            time.sleep(0.15)
    with pytest.raises(Spent), mine.taken():
        for _ in mine.through(range(1_000_000_000)):
            pass
    with pytest.raises(Spent), mine.taken():
        pass
    with TimeShare(None).taken():
        assert list(TimeShare(None).through("ab")) == ["a", "b"]


def test_what_was_found_broken_costs_no_share_again(sample: Path) -> None:
    reading._known.clear()
    slow_files(sample)
    for n in range(SLOW - 2):
        (sample / TENANT / f"instances/bad-{n}.yaml").unlink()
    survey(FolderSource(sample), DAY, processes=1)
    found = survey(FolderSource(sample), DAY, processes=1, share=0.3)
    assert RULE not in {one.rule for one in found.by_tenant["solo-ada"]}
