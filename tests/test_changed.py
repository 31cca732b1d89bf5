"""Which test files belong to a change."""

from __future__ import annotations

from tests.changed import module_name, select_tests


def test_a_module_selects_its_mirror_and_the_tests_that_import_it_or_its_importer() -> None:
    selected = select_tests(["renderers/allotment/capacity/pricing.py"])
    assert "tests/capacity/test_pricing.py" in selected
    assert "tests/diff/test_cost_diff.py" in selected  # by way of diff/cost_diff.py
    assert "tests/declared/test_reading.py" not in selected


def test_a_helper_selects_the_tests_that_import_it() -> None:
    selected = select_tests(["tests/support/live.py"])
    assert "tests/cli/lists/test_instance_list.py" in selected
    assert "tests/support/live.py" not in selected


def test_a_test_file_selects_itself_and_a_deleted_file_selects_nothing() -> None:
    assert select_tests(["tests/capacity/test_units.py", "tests/capacity/test_deleted.py"]) == [
        "tests/capacity/test_units.py"
    ]


def test_select_tests_selects_no_test_for_the_conftest() -> None:
    assert select_tests(["tests/conftest.py"]) == []


def test_a_package_is_named_without_its_file() -> None:
    assert module_name("renderers/allotment/rules/__init__.py") == "allotment.rules"
