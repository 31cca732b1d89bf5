"""`allot catalog` shows what is on offer, and what of it a tenant can have."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from tests.conftest import DAY, Allot, Result, checked, edit
from tests.published import Place

from allotment.observed.status import ClusterStatus, Stock, text_of


@pytest.fixture
def shown(sample: Path, allot: Allot) -> Allot:
    def run(*words: object) -> Result:
        return allot("catalog", "--repo", sample, "--as-of", DAY, *words)

    return run


def row(said: Result, *name: str) -> str:
    """Return the row that begins with these words, its gaps closed."""
    rows = (" ".join(line.split()) for line in said.out.splitlines())
    (found,) = (one for one in rows if one.startswith(f"{' '.join(name)} "))
    return found


def test_all_that_is_on_offer(shown: Allot) -> None:
    said = shown()
    assert said.code == 0
    assert row(said, "GPU", "SPEC") == "GPU SPEC CLUSTER GPU SHARING EUR/H FREE READY NOTE"
    assert (
        row(said, "l4-quarter")
        == "l4-quarter eu-1 1 nvidia-l4 TimeSlicing 1/4 0.21 23/40 - 3 CPU, 12Gi memory, 50Gi disk"
    )
    assert row(said, "h100-one").endswith(
        "Exclusive 3.40 4/8 - 22 CPU, 220Gi memory, 800Gi disk; 3.10 EUR/h from 2026-12-01"
    )
    assert row(said, "l4-half").endswith("0/0 - 6 CPU, 24Gi memory, 100Gi disk; 6 held for film-house, 4 free")
    assert row(said, "l40s-spot").endswith("Spot: the cloud may take it back")
    assert row(said, "block-ssd", "us-1") == "block-ssd us-1 ReadWriteOnce 10Gi to 2Ti 0.10 99Ti"
    assert row(said, "block-ssd", "eu-1").endswith(" snapshots 0.05")
    assert row(said, "stable-diffusion-webui", "1.10.1").endswith(
        "Members it is Deprecated: go to 1.11.0; for units of 4Gi memory or more"
    )
    assert "Not for" not in said.out
    assert row(shown("--as-of", "2026-12-01"), "h100-one").endswith(" 3.10 4/8 - 22 CPU, 220Gi memory, 800Gi disk")
    assert "us-1" not in shown("--cluster", "eu-1").out


def test_what_a_tenant_can_have(shown: Allot) -> None:
    said = shown("--tenant", "solo-ada", "--cluster", "eu-1")
    can, _, cannot = said.out.partition("\nNot for solo-ada now\n")
    assert (
        "Left:          0.75 of 1 nvidia-l4, 2 of 3 instances, 3 of 5 storages, 5 of 5 snapshots, 430Gi of 500Gi of storage\n"
        in can
    )
    assert "Budget left:   139.70 of 300.00 EUR a month, only a warning\n" in can
    assert "Own images:    registry.example/tools/\n" in can
    assert [line.split()[0] for line in can.splitlines() if "nvidia-" in line][1:] == ["l4-quarter"]
    assert row(said, "l4-whole").endswith(
        "4/5 - Exclusive isn't what plan starter allows: TimeSlicing (platform/plans/starter.yaml);"
        " it takes 1 nvidia-l4, and 0.75 of 1 is left (platform/plans/starter.yaml)"
    )
    assert "held for film-house (clusters/eu-1/stocks/l4-half-film.yaml)" in cannot


def test_json(shown: Allot) -> None:
    found = checked("catalog", shown("--tenant", "solo-ada", "-o", "json").out)
    assert (found["asOf"], found["currency"]) == (DAY, "EUR")
    assert found["tenant"]["quota"][0] == {
        "what": "nvidia-l4", "limit": 1.0, "used": 0.25, "path": "platform/plans/starter.yaml"
    }  # fmt: skip
    assert found["tenant"]["budget"]["enforcement"] == "Warn"
    by_name = {(one["name"], one["cluster"]): one for one in found["gpuSpecs"]}
    quarter = by_name["l4-quarter", "eu-1"]
    assert (quarter["gpus"], quarter["pricePerHour"], quarter["free"], quarter["readyAtOnce"]) == (0.25, 0.21, 23, None)
    assert (quarter["cpu"], quarter["memory"], quarter["barred"]) == (3.0, "12Gi", [])
    assert by_name["h100-one", "us-1"]["nextPrice"] == {"from": "2026-12-01", "price": 3.10}
    assert by_name["l4-half", "eu-1"]["barred"] == [
        {"reason": "held for film-house", "path": "clusters/eu-1/stocks/l4-half-film.yaml"}
    ]
    assert by_name["l4-half", "eu-1"]["reserved"] == [{"tenant": "film-house", "units": 6, "free": 4}]
    own = {
        one["name"]: one for one in checked("catalog", shown("--tenant", "film-house", "-o", "json").out)["gpuSpecs"]
    }
    assert (own["l4-half"]["units"], own["l4-half"]["free"]) == (6, 4)
    storages = {(one["name"], one["cluster"]): one for one in found["storageSpecs"]}
    assert storages["objects", "eu-1"]["access"] == "Bucket"
    assert storages["block-ssd", "us-1"]["snapshotPricePerGiBMonth"] is None
    apps = {one["name"]: one for one in found["apps"]}
    assert (apps["jupyter"]["exposure"], apps["jupyter"]["minMemory"]) == (["Members"], "2Gi")


def test_units_that_are_ready_are_the_reporters_words(place: Place, allot: Allot) -> None:
    def ready(*words: str) -> str:
        said = allot("catalog", "--repo", place.root, "--as-of", DAY, "--cluster", "eu-1", *words)
        return row(said, "l4-whole").split()[7]

    assert ready() == "-"
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    stocks = (Stock("l4-whole", "l4-whole", 5, 1, 4, 3), Stock("kite", "l4-whole", 2, 0, 2, 2, "studio-kite"))
    place.report("eu-1", also={"stocks.yaml": b""})
    place.report("eu-1", observed=now)
    assert ready() == "-", "of this spec nothing is reported"
    for observed, shared, own in ((now, "3", "5"), ("2026-11-21T12:00:00Z", "-", "-")):
        report(place, ClusterStatus("eu-1", observed, stocks))
        assert (ready(), ready("--tenant", "studio-kite"), ready("--tenant", "film-house")) == (shared, own, shared)


def report(place: Place, status: ClusterStatus) -> None:
    """Write what a reporter would have seen of a cluster."""
    from allotment.adapters.git.commits import Message
    from allotment.adapters.git.remote import Remote
    from allotment.adapters.git.repository import Repository
    from allotment.adapters.git.status import look_status
    from allotment.declared.inventory import blob_id

    remote = Remote(Repository(place.root), str(place.remote))
    branch = look_status(remote.repository, remote, "eu-1").branch
    data = {"stocks.yaml": text_of(status)}
    files = {path: blob_id(text) for path, text in data.items()}
    message = Message("Seen", b"reporter <reporter@northlight.example> 1 +0000")
    commit = branch.commit(files, branch.changed(files), data, message)
    assert remote.push({"refs/heads/status/eu-1": commit, "refs/allotment/status/eu-1": commit})


def test_it_needs_no_repository_of_git(shown: Allot) -> None:
    said = shown()
    assert said.err.startswith("which units are ready isn't known: ")
    assert shown("-q").err == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tenant", "solo-adda"), "allot: no tenant is named 'solo-adda'; did you mean 'solo-ada'?\n"),
        (("--cluster", "eu1"), "allot: no cluster is named 'eu1'; did you mean 'eu-1'?\n"),
    ],
)
def test_a_name_that_nobody_knows(words: tuple[str, ...], said: str, shown: Allot) -> None:
    found = shown(*words)
    assert (found.code, found.out, found.err) == (2, "", said)


def test_what_is_wrong_is_left_out(sample: Path, shown: Allot) -> None:
    edit(sample, "tenants/solo-ada/instances/webui.yaml", "l4-quarter", "l4-quater")
    said = shown()
    assert said.err.splitlines()[0] == "what is wrong counts for nothing here: 1 problem, see `allot validate`"
    assert " 24/40 " in row(said, "l4-quarter")
    (sample / "platform/platform.yaml").write_text("kind: x\n")
    found = shown()
    assert (found.code, found.out) == (1, "")
    assert found.err == "allot: platform/platform.yaml can't be read: `allot validate` says why\n"
