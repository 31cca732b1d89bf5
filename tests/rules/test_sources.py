"""What storages are filled from: long ways and circles, each walked once."""

from __future__ import annotations

import datetime

import pytest
from tests.support.published import EMPTY_STORAGE

from allotment.declared.inventory import Catalog, DeclarationFile, Scope, ScopeDeclarations
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.reading import read_folder
from allotment.preparation.sources import own_source
from allotment.rules import sources

FROM = "  prepare:\n    source:\n      storage:\n        name: {source}\n"


def filled(way: dict[str, str | None]) -> ScopeDeclarations:
    """Return a tenant's folder, with what each storage is filled from."""
    files = [
        (
            f"tenants/solo-ada/storages/{name}.yaml",
            (EMPTY_STORAGE.format(name=name) + (FROM.format(source=source) if source else "")).encode(),
        )
        for name, source in way.items()
    ]
    folder, problems = read_folder(Scope("tenant", "solo-ada"), files)
    assert not problems
    return folder


def find_cycles(tenant: ScopeDeclarations) -> dict[str, str]:
    """Return what is said of the storages' circles."""
    nothing = read_folder(Scope("platform", ""), [])[0]
    clusters = {"eu-1": read_folder(Scope("cluster", "eu-1"), [])[0]}
    findings = list(sources.check(Catalog(nothing, clusters, datetime.date(2026, 11, 21)), tenant))
    return {finding.path.split("/")[-1].removesuffix(".yaml"): finding.message for finding in findings}


def test_find_cycles_omits_a_storage_that_only_leads_into_a_cycle() -> None:
    way = {
        "one": "two",
        "two": "six",
        "six": "ten",
        "ten": "two",
        "own": "own",
        "end": None,
        "any": "end",
        "old": "own",
    }
    assert find_cycles(filled(dict(way))) == {
        "two": "the storage is filled from itself in a circle: two ← six ← ten ← two",
        "six": "the storage is filled from itself in a circle: six ← ten ← two ← six",
        "ten": "the storage is filled from itself in a circle: ten ← two ← six ← ten",
        "own": "the storage is filled from itself",
    }


def test_a_long_circle_is_cut() -> None:
    names = [f"way-{number}" for number in range(50)]
    messages = find_cycles(filled(dict(zip(names, [*names[1:], names[0]], strict=True))))
    assert messages.keys() == set(names)
    assert messages["way-45"].endswith(" in a circle: " + " ← ".join([*names[45:], *names[:5], "… 40 more", "way-45"]))


@pytest.mark.parametrize("last", [None, "way-0"], ids=["a chain", "a circle"])
def test_a_way_is_walked_once(monkeypatch: pytest.MonkeyPatch, last: str | None) -> None:
    names = [f"way-{number}" for number in range(50)]
    tenant = filled(dict(zip(names, [*names[1:], last], strict=True)))
    lookups = list[str]()

    def counted(folder: ScopeDeclarations, storage: GPUStorage) -> DeclarationFile[GPUStorage] | None:
        lookups.append(storage.name)
        return own_source(folder, storage)

    monkeypatch.setattr(sources, "own_source", counted)
    assert len(find_cycles(tenant)) == (0 if last is None else 50)
    assert len(lookups) <= 2 * len(names), "once for the way, once for the storage itself"
