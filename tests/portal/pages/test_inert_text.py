"""Text of tenants is inert on pages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup, escape

from allotment.portal.pages.inert_text import (
    MAX_TEXT,
    format_code,
    hide_tenants,
    is_file_name,
    make_inert,
    safe_url,
    shorten_text,
)


@given(st.text())
def test_a_text_on_a_page_is_printable(text: str) -> None:
    assert make_inert(text).isprintable()


@pytest.mark.parametrize(
    ("text", "inert"),
    [
        ("Grüße, 世界", "Grüße, 世界"),
        ("a\u202eb", "a\\u202eb"),
        ("a\nb\x00", "a\\nb\\x00"),
        ("\ud800", "\\ud800"),
        ("x" * (MAX_TEXT + 1), "x" * MAX_TEXT + f"… ({MAX_TEXT + 1} characters)"),
    ],
)
def test_control_characters_are_escaped_and_long_texts_cut(text: str, inert: str) -> None:
    assert make_inert(text) == inert


def test_values_that_are_not_texts_and_html_stay() -> None:
    assert make_inert(3) == 3
    assert make_inert(Markup("<b>\n</b>")) == Markup("<b>\n</b>")


@pytest.mark.parametrize(
    ("address", "link"),
    [
        ("https://a.example/x", "https://a.example/x"),
        ("http://a.example", "http://a.example"),
        ("javascript:alert(1)", ""),
        ("JavaScript:alert(1)", ""),
        ("data:text/html,x", ""),
        ("//a.example", ""),
        (" https://a.example", ""),
        ("https://a.example/\u202e", ""),
        ("https://" + "a" * MAX_TEXT, ""),
        ("", ""),
    ],
)
def test_only_addresses_of_the_web_are_links(address: str, link: str) -> None:
    assert safe_url(address) == link


def test_code_is_marked_and_html_escaped() -> None:
    assert format_code("run `allot <x>` & wait") == "run <code>allot &lt;x&gt;</code> &amp; wait"


REST = "the rest names another tenant, so it is not shown here"
ALL = "this text names another tenant, so it is not shown here"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no unit is free: ml-orbit/chat holds 4, solo-ada 1", f"no unit is free: {REST}"),
        ("no unit is free: solo-ada/webui holds 4", "no unit is free: solo-ada/webui holds 4"),
        ("no unit is free: gpu/chat holds 4", f"no unit is free: {REST}"),
        ("the stock is reserved for gpu; wait", ALL),
        ("see https://webui--film-house.eu-1.example", ALL),
        ("a; tenant gpu: chat holds 1; b", f"a: {REST}"),
        ("gpu's storage base is in us-1", ALL),
        ("file: no Tenant is named 'gpo'; did you mean 'gpu'?", f"file: no Tenant is named 'gpo': {REST}"),
        ("file: no Tenant is named 'x'; known: gpu, solo-ada", f"file: no Tenant is named 'x'; known: {REST}"),
        ("file: no Tenant is named 'x'; known: solo-ada, gpu", f"file: no Tenant is named 'x'; known: {REST}"),
        ("no unit of the gpu is free", "no unit of the gpu is free"),
        ("web-ui and film-house failed", ALL),
        ("web-ui failed", "web-ui failed"),
        ("web-ui/chat failed", ALL),
        ("orbit of ml", "orbit of ml"),
    ],
)
def test_a_text_ends_before_the_name_of_another_tenant(text: str, shown: str) -> None:
    tenants = {"ml-orbit", "solo-ada", "film-house", "gpu", "no", "web-ui"}
    assert hide_tenants(text, "solo-ada", tenants, {"web-ui", "chat"}) == shown


@pytest.mark.parametrize("shown", range(1, len("film-house")))
def test_a_name_across_the_end_of_a_long_text_is_hidden(shown: int) -> None:
    text = f"{'x' * (MAX_TEXT - shown - 2)}: film-house waits {'y' * 5_000}"
    assert hide_tenants(text, "solo-ada", {"film-house"}) == f"{'x' * (MAX_TEXT - shown - 2)}: {REST}"


def test_the_length_of_a_long_text_is_that_of_all_of_it() -> None:
    assert make_inert(hide_tenants("x" * 5_000, "solo-ada", {"film-house"})).endswith("… (5000 characters)")


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("webui", True),
        ("web-ui2", True),
        ("../x", False),
        ("a/b", False),
        ("", False),
        ("Web", False),
        ("a" * 65, False),
    ],
)
def test_only_names_of_resources_are_part_of_a_path(name: str, fits: bool) -> None:
    assert is_file_name(name) is fits


@given(st.text(), st.integers(1, 50))
def test_a_text_of_a_row_has_a_limited_size(text: str, most: int) -> None:
    short = shorten_text(text, most)
    assert short.isprintable()
    assert len(escape(short.removesuffix("…")).encode()) <= most


def test_a_text_of_a_row_is_cut_before_the_character_that_is_too_much() -> None:
    assert shorten_text("a<b", 5) == "a<…"
    assert shorten_text("a<b", 6) == "a<b"
    assert shorten_text("\u202e", 6) == "\\u202e"
