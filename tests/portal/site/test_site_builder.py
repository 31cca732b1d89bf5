"""A build renders only the tenants whose inputs changed, and ends with the same pages as a build from scratch."""

from __future__ import annotations

import datetime
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import DAY, Allot, edit
from tests.portal.pages.sample_site import BUILD_TENANT_PAGES, NOW, create_place, fail_on, report_all
from tests.support.published import Place
from tests.support.sample_reports import TROUBLES

from allotment.adapters.page_folder import PageFolder
from allotment.branches.declarations_clone import DeclarationsClone
from allotment.observed.status import UsageInterval
from allotment.portal.pages.access import AccessList, Visitor
from allotment.portal.site.resource_reader import MAX_RESOURCES
from allotment.portal.site.site_builder import BuildResult, SiteBuilder
from allotment.portal.site.tenant_writer import TenantResult, TenantWriter
from allotment.problems import OperationRefused

ALL = 7
NEWEST_COMMIT = re.compile(r"\b[0-9a-f]{12,40}\b")
MAX_FORM = 70_000  # with all names and storages, so that a page with its assets stays below 100 KB


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The sample with reports. Tests copy it."""
    return create_place(tmp_path_factory.mktemp("pristine"))


@pytest.fixture
def place(pristine: Place, tmp_path: Path) -> Place:
    return pristine.copy(tmp_path)


class Portal:
    """A builder and its folder, which each build compares with a build from scratch."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place, self.folder = place, folder
        self.builder = SiteBuilder(DeclarationsClone(place.root), PageFolder(folder / "site"))

    def build(self, now: datetime.datetime = NOW) -> BuildResult:
        result = self.builder.build(now)
        fresh = self.folder / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        SiteBuilder(DeclarationsClone(self.place.root), PageFolder(fresh)).build(now)
        assert read_all(self.folder / "site") == read_all(fresh)
        assert result.pages == len(read_all(fresh)) - 1, "all but the marker"
        return result


@pytest.fixture
def portal(place: Place, tmp_path: Path) -> Portal:
    portal = Portal(place, tmp_path / "portal")
    assert portal.build().tenants == ALL
    return portal


def read_all(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_without_a_change_nothing_is_rendered(portal: Portal) -> None:
    result = portal.build()
    assert (result.tenants, result.changed, result.removed) == (0, 0, 0)


def test_a_change_of_a_tenant_renders_this_tenant(portal: Portal) -> None:
    edit(portal.place.root, "tenants/solo-ada/tenant.yaml", "displayName: Ada", "displayName: Countess")
    portal.place.merge()
    result = portal.build()
    assert result.tenants == 1
    assert result.changed > 5
    assert "Countess" in (portal.folder / "site/tenants/solo-ada/index.html").read_text(encoding="utf-8")


@pytest.mark.process
def test_a_report_of_a_tenant_renders_this_tenant(portal: Portal) -> None:
    report_all(portal.place)
    assert portal.build().tenants == 0, "the same reports in new commits"
    report_all(portal.place, {**TROUBLES, ("uni-lab", "group-a"): ("Failed", "CrashLoop", "exit code 1")})
    assert portal.build().tenants == 1
    assert "CrashLoop" in (portal.folder / "site/tenants/uni-lab/index.html").read_text(encoding="utf-8")


@pytest.mark.process
def test_a_publish_renders_what_is_not_as_declared(portal: Portal, allot: Allot) -> None:
    """Four resources of the sample are in trouble, in three tenants."""
    assert portal.build().tenants == 0
    result = allot("publish", "--repo", portal.place.root, "--as-of", DAY)
    assert result.code == 0, result.err
    settled = {"film-house", "northlight", "solo-ada", "uni-lab"}
    assert portal.build().tenants == ALL - len(settled)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda root: edit(root, "platform/specs/l4-quarter.yaml", '"0.21"', '"0.22"'), id="price"),
        pytest.param(lambda root: edit(root, "platform/plans/starter.yaml", "instances: 3", "instances: 4"), id="plan"),
    ],
)
def test_a_change_of_the_catalog_renders_all(portal: Portal, change: Callable[[Path], None]) -> None:
    change(portal.place.root)
    portal.place.merge()
    assert portal.build().tenants == ALL


