"""Frames: the gate that remembers them gives the same verdict as a gate that judges every text completely."""

from __future__ import annotations

import operator
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conftest import scale_examples
from tests.support.gate_bed import BOUNDARIES, COPY, FILLED, MODELS, SNAPSHOT, WEBUI, entitled
from tests.support.rendered_tree import sample_tree

from allotment.isolation import frames
from allotment.isolation.boundary import Boundary
from allotment.isolation.frame_learning import FrameLearner
from allotment.isolation.gate import IsolationGate, parse_owner
from allotment.isolation.hidden_values import HiddenValue, HiddenValueRead
from allotment.isolation.published_policy import FileOwner
from allotment.manifests.yaml_text import split
from allotment.problems import IsolationBroken

__all__ = ["sample_tree"]

# Values that a mutation writes after a key or a dash: of another type, a word of YAML, structure, a form of a slot.
VALUES = (
    *(
        "no",
        "true",
        "7",
        "0",
        "-1",
        "70000",
        "99999999999",
        "{}",
        "[]",
        '""',
        '"no"',
        '"7"',
        "1Gi",
        "evil",
        "a: b",
        "a:",
    ),
    *('"\\u0061"', '"a" #', "# a", "&a b", "*a", "!!str a", "| ", "'a'", "NVIDIA_VISIBLE_DEVICES", "Delete", "copy"),
    *("f" * 40, '"' + "0" * 40 + '"', f"registry.test/x@sha256:{'a' * 64}", "solo-ada", "t-solo-ada", "studio-kite"),
    *("models--prepare-0123456789-1", '"--job=models--prepare-0123456789-1"', "system-cluster-critical", "all"),
)


class CompleteGate(IsolationGate):
    """A gate that judges every text completely."""

    def _find_frame(self, boundary: Boundary, owner: FileOwner, text: str) -> None:
        return None

    def _find_or_learn_frame(self, boundary: Boundary, owner: FileOwner, text: str) -> None:
        return None


def verdict(gate: IsolationGate, path: str, data: bytes) -> str:
    """Return the violations that a gate reports; empty if the file passes."""
    try:
        gate.check(path, data, entitled(path))
    except IsolationBroken as error:
        return str(error)
    return ""


def mutate(lines: list[str], chance: random.Random) -> None:
    """Change one line: its value, its key, its place or a character of it."""
    at = chance.randrange(len(lines))
    line = lines[at]
    head = line[: line.find(": ") + 2] if ": " in line else line[: line.find("- ") + 2] if "- " in line else line + " "
    match chance.randrange(9):
        case 0 | 1 | 2:
            lines[at] = head + chance.choice(VALUES)
        case 3:
            other = chance.choice(lines)
            lines[at] = head + (other.partition(": ")[2] or other.partition("- ")[2])
        case 4:
            del lines[at]
        case 5:
            lines.insert(chance.randrange(len(lines) + 1), line)
        case 6:
            lines[at] = chance.choice(lines)
        case 7:
            place = chance.randrange(len(line) + 1)
            lines[at] = line[:place] + chance.choice(' -:"#\\{[x0\t\u2028é') + line[place + chance.randrange(2) :]
        case _:
            lines[at] = line.replace(*chance.sample(("solo-ada", "studio-kite", "webui", "models", "ml-orbit", "x"), 2))


@pytest.fixture(scope="module")
def gates(sample_tree: dict[str, bytes]) -> tuple[IsolationGate, CompleteGate, list[tuple[str, bytes]]]:
    """Return a gate that remembers the frames of the sample, a complete gate, and the files of tenants."""
    remembering = IsolationGate(BOUNDARIES)
    files = []
    for path, data in sorted(sample_tree.items()):
        owner = parse_owner(path.partition("/")[2])
        if owner is not None and owner.part != "platform":
            files.append((path, data))
            remembering.check(path, data, entitled(path))
    return remembering, CompleteGate(BOUNDARIES), files


@pytest.mark.process
@settings(max_examples=scale_examples(1_500), suppress_health_check=[HealthCheck.too_slow])
@given(chance=st.randoms(use_true_random=False), mutations=st.integers(1, 3), other_owner=st.booleans())
def test_frames_change_no_verdict(
    gates: tuple[IsolationGate, CompleteGate, list[tuple[str, bytes]]],
    chance: random.Random,
    mutations: int,
    other_owner: bool,
) -> None:
    remembering, complete, files = gates
    path, data = chance.choice(files)
    lines = data.decode().split("\n")[:-1]
    for _ in range(mutations):
        mutate(lines, chance)
        if not lines:
            return
    if other_owner:  # a frame of one owner must not count for another
        path = chance.choice(files)[0]
    mutant = ("\n".join(lines) + "\n").encode()
    assert verdict(remembering, path, mutant) == verdict(complete, path, mutant)


@pytest.mark.process
def test_every_line_with_every_value_has_the_same_verdict(
    gates: tuple[IsolationGate, CompleteGate, list[tuple[str, bytes]]], sample_tree: dict[str, bytes]
) -> None:
    remembering, complete, _ = gates
    passed = 0
    for path in (MODELS, SNAPSHOT, COPY, FILLED, WEBUI):
        lines = sample_tree[path].decode().split("\n")[:-1]
        for at, line in enumerate(lines):
            head = line[: line.find(": ") + 2] if ": " in line else line[: line.find("- ") + 2]
            for value in VALUES[at % 4 :: 4]:
                mutant = ("\n".join([*lines[:at], head + value, *lines[at + 1 :]]) + "\n").encode()
                words = verdict(complete, path, mutant)
                assert verdict(remembering, path, mutant) == words
                passed += not words
    assert passed > 30


