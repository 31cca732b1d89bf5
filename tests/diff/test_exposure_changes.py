"""Under which addresses a tenant's things are reached, and by whom: each that opens, closes or moves, in a line."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import DAY, copy, edit

from allotment.adapters.folder_source import FolderSource
from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.layout import PLATFORM, Scope
from allotment.declared.reading import read_folder
from allotment.diff.exposure_changes import ExposureDiff, compare_exposure
from allotment.diff.tenant_side import TenantSide
from allotment.services.check.workers import read_scope

APP = "platform/apps/stable-diffusion-webui.yaml"
SIMULATE, OPEN = "tenants/acme-robotics/instances/simulate.yaml", "tenants/acme-robotics/instances/open.yaml"
PRETRAIN = "tenants/ml-orbit/instances/pretrain.yaml"
NO_ADDRESS = (
    "no URL: it is reachable only inside the namespace; to open a port to people, declare it with `exposure: Members`"
)
MODELS, WEBUI = "tenants/solo-ada/storages/models.yaml", "tenants/solo-ada/instances/webui.yaml"
EU, US = "eu-1.gpu.northlight.example", "us-1.gpu.northlight.example"
FILES, ADAS = f"https://models--files--solo-ada.{EU}/", f"https://webui--solo-ada.{EU}/"
REPLAY = f"https://simulate--replay--acme-robotics.{US}/replay"
ANYBODY = "(open to everybody without login)"
MEMBERS = "(open to Admins and Members of {} after login)"
VIEWERS = "(open to Admins, Members and Viewers of {} after login)"
PAGE = """      - name: http
        containerPort: 8080
        protocol: HTTP
        exposure: Members
"""

Change = Callable[[Path], object]


def end_of(root: Path, tenant: str) -> TenantSide:
    source = FolderSource(root)
    folders = {scope: read_folder(scope, read_scope(source, scope).files)[0] for scope in source.scopes()[0]}
    clusters = {scope.name: folder for scope, folder in folders.items() if scope.kind == "cluster"}
    scope = Scope("tenant", tenant)
    return TenantSide(
        Catalog(folders[PLATFORM], clusters, datetime.date.fromisoformat(DAY)),
        folders.get(scope, ScopeDeclarations(scope)),
    )


def reached(root: Path, tenant: str, change: Change) -> ExposureDiff:
    """Return what a change does to a tenant's addresses."""
    before = end_of(root, tenant)
    change(root)
    return compare_exposure(before, end_of(root, tenant))


def swap(path: str, old: str, new: str) -> Change:
    return lambda root: edit(root, path, old, new)


def both(*steps: Change) -> Change:
    return lambda root: [step(root) for step in steps]


def public_version(root: Path) -> None:
    """Offer a version of the App whose port everybody may open."""
    text = (root / APP).read_text()
    last = text[text.index('    - version: "1.11.0"') :]
    last = last.replace("1.11.0", "1.12.0").replace("exposure: Members", "exposure: Public")
    (root / APP).write_text(text + last)


