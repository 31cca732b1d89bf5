"""The hash of a preparation's input: it depends on the source alone, whether or not it is remembered."""

from __future__ import annotations

import pytest

from allotment.declared.kinds.gpu_storage import ImageSource, Prepare, Source
from allotment.preparation import job_names

IMAGE = f"registry.test/fetch@sha256:{'a' * 64}"


def prepare(argument: str, attempt: int = 1) -> Prepare:
    return Prepare(source=Source(image=ImageSource(image=IMAGE, args=[argument])), attempt=attempt)


def test_equal_sources_have_the_same_hash_and_others_another() -> None:
    assert job_names.input_hash(prepare("a")) == job_names.input_hash(prepare("a", attempt=2))
    assert job_names.input_hash(prepare("a")) != job_names.input_hash(prepare("b"))


def test_a_remembered_hash_is_that_of_its_own_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_names, "_MAX_RECENT_HASHES", 2)
    expected = {argument: job_names.input_hash(prepare(argument)) for argument in "abcde"}
    assert len(set(expected.values())) == 5
    preparations = [(argument, prepare(argument)) for argument in "abcdeabcde"]
    for argument, each in [*preparations, *preparations]:
        assert job_names.input_hash(each) == expected[argument]
