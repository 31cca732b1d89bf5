"""The hash of a preparation's input: it depends on the source alone, whether or not it is remembered."""

from __future__ import annotations

import hashlib

import pytest

from allotment.declared.kinds.gpu_storage import ImageSource, Prepare, S3Source, Source, SourceSecretRef
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


def test_the_hash_of_a_private_bucket_has_the_name_of_the_secret_that_published_storages_have() -> None:
    old = (
        '{"s3": {"bucket": "data", "endpoint": "https://s3.test", "prefix": "", "region": "us-east-1",'
        ' "secretRef": {"name": "keys--secret"}}}'
    )
    for name in ("keys", "keys--secret"):
        s3 = S3Source(endpoint="https://s3.test", bucket="data", secretRef=SourceSecretRef(name=name))
        assert job_names.input_hash(Prepare(source=Source(s3=s3))) == hashlib.sha256(old.encode()).hexdigest()
