"""`allot portal build` writes pages from the merged declarations and the reports of clusters."""

from __future__ import annotations

import datetime
import html
import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Allot, Result, checked, edit
from tests.docs.october import record_october
from tests.portal.pages.sample_site import BUILD_TENANT_PAGES, fail_on
from tests.support.published import Place
from tests.support.waiting import eventually

from allotment.observed.status import Instance, Storage, TenantStatus, Transition

NOW = datetime.datetime(2026, 11, 21, 12, 30, tzinfo=datetime.UTC)
TENANTS = ("acme-robotics", "film-house", "ml-orbit", "northlight", "solo-ada", "studio-kite", "uni-lab")
Run = Callable[..., Result]


@pytest.fixture
def run(place: Place, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("allotment.cli.list_options.current_time", lambda: NOW)
    return lambda *words: allot("portal", "build", "--repo", place.root, *words)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "site"


def read(page: Path) -> str:
    """Return the text of a page, without its tags."""
    text = re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8"))
    return " ".join(html.unescape(text).split())


def read_facts(page: Path) -> dict[str, Any]:
    """Return the facts of the form on a page."""
    text = page.read_text(encoding="utf-8")
    facts: dict[str, Any] = json.loads(text.partition('id="facts">')[2].partition("</script>")[0])
    return facts


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()
    }


def blob_of(place: Place, path: str) -> str:
    from allotment.declared.inventory import compute_blob_id

    return compute_blob_id((place.root / path).read_bytes())


def test_the_public_pages_show_the_catalog(run: Run, out: Path) -> None:
    result = run("--out", out)
    assert result.code == 0, result.err
    catalog = read(out / "catalog/index.html")
    assert (
        "l4-quarter 0.21 23 of 40 eu-1 1/4 nvidia-l4 TimeSlicing 24Gi shared by 4: neighbours can use it up 3 12Gi 50Gi"
        in catalog
    )
    assert "block-ssd 0.10 199Ti eu-1 ReadWriteOnce 10Gi to 2Ti" in catalog
    assert "Stable Diffusion WebUI" in read(out / "index.html")
    assert "allot instance create TENANT/NAME" in read(out / "start/index.html")
    offers = json.loads((out / "catalog/offers.json").read_text(encoding="utf-8"))
    spec = next(each for each in offers["gpuSpecs"] if each["name"] == "l4-quarter" and each["cluster"] == "eu-1")
    assert (spec["gpus"], spec["price"], spec["free"]) == ([1, 4], "0.21", 23)


def test_a_tenant_sees_the_state_the_reason_and_what_to_do(run: Run, out: Path, place: Place) -> None:
    running = Instance(
        "webui",
        blob_of(place, "tenants/solo-ada/instances/webui.yaml"),
        "Running",
        "",
        since="2026-11-21T10:00:00Z",
        gpu_spec="l4-quarter",
        units=1,
        replicas=1,
        ready_replicas=1,
        url="https://webui--solo-ada.eu-1.gpu.northlight.example/",
        ssh_command="ssh webui--solo-ada@ssh.eu-1.gpu.northlight.example",
    )
    failed = Storage(
        "models",
        blob_of(place, "tenants/solo-ada/storages/models.yaml"),
        "Failed",
        "PreparationFailed",
        "attempt 1 failed with exit code 22",
    )
    place.report("eu-1", TenantStatus("solo-ada", "eu-1", instances=(running,), storages=(failed,)))
    assert run("--out", out).code == 0
    overview = read(out / "tenants/solo-ada/index.html")
    assert "webui Running Open l4-quarter 1 eu-1 2026-11-21 10:00 UTC 0.21" in overview
    assert "models Failed PreparationFailed" in overview
    instance = (out / "tenants/solo-ada/instances/webui.html").read_text(encoding="utf-8")
    assert 'href="https://webui--solo-ada.eu-1.gpu.northlight.example/"' in instance
    assert "ssh webui--solo-ada@ssh.eu-1.gpu.northlight.example" in instance
    assert 'href="../../../tenants/solo-ada/storages/models.html"' in instance
    storage = read(out / "tenants/solo-ada/storages/models.html")
    assert "attempt 1 failed with exit code 22" in storage
    assert "What to do" in storage
    assert "GPUs nvidia-l4 0.25 of 1" in overview


def test_without_reports_the_pages_show_the_declarations(run: Run, out: Path) -> None:
    assert run("--out", out).code == 0
    assert "webui Merged NotPublished l4-quarter" in read(out / "tenants/solo-ada/index.html")
    assert "ada User Admin ada-k 1" in read(out / "tenants/solo-ada/members.html")