@pytest.mark.process
def test_each_hour_all_costs_are_computed_again(portal: Portal) -> None:
    assert portal.build(NOW + datetime.timedelta(minutes=10)).tenants == 0
    assert portal.build(NOW + datetime.timedelta(hours=1)).tenants == ALL


def test_the_pages_of_a_removed_tenant_go(portal: Portal) -> None:
    shutil.rmtree(portal.place.root / "tenants/uni-lab")
    portal.place.merge()
    result = portal.build()
    assert result.removed > 5
    assert not (portal.folder / "site/tenants/uni-lab").exists()
    assert "uni-lab" not in (portal.folder / "site/platform/tenants-1.html").read_text(encoding="utf-8")


def test_an_orphan_and_a_broken_storage_have_pages(portal: Portal) -> None:
    """A storage that is only reported has no StorageSpec."""
    storages = portal.place.root / "tenants/studio-kite/storages"
    (storages / "outputs.yaml").unlink()
    edit(portal.place.root, "tenants/studio-kite/storages/model-cache.yaml", "  storageSpec: shared-files\n", "")
    portal.place.merge()
    portal.build()
    for name in ("outputs", "model-cache"):
        page = portal.folder / f"site/tenants/studio-kite/storages/{name}.html"
        assert "<dt>Storage spec</dt>" in page.read_text(encoding="utf-8")


def test_a_new_tenant_gets_pages(portal: Portal) -> None:
    shutil.copytree(portal.place.root / "tenants/northlight", portal.place.root / "tenants/new-lab")
    for path in (portal.place.root / "tenants/new-lab").rglob("*.yaml"):
        path.write_text(path.read_text(encoding="utf-8").replace("northlight", "new-lab"), encoding="utf-8")
    portal.place.merge()
    assert portal.build().tenants == 1
    assert (portal.folder / "site/tenants/new-lab/index.html").exists()


