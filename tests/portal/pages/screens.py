"""docs/screens/portal: pages of the portal of the sample as pictures: `python -m tests.portal.pages.screens`, which `make screens` calls.

The clock of the browser stands still, so ages are the same each time. Fonts are those of the machine, so no test compares pixels.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from tests.conftest import PROJECT
from tests.portal.pages.browser import launch, serve, wait_for_form
from tests.portal.pages.sample_site import NOW, build, create_place

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDER = PROJECT / "docs/screens/portal"


class Screen(NamedTuple):
    """A picture of a page at a width in CSS pixels. `form` has the values of fields."""

    name: str
    page: str
    width: int
    height: int
    theme: Literal["light", "dark"] = "light"
    form: tuple[tuple[str, str], ...] = ()


SCREENS = (
    Screen("catalog-1920", "index.html", 1920, 900),
    Screen("tenant-1024", "tenants/studio-kite/index.html", 1024, 1100),
    Screen("tenant-360", "tenants/studio-kite/index.html", 360, 800, "dark"),
    Screen(
        "new-instance-1024",
        "tenants/studio-kite/new-instance.html",
        1024,
        1400,
        form=(("name", "painter"), ("app", "stable-diffusion-webui"), ("gpuSpec", "l4-quarter")),
    ),
    Screen("instance-360", "tenants/studio-kite/instances/webui.html", 360, 800),
    Screen("provider-1920", "provider/eu-1.html", 1920, 1000, "dark"),
    Screen("platform-1024", "platform/index.html", 1024, 1000),
)


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        build(create_place(Path(folder)), Path(folder) / "site")
        with serve(Path(folder) / "site") as url, launch() as browser:
            for screen in SCREENS:
                take(browser, url, screen)


def take(browser: Browser, url: str, screen: Screen) -> None:
    """Write the picture of a page."""
    size = {"width": screen.width, "height": screen.height}
    context = browser.new_context(viewport=size, color_scheme=screen.theme)  # type: ignore[arg-type]  # it is a ViewportSize
    page = context.new_page()
    page.clock.set_fixed_time(NOW)
    page.goto(f"{url}/{screen.page}")
    wait_for_form(page)
    for name, value in screen.form:
        field = page.locator(f'[name="{name}"]')
        if field.evaluate("field => field.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    page.screenshot(path=FOLDER / f"{screen.name}.png")
    context.close()


if __name__ == "__main__":
    main()
