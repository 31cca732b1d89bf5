"""A person who changes a tenant in a browser: in the forms of the portal, and in the pages of Gitea that they open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Page

from tests.controlplane.fixtures import needs_a_browser
from tests.e2e.cloud import Cloud
from tests.portal.pages.browser import Visit, launch
from tests.support.running_portal import RunningPortal

TENANT = """\
apiVersion: allotment.dev/v1alpha1
kind: Tenant
metadata:
  name: {name}
spec:
  displayName: New lab
  plan: starter
"""
MEMBERS = """\
apiVersion: allotment.dev/v1alpha1
kind: Members
metadata:
  name: {name}
spec:
  users:
    - name: {login}
      role: Admin
      login: {login}
      subject: 00u1{login}
"""
PATIENCE = 60_000  # milliseconds; a busy machine answers late


class File(NamedTuple):
    """A file as a page shows it."""

    path: str
    text: str


def declare_empty_tenant(cloud: Cloud, name: str, login: str) -> None:
    """Declare a tenant with one member, and without resources."""
    cloud.declare(f"tenants/{name}/tenant.yaml", TENANT.format(name=name))
    cloud.declare(f"tenants/{name}/members.yaml", MEMBERS.format(name=name, login=login))


@contextmanager
def run_portal(cloud: Cloud, folder: Path) -> Iterator[RunningPortal]:
    """Run the portal of a cloud while the block runs, with the login of the publisher."""
    portal = RunningPortal(cloud.url, folder / "portal")
    try:
        portal.event("portal built")
        yield portal
    finally:
        portal.process.kill()
        portal.process.wait()


class PortalUser:
    """A person in a browser. The person's first page of Gitea asks for the login."""

    def __init__(self, page: Page, portal: RunningPortal, cloud: Cloud, login: str) -> None:
        self.page = page
        self._visit = Visit(page)
        self._origin = f"http://{portal.portal}"
        self._login, self._password = login, cloud.gitea.set_password(login)

    def open(self, path: str) -> None:
        """Open a page of the portal, and forget the errors of Gitea's pages."""
        if not self.page.url.startswith(self._origin):
            self.page.goto("about:blank")  # after it, the page of Gitea reports no more errors
            self._visit.errors.clear()
        self._visit.open(f"{self._origin}/{path}")

    def check_portal(self) -> None:
        """Check that the pages of the portal reported no error, and sent every request to their own origin."""
        assert self._visit.errors == [], self._visit.errors
        assert all(url.startswith(f"{self._origin}/") for url in self._visit.requests), self._visit.requests

    def read_file(self) -> File:
        """Return the file of the form."""
        self.page.locator("#result").wait_for()
        return File(self.page.inner_text("#path"), self.page.locator("#yaml").text_content() or "")

    def open_forge(self) -> None:
        """Follow the link of the form to Gitea, and log in there."""
        self.check_portal()
        self.page.locator("#open").click()
        self.page.fill("#user_name", self._login)
        self.page.fill("#password", self._password)
        self.page.get_by_role("button", name="Sign In").click()

    def fork(self) -> None:
        """Fork the repository, as Gitea asks a person to do who may not push to it."""
        self.page.get_by_role("button", name="Fork Repository").click()

    def read_editor(self) -> File:
        """Return the file in Gitea's editor."""
        self.page.locator(".cm-content").wait_for()
        return File(self.page.input_value("#tree_path"), self.page.input_value("#edit_area"))

    def complete_name(self) -> str:
        """Move the last part of the path into the field for the file's name, and return it.

        Gitea 1.25 and later treat all of the path in the link as folders, and require another name.
        """
        assert self.page.input_value("#file-name") == ""
        self.page.press("#file-name", "Backspace")
        return self.page.input_value("#file-name")

    def propose(self) -> None:
        """Commit the file to a new branch, and open a pull request."""
        self.page.check("[name=commit_choice][value=commit-to-new-branch]")
        self.page.get_by_role("button", name="Propose file change").click()
        self.page.locator("a.show-panel", has_text="New Pull Request").click()
        self.page.get_by_role("button", name="Create Pull Request").click()

    def merge(self) -> None:
        """Merge the pull request of the page."""
        self.page.locator(".merge-button button").click()
        self.page.locator("form[action$='/merge'] button[name=do]").click()
        self.page.get_by_text("successfully merged").first.wait_for()


@contextmanager
def use_portal(portal: RunningPortal, cloud: Cloud, login: str) -> Iterator[PortalUser]:
    """Start a browser for a person while the block runs."""
    needs_a_browser()
    with launch() as browser:
        context = browser.new_context(ignore_https_errors=True)  # Gitea's certificate is its own
        context.set_default_timeout(PATIENCE)
        yield PortalUser(context.new_page(), portal, cloud, login)