@pytest.mark.process
def test_the_pages_of_one_tenant_have_nothing_of_others(run: Run, out: Path, place: Place) -> None:
    """The names of tenants, their displayed names, instances, storages, people and costs. The platform has a tenant's name."""
    private = {
        tenant: list_private_words(place.root / "tenants" / tenant) for tenant in TENANTS if tenant != "northlight"
    }
    run("--out", out)
    costs = {
        tenant: re.findall(r"([0-9]+\.[0-9]{2}) EUR in a month", read(out / f"tenants/{tenant}/index.html"))
        for tenant in private
    }
    for tenant, words in private.items():
        assert run("--out", out, "--tenant", tenant).code == 0
        texts = files(out)
        assert {path.split("/")[1] for path in texts if path.startswith("tenants/")} == {tenant, "index.html"}
        # The script is the same in each portal. It has `huggingface.co`, and a tenant has a secret with this name.
        del texts["assets/portal.js"]
        own = words | set(costs[tenant])
        for other in private.keys() - {tenant}:
            assert costs[other], other
            for word in (private[other] | set(costs[other])) - own:
                leaks = [
                    path for path, text in texts.items() if re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", text)
                ]
                assert leaks == [], f"{word} of {other}"


def list_private_words(folder: Path) -> set[str]:
    """Return the names of a tenant, its resources and people. Words that name something of the catalog don't count."""
    import yaml

    words = {folder.name}
    for path in folder.rglob("*.yaml"):
        declared = yaml.safe_load(path.read_text(encoding="utf-8"))
        words.add(declared["metadata"]["name"])
        words |= {declared["spec"].get("displayName") or folder.name}
        for user in declared["spec"].get("users", []):
            words |= {user["name"], user.get("login", user["name"])}
    common = {
        "base",
        "characters",
        "chat",
        "course",
        "lab",
        "models",
        "outputs",
        "preview",
        "papers",
        "notebooks",
        "Ada",
    }
    return words - common


def test_hostile_text_is_inert(run: Run, out: Path, place: Place) -> None:
    evil = "<script>alert(1)</script> \\\"onload=x' \\u202Eevil {{ 7 * 7 }}"
    edit(place.root, "tenants/solo-ada/tenant.yaml", "displayName: Ada", f'displayName: "{evil}"')
    place.merge()
    forged = Instance(
        "webui",
        "b",
        "Running",
        "",
        "</p><script>x</script>" * 5000,
        url="javascript:alert(1)",
        links=("data:text/html,x",),
    )
    escaping = Instance("../../evil", "b", "Running", "")
    changes = tuple(
        Transition("GPUInstance", "webui", "Init", "Running", "", time=time)
        for time in ("yesterday", "0001-01-01T00:00:00Z")
    )
    place.report("eu-1", TenantStatus("solo-ada", "eu-1", instances=(forged, escaping), transitions=changes))
    result = run("--out", out)
    assert result.code == 0, result.err
    texts = files(out)
    for path, text in texts.items():
        assert "<script>" not in text, path
        assert "javascript:" not in re.sub(r"(?s)<script src.*?</script>", "", text), path
        assert "\u202e" not in text, path
        assert 'href="data:' not in text, path
        assert len(text) < 100_000, path
        assert "49" not in text or path != "tenants/solo-ada/index.html"
    assert not any("evil" in path for path in texts)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in texts["tenants/solo-ada/index.html"]


def test_history_shows_merges_and_changes_of_state(run: Run, out: Path, place: Place) -> None:
    place.merge()
    (place.root / "tenants/solo-ada/storages/styles.yaml").unlink()
    edit(place.root, "tenants/ml-orbit/tenant.yaml", "kind: Tenant", "kind: Tenant  # ours")
    commit = place.merge()
    steps = (
        Transition("GPUInstance", "webui", "", "Running", "", "2026-11-20T10:00:00Z"),
        Transition("GPUInstance", "webui", "Running", "Failed", "CrashLoop", "2026-11-20T22:00:00Z"),
        Transition("GPUInstance", "../x", "Running", "Failed", "", "2026-11-20T22:00:00Z"),
    )
    failed = Instance("webui", "b", "Failed", "CrashLoop", since="2026-11-20T22:00:00Z")
    place.report("eu-1", TenantStatus("solo-ada", "eu-1", instances=(failed,), transitions=steps))
    assert run("--out", out).code == 0
    page = (out / "tenants/solo-ada/history.html").read_text(encoding="utf-8")
    text = read(out / "tenants/solo-ada/history.html")
    assert f"GPUStorage styles removed {commit[:12]}" in text
    assert f'/commit/{commit}"' in page
    assert "ml-orbit" not in page
    assert "2026-11-20 22:00 UTC webui eu-1 Failed CrashLoop" in text
    assert "../x" not in page
    instance = read(out / "tenants/solo-ada/instances/webui.html")
    assert "It ran 46.1 % of the time in which it was declared to run, from 2026-11-01 to 2026-11-21." in instance