def test_a_file_that_lacks_objects_has_the_same_verdict(
    gates: tuple[IsolationGate, CompleteGate, list[tuple[str, bytes]]],
) -> None:
    remembering, complete, files = gates
    refused = 0
    for path, data in files:
        texts = split(data)
        for number, text in enumerate(texts):
            for some in ([text], texts[:number] + texts[number + 1 :]):
                part = ("\n---\n".join(some) + "\n").encode()
                expected = verdict(complete, path, part)
                assert [verdict(remembering, path, part) for _ in range(2)] == [expected] * 2
                refused += bool(expected)
    assert refused


@pytest.mark.parametrize(
    ("path", "start", "value"),
    [
        (MODELS, "storage: ", "3Gi"),
        (MODELS, "allotment.dev/declared-blob: ", f'"{"1" * 40}"'),
        (WEBUI, "image: ", f"registry.test/other@sha256:{'b' * 64}"),
        (WEBUI, "value: ", '"no"'),
        (WEBUI, "replicas: ", "0"),
        (FILLED, "allotment.dev/input-hash: ", "b" * 64),
        (FILLED, "activeDeadlineSeconds: ", "77"),
    ],
)
def test_a_value_that_the_tenant_chooses_needs_no_new_frame(
    path: str, start: str, value: str, sample_tree: dict[str, bytes]
) -> None:
    gate = IsolationGate(BOUNDARIES)
    gate.check(path, sample_tree[path], entitled(path))
    count = len(gate.frames)
    head, _, tail = sample_tree[path].decode().partition(f" {start}")
    gate.check(path, f"{head} {start}{value}\n{tail.partition(chr(10))[2]}".encode(), entitled(path))
    assert len(gate.frames) == count


def test_another_job_needs_no_new_frame(sample_tree: dict[str, bytes]) -> None:
    gate = IsolationGate(BOUNDARIES)
    gate.check(FILLED, sample_tree[FILLED], entitled(FILLED))
    count = len(gate.frames)
    other = re.sub(rb"--prepare-[0-9a-f]{10}-[0-9]+", b"--prepare-0123456789-12", sample_tree[FILLED])
    assert other != sample_tree[FILLED]
    gate.check(FILLED, other, entitled(FILLED))
    assert len(gate.frames) == count
    with pytest.raises(IsolationBroken):  # a Job that names another Job
        gate.check(FILLED, other.replace(b"--prepare-0123456789-12", b"--prepare-0123456789-13", 3), entitled(FILLED))


def test_the_number_of_frames_is_limited(sample_tree: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_FRAMES", 5)
    monkeypatch.setattr(frames, "MAX_FRAMES_OF_SCOPE", 2)
    gate = IsolationGate(BOUNDARIES)
    for path, data in sample_tree.items():
        if "/tenants/" in path:
            gate.check(path, data, entitled(path))
            assert len(gate.frames) <= 5


def test_the_number_of_remembered_lines_is_limited(
    sample_tree: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "MAX_ACCEPTED_LINES", 3)
    gate = IsolationGate(BOUNDARIES)
    for size in range(1, 9):
        data = re.sub(rb"storage: [0-9]+Gi", f"storage: {size}Gi".encode(), sample_tree[MODELS])
        gate.check(MODELS, data, entitled(MODELS))
    line = frames.find_chosen_line(6, False, "storage", "<a-size>")
    assert 0 < len(line.accepted) <= 3


def test_a_check_that_reads_a_value_keeps_it_fixed(sample_tree: dict[str, bytes]) -> None:
    """The kind of GPU decides the unit and the nodes, and the name of a variable must not be one of NVIDIA's."""
    owner = parse_owner(WEBUI.partition("/")[2])
    assert owner is not None
    frame = FrameLearner(BOUNDARIES["eu-1"]).learn(owner, split(sample_tree[WEBUI])[0])
    assert frame is not None
    keys = {line.line.key for line in frame.lines if isinstance(line, frames.ChosenLine)}
    assert keys >= {"allotment.dev/declared-blob", "image", "value", "replicas"}
    assert keys.isdisjoint({"allotment.dev/gpu-spec", "allotment.dev/tenant", "namespace", "cpu", "nvidia.com/gpu"})
    assert any(isinstance(line, str) and line.strip().startswith("- name: HF_HOME") for line in frame.lines)


OPERATIONS: list[Callable[[Any], Any]] = [
    str,
    repr,
    bool,
    len,
    hash,
    int,
    list,
    lambda value: value == "x",
    lambda value: "x" == value,  # noqa: SIM300
    lambda value: value != "x",
    lambda value: value in ("x",),
    lambda value: value in {"x"},
    lambda value: "x" in value,
    lambda value: f"{value}",
    lambda value: "x" + value,
    lambda value: {"a": value} != {"a": "x"},
    lambda value: isinstance(value, str),
    lambda value: value.startswith("x"),
    lambda value: sorted([value, value]),
    operator.itemgetter(0),
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_hidden_value_tells_nothing(operation: Callable[[Any], Any]) -> None:
    with pytest.raises(HiddenValueRead):
        operation(HiddenValue("<a-text>", ("spec",)))
