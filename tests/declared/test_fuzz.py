"""No value in any field of any kind makes the program crash, or costs more than a file may. `tests/fuzz.py` makes the values."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

import pytest
from tests import fuzz
from tests.conftest import PROJECT
from tests.published import Place

from allotment.declared.kinds import KINDS

SEED = 20_261_124
MOST = 150  # files of a kind that are read
VALIDATED = 8  # files that the whole sample is validated with
PLANNED = 6  # files that can be read, and that are planned

CASES = list(fuzz.cases(PROJECT))


@pytest.mark.parametrize("path", sorted({case.path for case in CASES}))
def test_no_value_of_a_field_makes_the_reader_crash(path: str) -> None:
    several = [case for case in CASES if case.path == path]
    for case in random.Random(SEED).sample(several, min(MOST, len(several))):
        fuzz.read(case)


def test_every_kind_has_a_file_in_the_sample() -> None:
    assert fuzz.samples(PROJECT).keys() == KINDS.keys()


@pytest.mark.parametrize("case", random.Random(SEED).sample(CASES, VALIDATED), ids=lambda case: str(case.field))
def test_no_value_of_a_field_makes_validate_crash(case: fuzz.Case, sample: Path) -> None:
    assert fuzz.run(sample, case) in (0, 1)


def test_no_value_that_can_be_read_makes_a_plan_crash(place: Place) -> None:
    shuffled = random.Random(SEED).sample(CASES, len(CASES))
    readable = islice((case for case in shuffled if fuzz.read(case)), PLANNED)
    for case in readable:
        assert fuzz.run(place.root, case, "plan") in (0, 1)
