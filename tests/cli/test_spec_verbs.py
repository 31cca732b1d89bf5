"""`allot spec add`, `price` and the lifecycle: their files, and one error with the valid values for a wrong option."""

from __future__ import annotations

import json

import pytest
from tests.conftest import DAY, Allot
from tests.support.published import Place, git

NAME = ("spec", "add", "l4-two")
GPU = ("--gpu", "nvidia-l4", "--gpu-memory", "24Gi")
ADD = (*NAME, *GPU, "--cpu", "16", "--memory", "64Gi", "--disk", "200Gi", "--price", "1.60")
PRICE = ("spec", "price", "l4-quarter")


def test_a_spec_is_added_with_todays_price(place: Place, allot: Allot) -> None:
    result = allot(*ADD, "--gpu-count", "2", "--cuda-cores", "7424", "--display-name", "Two L4", "--repo", place.root)
    assert result.code == 0, result
    assert (
        (place.root / "platform/specs/l4-two.yaml").read_text()
        == f"""\
# yaml-language-server: $schema=../../schemas/GPUSpec.schema.json
apiVersion: allotment.dev/v1alpha1
kind: GPUSpec
metadata:
  name: l4-two
spec:
  displayName: Two L4
  gpu:
    model: nvidia-l4
    count: 2
    memory: 24Gi
    cudaCores: 7424
  cpu: 16
  memory: 64Gi
  disk: 200Gi
  prices:
    - from: "{DAY}"
      perHour: "1.60"
"""
    )


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (
            ("--time-slicing", "2", "--tenancy", "Single"),
            "  sharing:\n    timeSlicing:\n      replicas: 2\n  tenancy: Single\n",
        ),
        (("--mps", "4", "--tenancy", "Multi"), "  sharing:\n    mps:\n      replicas: 4\n  tenancy: Multi\n"),
        (("--mig", "1g.10gb"), '  sharing:\n    mig:\n      profile: "1g.10gb"\n'),
        (("--spot",), "  capacityType: Spot\n"),
    ],
)
def test_a_way_of_sharing_is_an_option(options: tuple[str, ...], lines: str, place: Place, allot: Allot) -> None:
    assert allot(*ADD, "--from", "2027-01-01", *options, "--repo", place.root).code == 0
    text = (place.root / "platform/specs/l4-two.yaml").read_text()
    assert (
        text.partition("  disk: 200Gi\n")[2] == f'{lines}  prices:\n    - from: "2027-01-01"\n      perHour: "1.60"\n'
    )


def test_an_operation_needs_the_day_of_the_price(place: Place, allot: Allot) -> None:
    words = (*ADD, "--operation-id", "deploy-2026.11_a", "--repo", place.root)
    result = allot(*words)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("allot: 1 option missing: add --from (a day such as 2027-01-01, because a repeat")
    first = allot(*words, "--from", "2027-01-01", "-o", "json")
    assert first.code == 0, first
    assert allot(*words, "--from", "2027-01-01", "-o", "json") == first


def test_a_price_is_set_and_its_effect_is_shown(place: Place, allot: Allot) -> None:
    result = allot(*PRICE, "0.18", "--from", "2031-01-01", "--commit", "--repo", place.root)
    assert result.code == 0, result
    assert "spec.prices from 2031-01-01 0.21 → 0.18 (EUR an hour, -14.3 %)" in result.out
    assert git(place.root, "show", "--format=%s", "--unified=0", "HEAD").splitlines()[-2:] == [
        '+    - from: "2031-01-01"',
        '+      perHour: "0.18"',
    ]


