"""Renders pages from templates. All values are escaped, and a missing value is an error."""

from __future__ import annotations

import datetime
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from allotment.capacity.pricing import format_hourly, format_money
from allotment.conditions import FAILED, KEPT, LOST, RUNNING, STOPPED, STORAGE_READY
from allotment.declared.values import TEBI, format_size
from allotment.observed.quantity import parse_quantity
from allotment.observed.status import parse_time
from allotment.portal.pages.inert_text import format_code, make_inert, safe_url

if TYPE_CHECKING:
    from jinja2 import Environment

ASSETS = ("portal.css", "portal.js", "icon.svg")
_CLASSES = {RUNNING: "good", STORAGE_READY: "good", FAILED: "bad", KEPT: "bad", LOST: "bad", STOPPED: "off"}


class Page(NamedTuple):
    """A file of the portal: its path below the folder of the portal, and its content."""

    path: str
    content: bytes


def list_assets() -> list[Page]:
    """Return the style sheet, the script and the icon of all pages."""
    folder = files("allotment.portal.pages") / "assets"
    return [Page(f"assets/{name}", (folder / name).read_bytes()) for name in ASSETS]


def render_page(path: str, template: str, **values: Any) -> Page:
    """Return the page at `path`. Without a `root`, its links are relative, so the portal works below any address."""
    values = {"root": "../" * path.count("/"), "path": path, **values}
    text = _open_templates().get_template(template).render(**values)
    return Page(path, text.encode())


@cache
def _open_templates() -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader(
            [PackageLoader("allotment.portal.pages"), PackageLoader("allotment.reports")]
        ),  # the second has plots
        autoescape=True,
        undefined=StrictUndefined,
        finalize=make_inert,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "code": format_code,
        "hourly": _format_hourly,
        "money": _format_money,
        "moment": _format_moment,
        "size": _format_size,
        "state_class": lambda state: _CLASSES.get(state, "busy"),
        "url": safe_url,
    }
    return environment


def _format_money(amount: Decimal | None) -> str:
    return "–" if amount is None else format_money(amount)


def _format_hourly(amount: Decimal | None) -> str:
    return "–" if amount is None else format_hourly(amount)


def _format_size(size: int | str | None) -> str:
    """Return a size, in bytes or as text such as 60Gi, for people: sizes of 10 TiB and more are in whole TiB; 0 for None."""
    amount = int(parse_quantity(size))
    return f"{amount // TEBI}Ti" if amount >= 10 * TEBI else format_size(amount)


def _format_moment(text: str) -> str:
    """Return a time of a status for people, in UTC; the text itself if it is not a time."""
    moment = parse_time(text)
    return f"{moment.astimezone(datetime.UTC):%Y-%m-%d %H:%M} UTC" if moment else text
