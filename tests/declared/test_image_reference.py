"""Names of images, as people write them."""

from __future__ import annotations

import pytest

from allotment.declared.image_reference import parse_image_reference
from allotment.problems import OperationRefused

DIGEST = f"sha256:{64 * 'a'}"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("python:3.13", "docker.io/library/python:3.13"),
        ("vllm/vllm-openai:v0.20.0", "docker.io/vllm/vllm-openai:v0.20.0"),
        ("docker.io/python:3.13", "docker.io/library/python:3.13"),
        ("index.docker.io/a/b:1", "docker.io/a/b:1"),
        ("quay.io/jupyter/base-notebook:2026-01-01", "quay.io/jupyter/base-notebook:2026-01-01"),
        ("localhost:5000/web:1", "localhost:5000/web:1"),
        ("localhost/web:1", "localhost/web:1"),
        ("registry.example:5000/a/b_c/d__e/f-g:V1_x.y-z", "registry.example:5000/a/b_c/d__e/f-g:V1_x.y-z"),
    ],
)
def test_full_names(text: str, name: str) -> None:
    assert parse_image_reference(text).name == name
    assert parse_image_reference(f"{text}@{DIGEST}").digest == DIGEST
    assert parse_image_reference(text).with_digest(DIGEST) == f"{name}@{DIGEST}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("python", "image 'python' has no tag"),
        ("localhost:5000/python", "image 'localhost:5000/python' has no tag"),
        ("", "image '' has no tag"),
        ("python:latest", "names 'latest', which moves"),
        ("python:3@sha256:1", "has an invalid digest: write sha256: and 64 hexadecimal digits"),
        ("Python:3", "'Python:3' is not the name of an image"),
        ("a//b:1", "is not the name of an image"),
        ("a/../b:1", "is not the name of an image"),
        ("a b:1", "is not the name of an image"),
        ("registry.example/a:1\n", "is not the name of an image"),
        ("https://registry.example/a:1", "is not the name of an image"),
        ("user@registry.example/a:1", "has an invalid digest"),
        (f"registry.example/{300 * 'a'}:1", "is not the name of an image"),
        (f"registry.example/{3000 * 'a-'}:1", "is not the name of an image"),
        ("\x1b[31m:1", r"'\x1b[31m:1' is not the name of an image"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(OperationRefused) as raised:
        parse_image_reference(text)
    assert message in str(raised.value)
    assert str(raised.value).isprintable()