def test_the_time_before_the_history_that_was_read_does_not_count(
    run: Run, out: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allotment.portal.site.tenant_reader._MAX_VERSIONS", 2)
    commit = ""
    for number in range(4):
        states = ("Failed", "Running") if number % 2 else ("Running", "Failed")
        time = f"2026-11-{10 + number}T00:00:00Z"
        step = Transition("GPUInstance", "webui", *states, "", time)
        webui = Instance("webui", "b", states[1], "", since=time)
        status = TenantStatus("solo-ada", "eu-1", instances=(webui,), transitions=(step,), previous=commit)
        commit = place.report("eu-1", status)
    assert run("--out", out).code == 0
    page = read(out / "tenants/solo-ada/instances/webui.html")
    # It failed on the 12th, and has run since the 13th: 8.5 of the 9.5 days that are known.
    assert "It ran 89.4 % of the time in which it was declared to run" in page


def test_a_cut_history_of_a_cluster_leaves_that_of_others(
    run: Run, out: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allotment.portal.site.tenant_reader._MAX_VERSIONS", 1)
    chat = Instance("chat", "b", "Running", "", since="2026-11-06T00:00:00Z")
    steps = (
        Transition("GPUInstance", "chat", "Running", "Failed", "", "2026-11-05T00:00:00Z"),
        Transition("GPUInstance", "chat", "Failed", "Running", "", "2026-11-06T00:00:00Z"),
    )
    place.report("us-1", TenantStatus("ml-orbit", "us-1", instances=(chat,), transitions=steps))
    other = Instance("other", "b", "Running", "", since="2026-11-20T00:00:00Z")
    step = Transition("GPUInstance", "other", "Failed", "Running", "", "2026-11-20T00:00:00Z")
    commit = place.report("eu-1", TenantStatus("ml-orbit", "eu-1"))
    place.report("eu-1", TenantStatus("ml-orbit", "eu-1", instances=(other,), transitions=(step,), previous=commit))
    assert run("--out", out).code == 0
    # It failed for 1 of 20.5 days.
    assert "It ran 95.1 % of the time in which it was declared to run" in read(
        out / "tenants/ml-orbit/instances/chat.html"
    )


def test_without_changes_the_time_since_the_state_began_counts(
    run: Run, out: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allotment.portal.site.tenant_reader._MAX_VERSIONS", 1)
    webui = Instance("webui", "b", "Running", "", since="2026-11-12T00:00:00Z")
    step = Transition("GPUInstance", "webui", "Failed", "Running", "", webui.since)
    commit = place.report("eu-1", TenantStatus("solo-ada", "eu-1", instances=(webui,), transitions=(step,)))
    place.report("eu-1", TenantStatus("solo-ada", "eu-1", instances=(webui,), disruption="Protected", previous=commit))
    assert run("--out", out).code == 0
    page = read(out / "tenants/solo-ada/instances/webui.html")
    assert "It ran 100 % of the time in which it was declared to run" in page


def test_a_bug_with_a_tenant_is_reported_without_its_text(run: Run, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BUILD_TENANT_PAGES, fail_on("uni-lab", "\x1b[31m hostile"))
    result = run("--out", out, "-o", "json")
    assert result.code == 3
    assert result.err.startswith("allot: tenant uni-lab ran into a bug in Allotment; please send us ")
    assert "hostile" not in result.err
    report = Path(result.err.splitlines()[0].rsplit(" ", 1)[1])
    assert "hostile" in report.read_text(encoding="utf-8")
    report.unlink()
    assert checked("portal build", result.out)["failedTenants"] == ["uni-lab"]
    assert not (out / "tenants/uni-lab").exists()


def test_an_invalid_file_of_members_is_not_replaced(run: Run, out: Path, place: Place) -> None:
    edit(place.root, "tenants/solo-ada/members.yaml", "role: ", "rolle: ")
    place.merge()
    assert run("--out", out, "--tenant", "solo-ada").code == 0
    page = out / "tenants/solo-ada/members.html"
    assert "The declaration of the members is invalid: allot validate shows the reason." in read(page)
    assert read_facts(page)["header"] == []
    assert "Create the file" not in read(page)


def test_a_new_secret_needs_another_name_than_the_declared_secrets(run: Run, out: Path) -> None:
    assert run("--out", out, "--tenant", "ml-orbit").code == 0
    assert read_facts(out / "tenants/ml-orbit/new-secret.html")["actions"]["secret"]["names"] == ["huggingface"]


def test_a_storage_of_a_retired_spec_is_still_for_one_instance(run: Run, out: Path, place: Place) -> None:
    edit(place.root, "platform/storage-specs/block-ssd.yaml", "\nspec:\n", "\nspec:\n  lifecycle: Retired\n")
    place.merge()
    assert run("--out", out, "--tenant", "solo-ada").code == 0
    assert "block-ssd" not in read(out / "catalog/index.html")
    facts = read_facts(out / "tenants/solo-ada/new-instance.html")
    assert {each["name"]: each["access"] for each in facts["storages"]} == {
        "models": "ReadWriteOnce",
        "styles": "ReadWriteOnce",
    }


def test_invoices_of_the_open_months(run: Run, out: Path, place: Place, allot: Allot) -> None:
    record_october(place.remote)
    assert run("--out", out).code == 0
    bill = checked("bill", allot("bill", "--repo", place.root, "--month", "2026-10", "-o", "json").out)
    totals = {invoice["tenant"]: f"{invoice['total']:.2f}" for invoice in bill["invoices"]}
    assert set(totals) == {"solo-ada", "studio-kite"}
    for tenant, total in totals.items():
        assert f"2026-10 complete, not closed {total} EUR" in read(out / f"tenants/{tenant}/invoices/index.html")
        page = read(out / f"tenants/{tenant}/invoices/2026-10.html")
        assert f"Total {total} EUR" in page
        assert "l4-quarter" in page
    assert not (out / "tenants/uni-lab/invoices/2026-10.html").exists()
    assert "2026-11 not final 0.00 EUR" in read(out / "tenants/uni-lab/invoices/index.html")
    assert '<svg xmlns="http://www.w3.org/2000/svg" role="img"' in (
        out / "tenants/studio-kite/invoices/2026-10.html"
    ).read_text(encoding="utf-8")


def test_a_second_build_writes_only_what_changed(run: Run, out: Path, place: Place) -> None:
    first = checked("portal build", run("--out", out, "-o", "json").out)
    assert first["pages"] == first["changed"] > 50
    second = checked("portal build", run("--out", out, "-o", "json").out)
    assert (second["pages"], second["changed"], second["removed"]) == (first["pages"], 0, 0)
    (place.root / "tenants/solo-ada/storages/styles.yaml").unlink()
    place.merge()
    third = checked("portal build", run("--out", out, "-o", "json").out)
    assert third["removed"] == 1
    assert not (out / "tenants/solo-ada/storages/styles.html").exists()


def test_all_links_within_the_portal_exist(run: Run, out: Path) -> None:
    assert run("--out", out).code == 0
    pages = files(out)
    count = 0
    for path, text in pages.items():
        if not path.endswith(".html"):
            continue
        for target in re.findall(r'(?:href|src)="([^"#]+)"', text):
            if not target.startswith("https://"):
                file = out / target[1:] if target.startswith("/") else (out / path).parent / target
                assert file.resolve().is_relative_to(out.resolve()), (path, target)
                assert file.is_file(), (path, target)
                count += 1
    assert count > 200


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--tenant", "solo-adda"), "no tenant is named 'solo-adda'; did you mean 'solo-ada'?"),
    ],
)
def test_portal_build_refuses_an_unknown_tenant(run: Run, out: Path, words: tuple[str, ...], message: str) -> None:
    result = run("--out", out, *words)
    assert result.code == 2
    assert message in result.err
    assert not (out / "index.html").exists()


def test_a_folder_of_somebody_else_is_refused(run: Run, place: Place) -> None:
    (place.root / "site").mkdir()
    (place.root / "site/notes").touch()
    result = run("--out", place.root / "site")
    assert result.code == 2
    assert "holds files that `allot portal build` did not write" in result.err


def test_serve_refuses_an_address_that_other_machines_reach(place: Place, allot: Allot) -> None:
    result = allot("portal", "serve", "--repo", place.root, "--listen", "0.0.0.0:8080")
    assert result.code == 2
    assert "--listen 0.0.0.0:8080 is open to other machines" in result.err


@pytest.mark.process
def test_serve_shows_a_merge_soon(place: Place) -> None:
    words = ["portal", "serve", "--repo", str(place.root), "--listen", "127.0.0.1:0", "--interval", "1"]
    with subprocess.Popen([sys.executable, "-m", "allotment", *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().split()[0]

            def read_page() -> str:
                with urllib.request.urlopen(f"{url}tenants/solo-ada/index.html", timeout=60) as answer:
                    return str(answer.read().decode())

            assert "webui" in read_page()
            path = place.root / "tenants/solo-ada/instances/webui.yaml"
            path.rename(path.with_name("painter.yaml"))
            edit(place.root, "tenants/solo-ada/instances/painter.yaml", "name: webui", "name: painter")
            place.merge()

            eventually(lambda: "painter" in read_page(), "the page to show the merge", 60)
            process.send_signal(signal.SIGINT)
            assert process.wait() == 0
        finally:
            process.kill()
