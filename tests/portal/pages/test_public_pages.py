"""The public pages name shared GPU memory, and describe apps without a description by what they run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.portal.pages.page_text import index_pages, read_text
from tests.portal.pages.sample_areas import read_sample
from tests.portal.pages.sample_site import create_place

from allotment.portal.pages.page_renderer import Page
from allotment.portal.pages.public_pages import build_public_pages, describe_offers
from allotment.portal.pages.site_facts import SiteFacts


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> SiteFacts:
    return read_sample(create_place(Path(tmp_path_factory.mktemp("public")))).site


@pytest.fixture
def pages(site: SiteFacts) -> dict[str, Page]:
    return index_pages(build_public_pages(site))


def test_the_home_page_warns_of_shared_memory(pages: dict[str, Page]) -> None:
    text = read_text(pages["index.html"])
    assert "1/4 nvidia-l4, 24Gi of GPU memory shared by 4: neighbours can use it up 0.21 EUR per hour" in text
    assert "1 nvidia-l4, 24Gi of GPU memory 0.84 EUR per hour" in text


def test_the_first_offers_are_the_cheapest_gpu_spec_and_an_active_version(site: SiteFacts) -> None:
    app = next(app for app in site.apps if app.name == "stable-diffusion-webui")
    newest, older = app.versions
    changed = app._replace(versions=(newest._replace(lifecycle="Deprecated"), older._replace(lifecycle="Active")))
    offers = describe_offers(site._replace(apps=(changed,)))
    assert [version["version"] for version in offers["apps"][0]["versions"]] == [older.version, newest.version]
    names = [spec["name"] for spec in offers["gpuSpecs"] if spec["cluster"] == "eu-1"]
    assert names == ["l4-quarter", "a100-1g", "l4-whole", "a100-3g"]


@pytest.mark.parametrize("path", ["index.html", "catalog/index.html"])
def test_an_app_without_a_description_says_what_it_runs(pages: dict[str, Page], path: str) -> None:
    text = read_text(pages[path])
    assert "ComfyUI Runs registry.example/apps/comfyui:0.6.0 with files in /workspace." in text
    assert "Pictures from text, in the browser. Models belong in /workspace/models." in text


def test_a_missing_page_names_only_the_pages_of_the_build(site: SiteFacts, pages: dict[str, Page]) -> None:
    assert "Your area All tenants , for the platform team" in read_text(pages["404.html"])
    own = index_pages(build_public_pages(site, "solo-ada"))["404.html"]
    assert "The page of solo-ada" in read_text(own)
    assert "All tenants" not in read_text(own)


def test_an_app_without_an_active_version_is_named_in_the_catalog_and_in_its_choice(site: SiteFacts) -> None:
    (app,) = [each for each in site.apps if each.name == "stable-diffusion-webui"]
    old = app._replace(versions=tuple(version._replace(lifecycle="Deprecated") for version in app.versions))
    for each, is_named in ((app, False), (old, True)):
        pages = index_pages(build_public_pages(site._replace(apps=(each,))))
        (offer,) = json.loads(pages["catalog/offers.json"].content)["apps"]
        assert (offer["title"] == f"{app.title} (Deprecated)") == is_named
        assert (f"{app.title} Deprecated" in read_text(pages["catalog/index.html"])) == is_named
        assert "Version 1.10.1 Deprecated , replaced by 1.11.0" in read_text(pages["catalog/index.html"])


def test_the_form_proposes_what_the_questions_of_the_command_propose(site: SiteFacts) -> None:
    offers = describe_offers(site)
    ranks = {spec["access"]: spec["rank"] for spec in offers["storageSpecs"]}
    assert ranks["ReadWriteMany"] < ranks["ReadWriteOnce"]
    folders = [folder for app in offers["apps"] for version in app["versions"] for folder in version["folders"]]
    assert {folder["path"]: folder["name"] for folder in folders}["/workspace/outputs"] == "outputs"
