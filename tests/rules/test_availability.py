"""What a catalog bars for a tenant is what validation would refuse it, and the other way round."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import DAY, edit

from allotment.adapters.folder_source import FolderSource
from allotment.declared.inventory import DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.layout import Scope, parse_path
from allotment.declared.reading import read_declaration, read_folder
from allotment.problems import Finding
from allotment.rules import SHARED_RULES, TENANT_RULES
from allotment.rules.availability import AvailableOffers, Barrier, ReservedUnits, list_offers
from allotment.rules.tally import Tally, build_tally_entry
from allotment.services.check.check_options import CheckOptions
from allotment.services.check.repository_check import RepositoryCheck, check_repository
from allotment.services.check.workers import read_scope

KIND = "apiVersion: allotment.dev/v1alpha1\nkind: {kind}\nmetadata:\n  name: one-more\nspec:\n  cluster: {cluster}\n"
INSTANCE = KIND + "  gpuSpec: {spec}\n  app:\n    name: triton\n    version: '26.09'\n"
STORAGE = KIND + "  storageSpec: {spec}\n  size: {size}\n"
APP = KIND + "  state: {state}\n  gpuSpec: {spec}\n  app:\n    name: {app}\n    version: '{version}'\n"


class OfferValidation:
    """What validation says of a source, and of it with one more of something."""

    def __init__(self, root: Path) -> None:
        self.source = FolderSource(root)
        self.repository_check: RepositoryCheck = check_repository(
            self.source, datetime.date.fromisoformat(DAY), CheckOptions(processes=1)
        )
        assert not self.repository_check.errors, self.repository_check.errors[:3]

    def folder(self, tenant: str) -> ScopeDeclarations:
        scope = Scope("tenant", tenant)
        return read_folder(scope, read_scope(self.source, scope).files)[0]

    def catalog(self, tenant: str | None = None) -> AvailableOffers:
        parts = [self.repository_check.tally_entries[name] for name in sorted(self.repository_check.tally_entries)]
        claims = [claim for part in parts for claim in part.claims]
        held = [storage for part in parts for storage in part.storages]
        return list_offers(self.repository_check.catalog, claims, held, self.folder(tenant) if tenant else None)

    def refuses(self, tenant: str, folder: str, text: str) -> bool:
        """Return whether one more of something is an error."""
        path = f"tenants/{tenant}/{folder}/one-more.yaml"
        spot = parse_path(path)
        declared, problems = read_declaration(path, text.encode(), spot)  # type: ignore[arg-type]  # these paths are meant
        assert declared is not None, problems
        before = self.folder(tenant)
        after = ScopeDeclarations(before.scope, [*before.all_declarations(), declared])
        new = set(self._errors(tenant, after)) - set(self._errors(tenant, before))
        return bool([finding for finding in new if not finding.warning])

    def _errors(self, tenant: str, folder: ScopeDeclarations) -> Iterator[Finding]:
        catalog = self.repository_check.catalog
        for check in TENANT_RULES.values():
            yield from check(catalog, folder)
        tally = Tally({**self.repository_check.tally_entries, tenant: build_tally_entry(catalog, folder)})
        for shared in SHARED_RULES.values():
            yield from shared(catalog, tally)


def all_as_it_is(root: Path) -> None:
    pass


def all_tight(root: Path) -> None:
    """Leave little of everything."""
    edit(root, "clusters/eu-1/stocks/l4-quarter.yaml", "count: 40", "count: 17")
    edit(root, "clusters/us-1/stocks/h100-one.yaml", "count: 8", "count: 4")
    edit(root, "clusters/us-1/cluster.yaml", "capacity: 100Ti", "capacity: 1Ti")
    edit(root, "platform/plans/team.yaml", '"4000"', '"3000"')
    edit(root, "platform/plans/enterprise.yaml", "nvidia-h100-80gb: 16", "nvidia-h100-80gb: 12")
    edit(
        root,
        "platform/plans/starter.yaml",
        "    instances: 3\n    storages: 5\n    storage: 500Gi",
        "    instances: 1\n    storages: 2\n    storage: 70Gi",
    )
    edit(root, "tenants/acme-robotics/tenant.yaml", "spec:\n", "spec:\n  quota:\n    instances: 1\n    storages: 2\n")


def words(barriers: Iterable[Barrier]) -> list[tuple[str, str]]:
    return [(barrier.message, barrier.path) for barrier in barriers]


@pytest.mark.parametrize("change", [all_as_it_is, all_tight])
def test_a_catalog_and_validation_agree(change: Any, sample: Path) -> None:
    change(sample)
    validation = OfferValidation(sample)
    barred, fine = 0, 0
    for tenant in validation.repository_check.tally_entries:
        tenant_catalog = validation.catalog(tenant)
        assert len(tenant_catalog.gpu_offers) == 8
        assert len(tenant_catalog.storage_offers) == 6
        for gpu_offer in tenant_catalog.gpu_offers:
            text = INSTANCE.format(kind="GPUInstance", cluster=gpu_offer.cluster, spec=gpu_offer.spec.model.name)
            refused = validation.refuses(tenant, "instances", text)
            assert refused == bool(gpu_offer.barriers), (
                tenant,
                gpu_offer.cluster,
                gpu_offer.spec.model.name,
                gpu_offer.barriers,
            )
            barred, fine = barred + refused, fine + (not refused)
        for store in tenant_catalog.storage_offers:
            size = f"{store.spec.model.spec.size.min >> 30}Gi"
            text = STORAGE.format(kind="GPUStorage", cluster=store.cluster, spec=store.spec.model.name, size=size)
            refused = validation.refuses(tenant, "storages", text)
            assert refused == bool(store.barriers), (tenant, store.cluster, store.spec.model.name, store.barriers)
            barred, fine = barred + refused, fine + (not refused)
    assert min(barred, fine) > 20


@pytest.mark.parametrize("exposure", ["exposure:\n      - Members\n", "exposure: []\n"])
@pytest.mark.parametrize("state", ["Running", "Stopped"])
def test_apps_and_validation_agree(exposure: str, state: str, sample: Path) -> None:
    edit(sample, "platform/plans/starter.yaml", "exposure:\n      - Members\n", exposure)
    for path in (*sample.glob("tenants/solo-ada/instances/*.yaml"), *sample.glob("tenants/solo-ada/storages/*.yaml")):
        path.unlink()
    validation = OfferValidation(sample)
    for tenant, spec in (("solo-ada", "l4-quarter"), ("studio-kite", "l4-whole")):
        for app_offer in validation.catalog(tenant).app_offers:
            app, version = app_offer.app.model.name, app_offer.version.version
            text = APP.format(kind="GPUInstance", cluster="eu-1", spec=spec, app=app, version=version, state=state)
            assert validation.refuses(tenant, "instances", text) == bool(app_offer.barriers), (
                tenant,
                app,
                app_offer.barriers,
            )


def test_an_exposure_that_the_plan_does_not_allow(sample: Path) -> None:
    edit(sample, "platform/plans/starter.yaml", "exposure:\n      - Members\n", "exposure: []\n")
    for path in (*sample.glob("tenants/solo-ada/instances/*.yaml"), *sample.glob("tenants/solo-ada/storages/*.yaml")):
        path.unlink()
    validation = OfferValidation(sample)
    (jupyter,) = [
        app_offer for app_offer in validation.catalog("solo-ada").app_offers if app_offer.app.model.name == "jupyter"
    ]
    assert words(jupyter.barriers) == [
        ("plan starter doesn't allow Members, only Namespace", "platform/plans/starter.yaml")
    ]


def gpus(validation: OfferValidation, tenant: str, spec: str) -> list[tuple[str, str]]:
    return words(
        next(
            gpu_offer for gpu_offer in validation.catalog(tenant).gpu_offers if gpu_offer.spec.model.name == spec
        ).barriers
    )


def test_each_reason_names_the_file_that_says_so(sample: Path) -> None:
    edit(sample, "platform/plans/team.yaml", '"4000"', '"2800"')
    edit(sample, "clusters/eu-1/stocks/l4-quarter.yaml", "count: 40", "count: 17")
    edit(
        sample,
        "tenants/solo-ada/tenant.yaml",
        "spec:\n",
        "spec:\n  quota:\n    gpus:\n      nvidia-l4: 2\n    instances: 1\n",
    )
    validation = OfferValidation(sample)
    plan, own = "platform/plans/starter.yaml", "tenants/solo-ada/tenant.yaml"
    instances = ("1 of 1 instances are declared", own)
    assert gpus(validation, "solo-ada", "l4-quarter") == [
        ("none of 17 is free", "clusters/eu-1/stocks/l4-quarter.yaml"), instances
    ]  # fmt: skip
    assert gpus(validation, "solo-ada", "l4-half") == [
        ("held for film-house", "clusters/eu-1/stocks/l4-half-film.yaml"), instances
    ]  # fmt: skip
    assert gpus(validation, "solo-ada", "h100-one") == [
        ("plan starter doesn't allow Exclusive, only TimeSlicing", plan),
        ("no nvidia-h100-80gb is in its quota", plan),
        instances,
    ]
    ((budget, path),) = gpus(validation, "studio-kite", "a100-3g")
    assert (budget.partition(", and ")[0], path) == ("a month of it costs 861.40 EUR", "platform/plans/team.yaml")
    assert budget.endswith(" of 2800.00 is left")


def test_list_offers_names_the_barrier_of_each_closed_offer(sample: Path) -> None:
    edit(sample, "platform/specs/l4-quarter.yaml", "spec:\n", "spec:\n  lifecycle: Retired\n")
    edit(sample, "clusters/us-1/cluster.yaml", "spec:\n", "spec:\n  lifecycle: Retired\n")
    edit(sample, "tenants/film-house/tenant.yaml", "spec:\n", "spec:\n  lifecycle: Suspended\n")
    edit(sample, "platform/storage-specs/objects.yaml", "spec:\n", "spec:\n  lifecycle: Retired\n")
    edit(sample, "platform/apps/jupyter.yaml", '- version: "4.5.0"\n', '- version: "4.5.0"\n      lifecycle: Retired\n')
    validation = OfferValidation(sample)
    assert gpus(validation, "ml-orbit", "l4-quarter") == [("it is Retired", "platform/specs/l4-quarter.yaml")]
    assert gpus(validation, "ml-orbit", "h100-one") == [("cluster us-1 is Retired", "clusters/us-1/cluster.yaml")]
    assert gpus(validation, "film-house", "l4-half") == [("the tenant is Suspended", "tenants/film-house/tenant.yaml")]
    (objects,) = [
        storage_offer
        for storage_offer in validation.catalog("ml-orbit").storage_offers
        if (storage_offer.cluster, storage_offer.spec.model.name) == ("eu-1", "objects")
    ]
    assert words(objects.barriers) == [("it is Retired", "platform/storage-specs/objects.yaml")]
    (jupyter,) = [
        app_offer for app_offer in validation.catalog("ml-orbit").app_offers if app_offer.app.model.name == "jupyter"
    ]
    assert words(jupyter.barriers) == [("it is Retired", "platform/apps/jupyter.yaml")]
    assert not any(offer.barriers for catalog in validation.catalog() for offer in catalog), "nobody in particular asks"


def test_a_stock_of_its_own_is_its_own(sample: Path) -> None:
    edit(sample, "clusters/eu-1/stocks/l4-whole-kite.yaml", "count: 2", "count: 4")
    edit(sample, "clusters/eu-1/stocks/l4-whole.yaml", "count: 5", "count: 0")
    validation = OfferValidation(sample)
    gpu_offer = {offer.spec.model.name: offer for offer in validation.catalog("studio-kite").gpu_offers}["l4-whole"]
    assert (gpu_offer.units, gpu_offer.free_units, gpu_offer.reserved_for("studio-kite")) == (
        0,
        0,
        ReservedUnits("studio-kite", 4, 1),
    )
    assert gpu_offer.barriers == ()
    assert gpus(validation, "ml-orbit", "l4-whole") == [("its stock is 0", "clusters/eu-1/stocks/l4-whole.yaml")]


def test_a_plan_that_cannot_be_read_bars_all(sample: Path) -> None:
    validation = OfferValidation(sample)
    none: list[DeclarationFile[Declaration]] = []
    parts = validation.repository_check.tally_entries
    tenant_catalog = list_offers(
        validation.repository_check.catalog,
        [claim for part in parts.values() for claim in part.claims],
        [],
        ScopeDeclarations(Scope("tenant", "solo-ada"), none),
    )
    barrier = ("the tenant's plan can't be read", "tenants/solo-ada/tenant.yaml")
    assert all(barrier in words(offer.barriers) for catalog in tenant_catalog for offer in catalog)
