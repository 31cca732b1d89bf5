"""The picture of the layout follows the import contracts."""

from __future__ import annotations

import pytest

from tests.reference.layout import BEGIN, CONTRIBUTING, picture, with_picture


def test_the_picture_has_each_layer_in_the_order_of_the_data() -> None:
    lines = [line.split()[0] for line in picture().splitlines() if line[4] != " "]
    order = ["declared/", "rules/", "manifests/", "isolation/", "adapters/", "services/", "cli/"]
    assert [name for name in lines if name in order] == order
    assert "      check/ " in picture(), "the layers of services are below services"


def test_a_contributing_page_without_the_place_of_the_picture_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"CONTRIBUTING\.md lacks the line"):
        with_picture(CONTRIBUTING.read_text(encoding="utf-8").replace(BEGIN, ""))