# The tenant, what changes, the lines, and how many addresses that there were are gone, elsewhere or open to others.
CASES: dict[str, tuple[str, Change, list[str], int]] = {
    "an accessor accepts uploads": (
        "solo-ada",
        swap(MODELS, "    exposure: Members\n", "    exposure: Members\n    mode: ReadWrite\n"),
        [f"access: {MODELS}: {FILES} mode ReadOnly → ReadWrite (Admins and Members of solo-ada may change its files)"],
        1,
    ),
    "an instance takes a version that everybody reaches": (
        "solo-ada",
        both(public_version, swap(WEBUI, '"1.11.0"', '"1.12.0"')),
        [f"access: {WEBUI}: {ADAS} Members → Public {ANYBODY}"],
        1,
    ),
    "a new instance of a version that everybody reaches": (
        "solo-ada",
        both(
            public_version,
            lambda root: copy(root, WEBUI, "tenants/solo-ada/instances/second.yaml"),
            swap("tenants/solo-ada/instances/second.yaml", '"1.11.0"', '"1.12.0"'),
        ),
        [f"access: tenants/solo-ada/instances/second.yaml: https://second--solo-ada.{EU}/ added: Public {ANYBODY}"],
        0,
    ),
    "a version that instances have opens": (
        "solo-ada",
        lambda root: (root / APP).write_text((root / APP).read_text().replace(": Members", ": Public")),
        [f"access: {WEBUI}: {ADAS} Members → Public {ANYBODY}"],
        1,
    ),
    "a new instance with ports of its own": (
        "acme-robotics",
        lambda root: copy(root, SIMULATE, OPEN),
        [
            f"access: {OPEN}: https://open--acme-robotics.{US}/ added: Members {MEMBERS.format('acme-robotics')}",
            f"access: {OPEN}: https://open--replay--acme-robotics.{US}/replay added: Public {ANYBODY}",
        ],
        0,
    ),
    "a port that is open to everybody, written with an escape": (
        "acme-robotics",
        both(lambda root: copy(root, SIMULATE, OPEN), swap(OPEN, "exposure: Public", 'exposure: "\\u0050ublic"')),
        [
            f"access: {OPEN}: https://open--acme-robotics.{US}/ added: Members {MEMBERS.format('acme-robotics')}",
            f"access: {OPEN}: https://open--replay--acme-robotics.{US}/replay added: Public {ANYBODY}",
        ],
        0,
    ),
    "files that everybody sees": (
        "solo-ada",
        swap(MODELS, "exposure: Members", "exposure: Public"),
        [f"access: {MODELS}: {FILES} Members → Public {ANYBODY}"],
        1,
    ),
    "files that everybody sees, the word broken over two lines": (
        "solo-ada",
        swap(MODELS, "exposure: Members", 'exposure: "Pub\\\n      lic"'),
        [f"access: {MODELS}: {FILES} Members → Public {ANYBODY}"],
        1,
    ),
    "an accessor is removed": (
        "solo-ada",
        swap(MODELS, "  accessor:\n    exposure: Members\n", ""),
        [f"addresses: {MODELS}: {FILES} removed: Members (this URL stops working)"],
        1,
    ),
    "an accessor is added": (
        "acme-robotics",
        swap("tenants/acme-robotics/storages/frames.yaml", "spec:\n", "spec:\n  accessor: {}\n"),
        [
            f"access: tenants/acme-robotics/storages/frames.yaml: https://frames--files--acme-robotics.{US}/ added: Members"
            f" {VIEWERS.format('acme-robotics')}"
        ],
        0,
    ),
    "an instance that only members reach": (
        "acme-robotics",
        swap(SIMULATE, "exposure: Public", "exposure: Members"),
        [f"addresses: {SIMULATE}: {REPLAY} Public → Members"],
        1,
    ),
    "a port that nobody reaches any more": (
        "acme-robotics",
        swap(SIMULATE, "exposure: Public", "exposure: Namespace"),
        [f"addresses: {SIMULATE}: {REPLAY} removed: Public (this URL stops working)"],
        1,
    ),
    "a port of another name": (
        "acme-robotics",
        swap(SIMULATE, "name: replay", "name: again"),
        [
            f"addresses: {SIMULATE}: URL {REPLAY} → https://simulate--again--acme-robotics.{US}/replay (the old URL stops working)"
        ],
        1,
    ),
    "a port of another name that opens": (
        "acme-robotics",
        both(
            swap(SIMULATE, "name: http\n", "name: page\n"),
            swap(SIMULATE, "port: http\n", "port: page\n"),
            swap(SIMULATE, "exposure: Members", "exposure: Public"),
        ),
        [
            f"addresses: {SIMULATE}: URL https://simulate--acme-robotics.{US}/ → https://simulate--page--acme-robotics.{US}/"
            " (the old URL stops working)",
            f"access: {SIMULATE}: https://simulate--page--acme-robotics.{US}/ Members → Public {ANYBODY}",
        ],
        1,
    ),
    "another path": (
        "acme-robotics",
        swap(SIMULATE, "basePath: /replay", "basePath: /again"),
        [f"addresses: {SIMULATE}: URL {REPLAY} → https://simulate--replay--acme-robotics.{US}/again"],
        1,
    ),
    "two ports exchange their numbers": (
        "acme-robotics",
        both(
            swap(SIMULATE, "containerPort: 8080", "containerPort: 1"),
            swap(SIMULATE, "containerPort: 9090", "containerPort: 8080"),
            swap(SIMULATE, "containerPort: 1\n", "containerPort: 9090\n"),
        ),
        [
            f"access: {SIMULATE}: https://simulate--acme-robotics.{US}/ port 8080 → 9090 (points to port 9090 instead of 8080: {MEMBERS.format('acme-robotics')[1:]}",
            f"access: {SIMULATE}: {REPLAY} port 9090 → 8080 (points to port 8080 instead of 9090: {ANYBODY[1:]}",
        ],
        2,
    ),
    "a port takes the number of one that is gone": (
        "acme-robotics",
        both(
            swap(SIMULATE, PAGE, ""),
            swap(SIMULATE, "containerPort: 9090", "containerPort: 8080"),
            swap(SIMULATE, "port: http\n", "port: replay\n"),
        ),
        [
            f"addresses: {SIMULATE}: https://simulate--acme-robotics.{US}/ removed: Members (this URL stops working)",
            f"access: {SIMULATE}: {REPLAY} port 9090 → 8080 (points to port 8080 instead of 9090: {ANYBODY[1:]}",
        ],
        2,
    ),
    "a version that instances have leads elsewhere": (
        "solo-ada",
        lambda root: (root / APP).write_text((root / APP).read_text().replace("containerPort: 7860", "containerPort: 7861")),
        [
            f"access: {WEBUI}: {ADAS} port 7860 → 7861 (points to port 7861 instead of 7860: {MEMBERS.format('solo-ada')[1:]}"
        ],
        1,
    ),
    "an instance in another cluster": (
        "solo-ada",
        swap(WEBUI, "cluster: eu-1", "cluster: us-1"),
        [f"addresses: {WEBUI}: URL {ADAS} → https://webui--solo-ada.{US}/ (the old URL stops working)"],
        1,
    ),
    "a new instance that nobody can open, as it exposes no port": (
        "acme-robotics",
        both(
            lambda root: copy(root, SIMULATE, OPEN),
            swap(OPEN, "        exposure: Members\n", ""),
            swap(OPEN, "exposure: Public", "exposure: Namespace"),
        ),
        [f"addresses: {OPEN}: {NO_ADDRESS}"],
        0,
    ),
    "a new instance without any port": (
        "ml-orbit",
        lambda root: copy(root, PRETRAIN, "tenants/ml-orbit/instances/again.yaml"),
        [f"addresses: tenants/ml-orbit/instances/again.yaml: {NO_ADDRESS}"],
        0,
    ),
    "an instance whose only address goes": (
        "acme-robotics",
        both(swap(SIMULATE, "exposure: Members", "exposure: Namespace"), swap(SIMULATE, "exposure: Public", "exposure: Namespace")),
        [
            f"addresses: {SIMULATE}: https://simulate--acme-robotics.{US}/ removed: Members (this URL stops working)",
            f"addresses: {SIMULATE}: {REPLAY} removed: Public (this URL stops working)",
            f"addresses: {SIMULATE}: {NO_ADDRESS}",
        ],
        2,
    ),
    "an instance without an address that changes otherwise": (
        "ml-orbit", swap(PRETRAIN, "state: Stopped", "state: Running"), [], 0,
    ),
    "an instance that is gone": ("acme-robotics", lambda root: (root / SIMULATE).unlink(), [], 0),
    "a cluster that nobody declares": ("solo-ada", swap(WEBUI, "cluster: eu-1", "cluster: eu-9"), [], 0),
    "a version that nobody offers": ("solo-ada", swap(WEBUI, '"1.11.0"', '"9.9.9"'), [], 0),
    "nothing that people reach it by": ("solo-ada", swap(WEBUI, "l4-quarter", "l4-whole"), [], 0),
}  # fmt: skip


@pytest.mark.parametrize(
    ("tenant", "change", "lines", "urls"), [pytest.param(*case, id=name) for name, case in CASES.items()]
)
def test_compare_exposure_describes_each_change_in_a_line(
    tenant: str, change: Change, lines: list[str], urls: int, sample: Path
) -> None:
    tenant_reach = reached(sample, tenant, change)
    assert [
        f"{declared_change.topic}: {declared_change.path}: {declared_change.text}"
        for declared_change in tenant_reach.changes
    ] == lines
    assert (tenant_reach.url_count, dict(tenant_reach.moved_with_domain)) == (urls, {})


def test_compare_exposure_counts_urls_that_move_with_the_clusters_domain(sample: Path) -> None:
    tenant_reach = reached(
        sample, "solo-ada", swap("clusters/eu-1/cluster.yaml", f"domain: {EU}", "domain: fra.northlight.example")
    )
    assert tenant_reach == ExposureDiff([], 0, {"eu-1": 2})


def test_a_tenant_that_goes_takes_its_addresses_along(sample: Path) -> None:
    before = end_of(sample, "solo-ada")
    assert (
        compare_exposure(before, TenantSide(before.catalog, ScopeDeclarations(Scope("tenant", "solo-ada")))).changes
        == []
    )