def test_a_lifecycle_is_changed(place: Place, allot: Allot) -> None:
    for verb, lifecycle in (("deprecate", "Deprecated"), ("retire", "Retired"), ("activate", None)):
        answer = json.loads(allot("spec", verb, "l4-half", "-o", "json", "--repo", place.root).out)
        assert answer["resources"] == ["GPUSpec l4-half"]
        text = (place.root / "platform/specs/l4-half.yaml").read_text()
        assert [line for line in text.splitlines() if "lifecycle" in line] == (
            [f"  lifecycle: {lifecycle}"] if lifecycle else []
        )
    assert git(place.root, "status", "--short") == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (NAME, "allot: 6 options missing: add --gpu (a GPU model: nvidia-a100-80gb, nvidia-h100-80gb, nvidia-l4, nvid"),
        (ADD[:-2], "allot: 1 option missing: add --price (an amount per hour such as 0.80)"),
        (
            ("spec", "add", "l4-half", *ADD[3:]),
            "allot: platform/specs/l4-half.yaml exists already: choose another name",
        ),
        (("spec", "add", "L4", *ADD[3:]), "allot: name 'L4' is not allowed: write a-z, 0-9 and single '-'"),
        ((*ADD, "--gpu", "L4 x"), "allot: --gpu: 'L4 x' is not allowed: write a-z, 0-9 and single '-'"),
        ((*ADD, "--gpu-count", "0"), "allot: --gpu-count: 0 is out of range: write at least 1"),
        ((*ADD, "--gpu-count", "two"), "allot: --gpu-count: 'two' is not a whole number: write digits only, such as 4"),
        (
            (*ADD, "--gpu-memory", "24"),
            "allot: --gpu-memory: '24' is not a size: write a whole number with Mi, Gi or Ti",
        ),
        ((*ADD, "--cuda-cores", "many"), "allot: --cuda-cores: 'many' is not a whole number: write digits only"),
        (
            (*ADD, "--cpu", "1.5"),
            "allot: --cpu: '1.5' is not an amount of CPU: write whole cores such as 8, or millico",
        ),
        ((*ADD, "--memory", "64GB"), "allot: --memory: '64GB' is not a size: write a whole number with Mi, Gi or Ti"),
        ((*ADD, "--disk", "big"), "allot: --disk: 'big' is not a size: write a whole number with Mi, Gi or Ti"),
        (
            (*ADD, "--price", "1,60"),
            "allot: --price: '1,60' is not an amount: write a decimal with at most 6 places, suc",
        ),
        (
            (*ADD, "--from", "2027-13-01"),
            "allot: --from: '2027-13-01' is not a date: write a day such as \"2026-01-31\"",
        ),
        ((*ADD, "--time-slicing", "1"), "allot: --time-slicing: 1 is out of range: write at least 2"),
        (
            (*ADD, "--time-slicing", "2"),
            "allot: --tenancy: tenancy is missing: a time-sliced spec says Single or Multi",
        ),
        ((*ADD, "--mps", "49", "--tenancy", "Multi"), "allot: --mps: 49 is out of range: write at most 48"),
        ((*ADD, "--mig", "half"), "allot: --mig: 'half' is not allowed: write a MIG profile such as 1g.10gb"),
        (
            (*ADD, "--mig", "1g.10gb", "--mps", "2"),
            "allot: --time-slicing, --mps, --mig: exactly one of timeSlicing, mig",
        ),
        (
            (*ADD, "--tenancy", "Single"),
            "allot: --tenancy: tenancy is given, but only time-slicing and MPS share a GPU",
        ),
        ((*ADD, "--tenancy", "None"), "Error: Invalid value for '--tenancy': 'None' is not one of 'Single', 'Multi'."),
        ((*ADD, "--display-name", "x" * 101), "allot: --display-name: "),
        ((*ADD, "--description", "x" * 2001), "allot: --description: "),
        ((*PRICE, "0.18"), f"allot: 1 option missing: add --from (a day after today, {DAY}, such as 2027-01-01)"),
        (
            (*PRICE, "free", "--from", "2027-01-01"),
            "allot: AMOUNT: 'free' is not an amount: write a decimal with at mos",
        ),
        (
            (*PRICE, "1", "--from", DAY),
            f"allot: --from: a new price can't start on {DAY}, before tomorrow: write 2026-11-22",
        ),
        (
            (*PRICE, "1", "--from", "2026-10-01"),
            "allot: --from: the price from 2026-10-01 already applies and can't chan",
        ),
        ((*PRICE, "1", "--from", "1.1.2027"), "allot: --from: '1.1.2027' is not a date: write a day such as"),
        (
            ("spec", "price", "l4", "1", "--from", "2027-01-01"),
            "allot: the platform has no GPUSpec named 'l4'; known: ",
        ),
        (("spec", "retire", "l4-hal"), "allot: the platform has no GPUSpec named 'l4-hal'; did you mean 'l4-half'?"),
        (("spec", "deprecate", "l4-half", "../x"), "allot: the platform has no GPUSpec named '../x'; known: a100-1g, "),
        (("spec", "activate"), "Error: Missing argument 'NAME...'."),
    ],
)
def test_a_wrong_value_is_one_error_and_changes_nothing(
    words: tuple[str, ...], message: str, place: Place, allot: Allot
) -> None:
    result = allot(*words, "--repo", place.root)
    assert (result.code, result.out) == (2, "")
    errors = [line for line in result.err.splitlines() if line and not line.startswith(("Usage: ", "Try "))]
    assert [line[: len(message)] for line in errors] == [message]
    assert git(place.root, "status", "--short") == ""
