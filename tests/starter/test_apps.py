"""The built-in catalog: each app is valid, pinned to a version, and fits the pods of instances."""

from __future__ import annotations

import pytest

from allotment.declared.image_reference import parse_image_reference
from allotment.declared.kinds.app import AppVersion
from allotment.starter.apps import APPS, FILES_IMAGE, CatalogApp, app_version

DIGEST = f"sha256:{64 * 'a'}"


@pytest.mark.parametrize("app", APPS.values(), ids=list(APPS))
def test_an_app_is_valid(app: CatalogApp) -> None:
    image = parse_image_reference(app.image)
    version = AppVersion.model_validate(app_version(app, image.with_digest(DIGEST)))
    assert image.name == app.image, "the full name, so that a declaration says which registry it is from"
    assert version.container.image == f"{app.image}@{DIGEST}"
    assert [(port.name, port.exposure) for port in version.container.ports] == [("http", "Members")]
    assert version.container.probe is not None
    assert version.folders
    assert all(source.startswith("https://") for source in app.sources)


@pytest.mark.parametrize("app", APPS.values(), ids=list(APPS))
def test_an_app_needs_no_privileges(app: CatalogApp) -> None:
    words = [*app.container.get("command", ()), *app.container.get("args", ())]
    assert not {"sudo", "su", "gosu", "chown", "--user"} & {*words}
    assert all(port["containerPort"] >= 1024 for port in app.container["ports"]), "a lower port needs a capability"


def test_the_accessor_has_the_version_that_allotment_is_tested_with() -> None:
    assert parse_image_reference(FILES_IMAGE).tag == "v0.46.0"


def test_only_a_cache_is_optional() -> None:
    versions = [app_version(app, f"{app.image}@{DIGEST}") for app in APPS.values()]
    assert [each["path"] for version in versions for each in version["folders"] if each.get("optional")] == ["/models"]
    assert all(set(app.caches) <= set(app.folders) for app in APPS.values())
