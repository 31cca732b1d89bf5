"""No value in any field of any kind makes the program crash, or costs more than a file may. `tests/support/fuzz.py` makes the values."""

from __future__ import annotations

import datetime
import random
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
from tests.conftest import DAY, PROJECT, scale_examples
from tests.support import fuzz
from tests.support.published import Place, git

from allotment.adapters.folder_source import FolderSource
from allotment.adapters.overlay_source import OverlaySource
from allotment.declared.kinds import KINDS
from allotment.services.check.catalog_check import check_catalog
from allotment.services.publish.renderer import ClusterRenderer

SEED = 20_261_124
READ = 50  # files of a kind that are read
VALIDATED = 8  # files that the whole sample is validated with
PLANNED = 4  # files that can be read, and that are planned
PUBLISHED = 6  # rounds


@cache
def all_cases() -> list[fuzz.Case]:
    """Return every case of every kind, in a fixed order."""
    return list(fuzz.cases(PROJECT))


@cache
def cases_by_path() -> dict[str, list[fuzz.Case]]:
    """Return every case by the path of its file."""
    by_path: dict[str, list[fuzz.Case]] = {}
    for case in all_cases():
        by_path.setdefault(case.path, []).append(case)
    return by_path


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_value_of_a_field_makes_the_reader_crash(kind: str) -> None:
    assert kind in fuzz.samples(PROJECT), f"add a file of the kind {kind} to the sample"
    path, _ = fuzz.samples(PROJECT)[kind]
    cases = cases_by_path()[path]
    for case in random.Random(SEED).sample(cases, min(scale_examples(READ), len(cases))):
        fuzz.read(case)


def test_every_kind_has_a_file_in_the_sample() -> None:
    assert fuzz.samples(PROJECT).keys() == KINDS.keys()


@pytest.mark.parametrize("number", range(VALIDATED))
def test_no_value_of_a_field_makes_validate_crash(number: int, sample: Path) -> None:
    case = random.Random(SEED).sample(all_cases(), VALIDATED)[number]
    assert fuzz.run(sample, case) in (0, 1), case


def test_cluster_renderer_renders_every_valid_cluster_or_platform_case(sample: Path) -> None:
    folder, rendered = FolderSource(sample), 0
    for case in fuzz.structural_cases(sample, ("clusters", "platform")):
        if not fuzz.read(case):
            continue
        check = check_catalog(OverlaySource(folder, {case.path: case.data}), datetime.date.fromisoformat(DAY))
        if all(problem.warning for problem in check.problems):
            files = dict(ClusterRenderer(check.catalog).render_files((), lambda _: "s"))
            assert len(files) > 20, case
            rendered += 1
    assert rendered > 5


def test_no_value_that_can_be_read_makes_a_plan_crash(place: Place) -> None:
    shuffled = random.Random(SEED).sample(all_cases(), len(all_cases()))
    readable = islice((case for case in shuffled if fuzz.read(case)), scale_examples(PLANNED))
    for case in readable:
        assert fuzz.run(place.root, case, "plan") in (0, 1)


def test_no_value_of_a_tenants_field_stops_the_publish_of_another(published: Place) -> None:
    """In each round a file of each of a tenant's kinds has a strange value, and another tenant has a change."""
    chance = random.Random(SEED)
    own = "tenants/uni-lab/instances/group-a.yaml"
    original = (published.root / own).read_text()
    paths = sorted(path for path in cases_by_path() if path.startswith("tenants/"))
    by_path = {path: cases_by_path()[path] for path in paths if "/uni-lab/" not in path}
    assert len(by_path) > 3
    for number in range(scale_examples(PUBLISHED)):
        chosen = [chance.choice(cases) for cases in by_path.values()]
        before = {case.path: (published.root / case.path).read_bytes() for case in chosen}
        for case in chosen:
            (published.root / case.path).write_bytes(case.data)
        (published.root / own).write_text(original.replace("spec:\n", f"spec:\n  displayName: Round {number}\n"))
        result = published.merged()
        fields = [(case.path, case.field) for case in chosen]
        assert result.code in (0, 4), (fields, result.err[-2000:])
        blob = git(published.root, "rev-parse", f"HEAD:{own}")
        text = published.tree("eu-1")["tenants/uni-lab/compute/group-a.rendered.yaml"]
        assert blob in text, (fields, result.err)
        for path, data in before.items():
            (published.root / path).write_bytes(data)