@pytest.mark.process
def test_a_failed_build_is_repeated(portal: Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(portal.place.root, "tenants/solo-ada/tenant.yaml", "displayName: Ada", "displayName: Countess")
    portal.place.merge()

    def fail(*arguments: object) -> bool:
        raise OperationRefused("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(PageFolder, "write", fail)
        with pytest.raises(OperationRefused, match="full"):
            portal.builder.build(NOW)
    assert portal.build().tenants == 1


@pytest.mark.process
def test_a_bug_with_one_tenant_leaves_the_others(portal: Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read_all(portal.folder / "site/tenants/uni-lab")
    for tenant, old, new in (("uni-lab", "displayName: ", "displayName: New "), ("solo-ada", "Ada", "Countess")):
        edit(portal.place.root, f"tenants/{tenant}/tenant.yaml", old, new)
    portal.place.merge()

    with monkeypatch.context() as patch:
        patch.setattr(BUILD_TENANT_PAGES, fail_on("uni-lab"))
        for _ in range(2):
            result = portal.builder.build(NOW)
            assert list(result.tracebacks) == ["uni-lab"]
            assert "ValueError: a bug" in result.tracebacks["uni-lab"]
        assert result.removed == 0
        assert read_all(portal.folder / "site/tenants/uni-lab") == before
        assert "Countess" in (portal.folder / "site/tenants/solo-ada/index.html").read_text(encoding="utf-8")
    assert portal.build().tenants == 1


@pytest.mark.process
def test_a_bug_with_one_tenant_in_a_first_build_leaves_earlier_pages(
    portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each `allot portal build` is a first build. The sums of the provider need all tenants, so its pages stay, too."""
    site = portal.folder / "site"
    before = [read_all(site / folder) for folder in ("tenants/uni-lab", "provider")]

    builder = SiteBuilder(DeclarationsClone(portal.place.root), PageFolder(site))
    with monkeypatch.context() as patch:
        patch.setattr(BUILD_TENANT_PAGES, fail_on("uni-lab"))
        result = builder.build(NOW)
    assert (list(result.tracebacks), result.removed) == (["uni-lab"], 0)
    assert [read_all(site / folder) for folder in ("tenants/uni-lab", "provider")] == before
    assert all(before)
    for tenants in (1, ALL, 0):  # the tenant that failed, then all for the pages of the provider
        result = builder.build(NOW)
        assert (result.tenants, result.removed) == (tenants, 0)
        assert read_all(site / "provider") == before[1]


def test_a_tenants_folder_has_nothing_of_others_after_a_build_that_failed(
    portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = portal.folder / "site"
    assert (site / "provider/index.html").exists()
    builder = SiteBuilder(DeclarationsClone(portal.place.root), PageFolder(site), tenant="solo-ada")

    def fail(writer: TenantWriter, names: list[str]) -> list[TenantResult]:
        raise OperationRefused("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(TenantWriter, "run_batch", fail)
        with pytest.raises(OperationRefused, match="full"):
            builder.build(NOW)
    assert sorted(path.name for path in site.iterdir()) == [
        ".allotment-portal",
        "404.html",
        "assets",
        "catalog",
        "index.html",
        "start",
        "tenants",
    ]
    assert sorted(path.name for path in (site / "tenants").iterdir()) == ["index.html", "solo-ada"]
    builder.build(NOW)
    second_result = SiteBuilder(DeclarationsClone(portal.place.root), PageFolder(site), tenant="solo-ada").build(NOW)
    assert (second_result.changed, second_result.removed) == (0, 0)


def test_a_bug_does_not_keep_the_pages_of_others_in_a_tenants_folder(
    portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = portal.folder / "site"
    monkeypatch.setattr(BUILD_TENANT_PAGES, fail_on("solo-ada"))
    result = SiteBuilder(DeclarationsClone(portal.place.root), PageFolder(site), tenant="solo-ada").build(NOW)
    assert list(result.tracebacks) == ["solo-ada"]
    assert not (site / "provider").exists()
    assert sorted(path.name for path in (site / "tenants").iterdir()) == ["index.html", "solo-ada"]


def test_a_bad_record_of_a_tenant_changes_no_page_of_others(place: Place, tmp_path: Path) -> None:
    def read_tenants(name: str) -> dict[str, str]:
        out = tmp_path / name
        SiteBuilder(DeclarationsClone(place.root), PageFolder(out)).build(NOW)
        texts = {
            str(path.relative_to(out)): path.read_text(encoding="utf-8") for path in out.rglob("tenants/**/*.html")
        }
        return {path: NEWEST_COMMIT.sub("", text) for path, text in texts.items()}

    before = read_tenants("before")
    bad = UsageInterval(
        "GPUStorage", "files", "bad", "2026-11-03T00:00:00Z", "2026-11-04T00:00:00Z", size="junk", storage_spec="x"
    )
    report_all(place, more_usage={"ml-orbit": bad})
    after = read_tenants("after")
    assert {path.split("/")[1] for path, text in after.items() if text != before[path]} == {"ml-orbit"}
    assert "No usage of eu-1 is known" in after["tenants/ml-orbit/index.html"]


def test_a_change_and_its_revert_are_in_the_history(portal: Portal) -> None:
    path = "tenants/solo-ada/tenant.yaml"
    edit(portal.place.root, path, "displayName: Ada", "displayName: Countess")
    portal.place.merge()
    edit(portal.place.root, path, "displayName: Countess", "displayName: Ada")
    portal.place.merge()
    history = portal.folder / "site/tenants/solo-ada/history.html"
    count = history.read_text(encoding="utf-8").count("<tr>")
    assert portal.build().tenants == 1
    assert history.read_text(encoding="utf-8").count("<tr>") == count + 2


def test_a_platform_without_clusters_has_pages(place: Place, tmp_path: Path) -> None:
    for folder in ("clusters", "tenants", "platform/add-ons"):
        shutil.rmtree(place.root / folder, ignore_errors=True)
    place.merge()
    SiteBuilder(DeclarationsClone(place.root), PageFolder(tmp_path / "site")).build(NOW)
    assert "0.00 EUR" in (tmp_path / "site/provider/index.html").read_text(encoding="utf-8")
    assert "No cluster is declared." in (tmp_path / "site/platform/index.html").read_text(encoding="utf-8")


def test_a_removed_member_loses_access_before_the_pages_are_rendered(place: Place, tmp_path: Path) -> None:
    path = place.root / "platform/platform.yaml"
    path.write_text(f"{path.read_text(encoding='utf-8')}  portal:\n    cluster: eu-1\n", encoding="utf-8")
    place.merge()
    ada = Visitor("00u1ada", frozenset())
    seen: list[tuple[bool, bool]] = []

    def update(access_list: AccessList | None) -> None:
        assert access_list is not None
        page = tmp_path / "site/tenants/solo-ada/members.html"
        is_member = access_list.may_read("tenants/solo-ada/members.html", ada)
        seen.append((is_member, page.exists() and "ada-k" in page.read_text(encoding="utf-8")))

    builder = SiteBuilder(DeclarationsClone(place.root), PageFolder(tmp_path / "site"), update_readers=update)
    builder.build(NOW)
    edit(place.root, "tenants/solo-ada/members.yaml", "subject: 00u1ada", "subject: 00u1other")
    edit(place.root, "tenants/solo-ada/members.yaml", "login: ada-k", "login: ada-x")
    place.merge()
    builder.build(NOW)
    assert seen == [(True, False), (False, True)]


@pytest.mark.process
def test_a_tenant_with_many_instances_has_a_limited_number_of_pages(portal: Portal) -> None:
    folder = portal.place.root / "tenants/uni-lab/instances"
    text = (folder / "group-a.yaml").read_text(encoding="utf-8")
    for number in range(MAX_RESOURCES + 20):
        (folder / f"many-{number}.yaml").write_text(text.replace("group-a", f"many-{number}"), encoding="utf-8")
    folder = portal.place.root / "tenants/uni-lab/storages"
    text = (folder / "papers.yaml").read_text(encoding="utf-8")
    for number in range(MAX_RESOURCES):
        name = f"many-files-with-a-long-name-{number}"
        (folder / f"{name}.yaml").write_text(text.replace("name: papers", f"name: {name}"), encoding="utf-8")
    portal.place.merge()
    wait = ("Waiting", "NoFreeUnit", "no unit is free")
    report_all(portal.place, {**TROUBLES, ("uni-lab", "many-1"): wait, ("uni-lab", "many-99"): wait})
    assert portal.builder.build(NOW).tenants == 1  # the provider pages wait for the next hour
    pages = portal.folder / "site/tenants/uni-lab"
    assert len(list((pages / "instances").iterdir())) == MAX_RESOURCES
    assert "more resources have no page here" in (pages / "index.html").read_text(encoding="utf-8")
    form = (pages / "new-instance.html").read_text(encoding="utf-8")
    assert all(f'"many-{number}"' in form for number in range(MAX_RESOURCES + 20))
    assert '"notes": []' in form
    assert len(form) < MAX_FORM
    platform = portal.folder / "site/platform/index.html"
    text = platform.read_text(encoding="utf-8")
    assert "tenants/uni-lab/instances/many-1.html" in text
    assert "many-99" in text
    assert not (pages / "instances/many-99.html").exists()
    for page in (platform, *pages.rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        for link in re.findall(r'href="[./]*/(tenants/[^"#]+\.html)', text):
            assert (portal.folder / "site" / link).exists(), (page, link)
