"""`allot plan`: what a change would do, as the merge result, on the sample."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import click
import pytest
from tests.conftest import DAY, PROJECT, ROOTS, Allot, Result, checked, copy, edit
from tests.support.published import Place, git
from tests.support.pulled import AUTHOR, TEAM, Pull
from tests.support.secret_store import SOURCE_STORAGE, declare_source_secret
from tests.support.terminal import ALLOT, run_in_terminal

KITE, ADA = "tenants/studio-kite", "tenants/solo-ada"
WEBUI = f"{KITE}/instances/webui.yaml"


@pytest.fixture
def pull(sample: Path, allot: Allot) -> Pull:
    """Return the sample with a branch that changes nothing yet."""
    return Pull(sample, allot)


def list_resources(plan: dict[str, list[dict[str, str]]]) -> list[tuple[str, ...]]:
    return [
        (resource["tenant"], resource["cluster"], f"{resource['kind']} {resource['name']}", resource["action"])
        for resource in plan["things"]
    ]


def test_plan_reports_that_a_pull_request_changes_nothing(pull: Pull) -> None:
    result = pull.plan()
    assert (result.code, result.out.splitlines()[0]) == (0, "changes nothing")


def test_another_gpu_spec_shows_units_quota_cost_and_what_is_lost(pull: Pull) -> None:
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    plan = pull.planned()
    assert plan["summary"] == "can be merged · 1 replaced · 1 destroyed · +459.90 EUR/month"
    assert [(loss["what"], loss["words"]) for loss in plan["losses"]] == [
        (
            "instance studio-kite/webui in eu-1",
            "is replaced: it restarts, and everything on its own disk (50Gi at /scratch) is lost",
        )
    ]
    assert [
        (unit_usage["gpuSpec"], unit_usage["stock"], unit_usage["heldBefore"], unit_usage["held"], unit_usage["free"])
        for unit_usage in plan["units"]
    ] == [
        ("l4-quarter", 40, 17, 16, 24),
        ("l4-whole", 7, 3, 4, 3),
    ]
    assert [
        (quota_change["what"], quota_change["before"], quota_change["after"], quota_change["limit"])
        for quota_change in plan["quota"]
    ] == [("nvidia-l4 GPUs", 3.25, 4, 8)]
    (cost,) = plan["costs"]
    assert (cost["tenant"], cost["before"], cost["after"], cost["left"]) == (
        "studio-kite",
        2276.9,
        2736.8,
        1263.2,
    )
    assert [(part["what"], part["before"], part["after"]) for part in cost["parts"]] == [
        ("instance webui", 153.3, 613.2)
    ]
    assert list_resources(plan) == [("studio-kite", "eu-1", "instance webui", "replaced")]
    assert plan["things"][0]["why"] == [f"{WEBUI}: spec.gpuSpec l4-quarter → l4-whole"]


def test_plan_distinguishes_added_stopped_and_removed_instances(pull: Pull) -> None:
    pull.copy(WEBUI, f"{KITE}/instances/another.yaml")
    pull.edit(WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    pull.remove(f"{ADA}/instances/webui.yaml")
    plan = pull.planned()
    assert list_resources(plan) == [
        ("solo-ada", "eu-1", "instance webui", "removed"),
        ("solo-ada", "eu-1", "storage models", "changed"),
        ("studio-kite", "eu-1", "instance another", "added"),
        ("studio-kite", "eu-1", "instance webui", "changed"),
    ]
    assert [loss["words"].split(":")[0] for loss in plan["losses"]] == ["is removed", "stops"]


def effects(plan: dict[str, list[dict[str, str]]]) -> dict[str, str | None]:
    return {f"{resource['tenant']}/{resource['name']}": resource["effect"] for resource in plan["things"]}


def test_each_instance_that_changes_says_whether_it_restarts(pull: Pull) -> None:
    pull.copy(WEBUI, f"{KITE}/instances/another.yaml")
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    pull.edit(f"{KITE}/instances/comfy.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    pull.edit(f"{KITE}/instances/webui-next.yaml", "replicas: 2", "replicas: 1")
    pull.remove(f"{ADA}/instances/webui.yaml")
    plan = pull.planned()
    assert effects(plan) == {
        "solo-ada/webui": "stops",
        "solo-ada/models": None,
        "studio-kite/another": "starts",
        "studio-kite/comfy": "stops",
        "studio-kite/webui": "restarts",
        "studio-kite/webui-next": "keeps running",
    }
    lines = pull.plan().out.splitlines()
    assert "The merge restarts 1 instance, starts 1 instance, stops 2 instances." in lines
    row = next(line for line in lines if "instance webui  " in line and "studio-kite" in line)
    assert row.split()[4:6] == ["replaced", "restarts"]


def test_a_larger_storage_restarts_no_instance(pull: Pull) -> None:
    pull.edit(f"{ADA}/storages/models.yaml", "size: 60Gi", "size: 70Gi")
    assert "No instance restarts." in pull.plan().out.splitlines()
    pull.edit(f"{KITE}/instances/webui.yaml", "l4-quarter", "l4-nothing")
    assert "restart" not in pull.plan().out, "it has errors"


def test_a_resize_without_a_free_unit_restarts_nothing(pull: Pull) -> None:
    pull.merge_elsewhere(("clusters/eu-1/stocks/l4-whole.yaml", "count: 5", "count: 1"))
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    plan = pull.planned()
    (resource,) = plan["things"]
    assert (resource["effect"], resource["why"][1]) == (
        "keeps running",
        "it keeps its published unit until 1 unit of l4-whole is free",
    )
    assert [loss["words"] for loss in plan["losses"]] == [
        "keeps running until 1 unit of l4-whole is free, and is replaced then: it restarts, and everything on its own disk (50Gi at /scratch) is lost"
    ]
    assert "The merge restarts" not in pull.plan().out


def test_a_rename_is_told_as_what_it_is(pull: Pull) -> None:
    pull.copy(WEBUI, f"{KITE}/instances/gallery.yaml")
    pull.remove(WEBUI)
    plan = pull.planned()
    why = {
        resource["name"]: (resource["action"], resource["why"])
        for resource in plan["things"]
        if resource["kind"] == "instance"
    }
    assert why["webui"] == ("removed", [])
    assert why["gallery"] == (
        "replaced",
        ["it replaces webui in eu-1: a rename or a move removes the old resource and adds a new one"],
    )


def test_a_change_of_the_offer_shows_at_each_tenant_that_it_reaches(pull: Pull) -> None:
    pull.edit(
        "platform/specs/l4-quarter.yaml", "  prices:\n", '  prices:\n    - from: "2026-11-01"\n      perHour: "0.30"\n'
    )
    plan = pull.planned()
    assert not plan["things"]
    assert {cost["tenant"] for cost in plan["costs"]} >= {"studio-kite", "solo-ada"}
    pull.edit("platform/apps/stable-diffusion-webui.yaml", "lifecycle: Deprecated", "lifecycle: Revoked")
    plan = pull.planned()
    assert ("studio-kite", "eu-1", "instance webui", "changed") in list_resources(plan)
    assert plan["things"][0]["why"] == [
        "platform/apps/stable-diffusion-webui.yaml: spec.versions[1.10.1].lifecycle Deprecated → Revoked"
    ]
    assert "stops" in str(plan["losses"])


def test_data_that_is_deleted_or_written_over_is_told(pull: Pull) -> None:
    storage = f"{KITE}/storages/model-cache.yaml"
    pull.edit(storage, "spec:\n", "spec:\n  deletionPolicy: Delete\n")
    plan = pull.planned()
    (loss,) = plan["losses"]
    assert plan["summary"] == "can be merged · 1 changed · 1 marked for deletion"
    assert "\n⚠ Marked for deletion\n  storage studio-kite/model-cache in eu-1 is marked for " in pull.plan().out
    assert "estroyed" not in pull.plan().out
    assert loss["words"].startswith("is marked for deletion: if you remove its file, its volume of ")
    git(pull.root, "checkout", "-q", "main")
    git(pull.root, "merge", "-q", "feature")
    git(pull.root, "checkout", "-q", "feature")
    for file in (pull.root / KITE / "instances").iterdir():
        if "model-cache" in file.read_text():
            file.unlink()
    pull.remove(storage)
    words = [destruction["words"] for destruction in pull.planned()["losses"] if "storage" in destruction["what"]]
    assert len(words) == 1
    assert words[0].startswith("is deleted with its volume of ")


def test_plan_evaluates_the_merge_result(pull: Pull) -> None:
    """Two changes that are each fine oversell together."""
    free = 40 - 17
    for number in range(free):
        pull.copy(f"{ADA}/instances/webui.yaml", f"tenants/film-house/instances/more{number:02}.yaml")
    alone = pull.planned()
    stock = [problem for problem in alone["problems"] if problem["rule"] == "stock"]
    assert not stock
    pull.merge_elsewhere((WEBUI, "spec:\n", "spec:\n  replicas: 2\n"))
    together = [problem for problem in pull.planned()["problems"] if problem["rule"] == "stock"]
    assert len(together) == 1
    assert "41 units of l4-quarter would run in eu-1, 1 more than its stock" in together[0]["message"]


HELD = "uni-lab/group-a 5, uni-lab/group-b 5, uni-lab/group-c 5, solo-ada/webui 1, studio-kite/webui 1"


def test_a_stock_lowered_beneath_what_is_held_is_the_one_to_blame(pull: Pull) -> None:
    stock = "clusters/eu-1/stocks/l4-quarter.yaml"
    pull.edit(stock, "count: 40", "count: 15")
    assert pull.problems() == [
        f"{stock}:9:10: spec.count: 17 units of l4-quarter are held in eu-1, 2 more than its stock (15 shared); held by {HELD}:"
        " restore the stock, or stop instances [stock]"
    ]


def test_a_stock_that_the_base_has_lowered_stops_who_adds_and_not_who_stops(pull: Pull) -> None:
    pull.merge_elsewhere(("clusters/eu-1/stocks/l4-quarter.yaml", "count: 40", "count: 15"))
    pull.edit(f"{KITE}/instances/comfy.yaml", "spec:\n", "spec:\n  description: Mine.\n")
    plan = pull.planned()
    assert (plan["problems"], plan["standing"]) == ([], 1)
    pull.edit(f"{ADA}/instances/webui.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    plan = pull.planned()
    assert plan["allowed"]
    assert [(problem["severity"], problem["message"].split(";")[0]) for problem in plan["problems"]] == [
        ("warning", "16 units of l4-quarter are held in eu-1, 1 more than its stock (15 shared)")
    ]
    pull.copy(WEBUI, f"{KITE}/instances/another.yaml")
    assert pull.problems() == [
        f"{KITE}/instances/another.yaml:11:12: spec.gpuSpec: 17 units of l4-quarter would run in eu-1, 2 more than its stock"
        " (15 shared); held by uni-lab/group-a 5, uni-lab/group-b 5, uni-lab/group-c 5, studio-kite/another 1,"
        " studio-kite/webui 1: stop an instance, or choose another GPUSpec or cluster [stock]"
    ]


EU = "clusters/eu-1/cluster.yaml"
DOMAIN = ("domain: eu-1.gpu.northlight.example", "domain: fra.gpu.northlight.example")
REACHED = "instance film-house/preview, instance film-house/train-fox, instance film-house/train-owl and 18 more"


def lost(pull: Pull) -> list[tuple[str, str]]:
    return [(loss["what"], loss["words"]) for loss in pull.planned()["losses"]]


@pytest.mark.process
def test_another_domain_changes_every_address_of_its_cluster(pull: Pull) -> None:
    pull.edit(EU, *DOMAIN)
    pull.remove("clusters/us-1/node-pools/l40s-spot.yaml")
    pull.remove("clusters/us-1/stocks/l40s-spot.yaml")
    pull.remove("tenants/acme-robotics/instances/simulate.yaml")
    plan = pull.planned()
    assert plan["summary"].startswith(
        "can be merged · 21 changed · 1 removed · 3 destroyed · capacity, clusters changed · 21 URLs changed · -"
    )
    assert lost(pull)[0] == (
        "cluster eu-1: domain eu-1.gpu.northlight.example → fra.gpu.northlight.example",
        f"changes 21 URLs of 13 instances and 8 storages; the old URLs stop working: {REACHED}",
    ), "before all else"
    line = f"- `{lost(pull)[0][0]}` {lost(pull)[0][1]}"
    assert line in pull.plan("--format", "markdown").out.splitlines()


def test_plan_warns_of_a_public_url_from_an_app_version(pull: Pull) -> None:
    app, tenant = "platform/apps/stable-diffusion-webui.yaml", "tenants/acme-robotics"
    text = (pull.root / app).read_text(encoding="utf-8")
    last = text[text.index('    - version: "1.11.0"') :].replace("1.11.0", "1.12.0")
    pull.write(app, text + last.replace("exposure: Members", "exposure: Public"))
    pull.commit()
    git(pull.root, "branch", "-f", "main", "feature")
    pull.copy(f"{ADA}/instances/webui.yaml", f"{tenant}/instances/open.yaml")
    pull.edit(f"{tenant}/instances/open.yaml", '"1.11.0"', '"1.12.0"')
    pull.edit(f"{tenant}/instances/open.yaml", "  access:\n    - SSH\n", "")
    pull.edit(f"{tenant}/instances/open.yaml", "  storages:\n    - name: models\n      mountPath: /workspace\n", "")
    plan = pull.planned()
    url = "https://open--acme-robotics.eu-1.gpu.northlight.example/"
    assert "⚠ access" in plan["summary"]
    assert [
        (change["topic"], change["field"], change["before"], change["after"], change["note"])
        for change in plan["declared"]
    ] == [("access", url, None, "Public", "open to everybody without login")]
    assert plan["urls"] == 0, "nobody used it before"
    assert f"  {tenant}/instances/open.yaml: {url} added: Public (open to everybody without login)" in pull.plan().out


def test_each_address_that_changes_is_named_and_counted(pull: Pull) -> None:
    simulate = "tenants/acme-robotics/instances/simulate.yaml"
    replay = "https://simulate--replay--acme-robotics.us-1.gpu.northlight.example/replay"
    pull.edit(simulate, "exposure: Public", "exposure: Namespace")
    pull.edit(f"{ADA}/storages/models.yaml", "  accessor:\n    exposure: Members\n", "")
    plan = pull.planned()
    assert "2 URLs changed" in plan["summary"]
    assert "⚠ access" not in plan["summary"]
    assert plan["urls"] == 2
    assert [(change["topic"], change["field"], change["before"], change["after"]) for change in plan["declared"]] == [
        ("addresses", replay, "Public", None),
        ("addresses", "https://models--files--solo-ada.eu-1.gpu.northlight.example/", "Members", None),
    ]
    lines = pull.plan().out.splitlines()
    declared_lines = lines[lines.index("Declared") :]
    assert any(
        simulate in line and f"{replay} removed: Public (this URL stops working)" in line for line in declared_lines
    )


def test_another_namespace_of_the_proxies_closes_every_address_unless_they_run_there(pull: Pull) -> None:
    pull.edit(EU, "sectionName: https", "sectionName: https\n    proxyNamespace: proxies")
    ((subject, words),) = lost(pull)
    assert subject == "cluster eu-1: proxies of the gateway edge → proxies"
    assert words.startswith(
        "makes 13 instances and 8 storages unreachable for the gateway unless its proxies run in proxies: instance "
    )


def test_another_gateway_takes_every_address_of_its_cluster_with_it(pull: Pull) -> None:
    pull.edit(EU, "sectionName: https", "sectionName: tls")
    assert lost(pull) == [
        (
            "cluster eu-1: gateway edge/edge/https → edge/edge/tls",
            f"moves 13 instances and 8 storages to another listener: they are unreachable until it serves the cluster's domain and DNS points to it: {REACHED}",
        )
    ]


def test_another_destination_takes_all_that_a_cluster_has_elsewhere(pull: Pull) -> None:
    pull.edit("clusters/us-1/cluster.yaml", "https://us-1.k8s", "https://us-2.k8s")
    assert lost(pull) == [
        (
            "cluster us-1: destination https://us-1.k8s.northlight.example:6443 → https://us-2.k8s.northlight.example:6443",
            "moves 3 instances and 4 storages to another cluster, unless both addresses lead to the same cluster: they start there without data, and everything on the old cluster stays there: instance acme-robotics/simulate, instance ml-orbit/chat, instance ml-orbit/pretrain and 4 more",
        )
    ]


def test_a_domain_under_which_nothing_is_reached_destroys_nothing(pull: Pull) -> None:
    for folder in sorted((pull.root / "tenants").iterdir()):
        for kind in ("instances", "storages", "snapshots"):
            for file in (folder / kind).glob("*.yaml"):
                file.unlink()
    pull.commit()
    git(pull.root, "branch", "-f", "main", "feature")
    pull.edit(EU, *DOMAIN)
    assert lost(pull) == []


def test_plan_names_the_file_of_a_merge_conflict(pull: Pull) -> None:
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    pull.merge_elsewhere((WEBUI, "l4-quarter", "l4-half"))
    assert pull.problems() == [
        f"(pull request):1:1: (file): it conflicts with the base in {WEBUI}: merge the base branch into it and decide there [merge]"
    ]


def test_plan_refuses_a_branch_without_shared_history(pull: Pull) -> None:
    git(pull.root, "checkout", "-q", "--orphan", "else")
    pull.commit()
    git(pull.root, "branch", "-f", "feature", "else")
    git(pull.root, "checkout", "-q", "feature")
    assert "shares no history" in pull.problems()[0]


def test_plan_blames_problems_of_the_base_only_on_changes_of_the_file(pull: Pull) -> None:
    pull.merge_elsewhere((f"{ADA}/instances/webui.yaml", "l4-quarter", "l4-nothing"))
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    plan = pull.planned()
    assert (plan["allowed"], plan["standing"]) == (True, 1)
    pull.edit(f"{ADA}/instances/webui.yaml", "spec:\n", "spec:\n  description: Mine.\n")
    assert "no GPUSpec is named 'l4-nothing'" in pull.problems()[0], "who touches a file answers for it"


def test_a_tenant_that_is_invalid_is_left_out_and_said(pull: Pull) -> None:
    pull.edit(WEBUI, "l4-quarter", "l4-quater")
    plan = pull.planned()
    assert len(plan["problems"]) == 1
    assert "the rendered manifests of tenant studio-kite, which is invalid" in plan["skipped"]


def test_plan_warns_of_possible_losses_of_a_tenant_that_becomes_valid(pull: Pull) -> None:
    """It was kept as it was published; the plan sees only what was invalid, and can't compare."""
    path = f"{ADA}/instances/webui.yaml"
    pull.merge_elsewhere((path, "l4-quarter", "l4-nothing"))
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    assert not pull.planned()["perhapsLost"], "it stays as it is"
    git(pull.root, "merge", "-q", "main")
    git(pull.root, "rm", "-q", path)
    pull.commit()
    plan = pull.planned()
    (loss,) = plan["perhapsLost"]
    assert loss["what"] == "tenant solo-ada"
    assert loss["words"].startswith("was invalid before the merge, so an earlier published version may still run. ")
    assert "the rendered manifests of tenant solo-ada, which is invalid before the merge" in plan["skipped"]
    assert plan["summary"].startswith("can be merged · 1 replaced · 1 destroyed · perhaps more destroyed · ")
    assert "\n⚠ Perhaps destroyed\n  tenant solo-ada was invalid before the merge, " in pull.plan().out


def test_plan_warns_of_possible_losses_after_a_repair_of_the_platform(pull: Pull) -> None:
    spec = "platform/specs/l4-quarter.yaml"
    pull.merge_elsewhere((spec, "spec:\n", "spec:\n  colour: red\n"))
    git(pull.root, "merge", "-q", "main")
    pull.edit(spec, "  colour: red\n", "")
    pull.edit(f"{ADA}/instances/webui.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    plan = pull.planned()
    assert [loss["what"] for loss in plan["perhapsLost"]] == ["the platform's catalog"]
    assert plan["summary"] == "can be merged · perhaps something destroyed · prices, tenants, offers changed"


def test_a_change_of_a_tenant_beside_an_unreadable_platform_is_planned(pull: Pull) -> None:
    pull.merge_elsewhere(("platform/platform.yaml", "spec:\n", "spec:\n  colour: red\n"))
    pull.edit(f"{ADA}/instances/webui.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    plan = pull.planned()
    assert plan["skipped"][-1] == "the rendered manifests: the declarations of the platform are invalid"


@pytest.mark.parametrize("stray", ["tenants/NOTES.txt", "tenants/ml-orbit/instances/copy.yaml"])
def test_plan_shows_losses_despite_a_stray_link_elsewhere(pull: Pull, stray: str) -> None:
    """A file beside the tenants stops nobody, a link its own tenant: a publish takes all others, and so does a plan."""
    git(pull.root, "checkout", "-q", "main")
    (pull.root / stray).symlink_to("nothing")
    pull.commit()
    git(pull.root, "checkout", "-q", "-B", "feature", "main")
    git(pull.root, "rm", "-q", f"{ADA}/instances/webui.yaml")
    pull.commit()
    plan = pull.planned()
    assert [loss["what"] for loss in plan["losses"]] == ["instance solo-ada/webui in eu-1"]
    assert (plan["perhapsLost"], plan["allowed"]) == ([], True)
    assert [omission.partition(":")[0] for omission in plan["skipped"]] == [
        "whether the author may make this change",
        "other deletions within 24 hours, which the brake also counts",
    ]
    git(pull.root, "checkout", "-q", "-B", "feature", "main")
    git(pull.root, "rm", "-q", stray)
    pull.commit()
    plan = pull.planned()
    assert plan["losses"] == []
    assert [loss["what"] for loss in plan["perhapsLost"]] == (["tenant ml-orbit"] if "ml-orbit" in stray else [])


def test_a_plan_of_what_was_merged_is_empty(pull: Pull) -> None:
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    assert pull.planned()["files"] == {
        "declared": 1,
        "outside": 0,
        "added": 0,
        "changed": 4,
        "removed": 0,
        "markers": 2,
    }
    git(pull.root, "checkout", "-q", "main")
    git(pull.root, "merge", "-q", "feature")
    git(pull.root, "checkout", "-q", "feature")
    plan = pull.planned()
    assert (plan["summary"], plan["files"]["changed"], plan["changes"]) == ("changes nothing", 0, False)


def test_the_checksum_is_of_what_changes_and_of_nothing_else(pull: Pull) -> None:
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    first = pull.planned()["checksum"]
    assert pull.planned()["checksum"] == first
    pull.merge_elsewhere(("tenants/uni-lab/tenant.yaml", "spec:\n", "spec:\n  description: Elsewhere.\n"))
    assert pull.planned()["checksum"] == first, "what others merge elsewhere is no part of it"
    pull.edit(WEBUI, "l4-whole", "l4-half")
    assert pull.planned()["checksum"] != first


def test_whose_it_is_may_change_it_and_nobody_else(pull: Pull) -> None:
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    assert pull.by("mio-kite") == []
    assert pull.by("MIO-kite") == []
    assert pull.by("ada-k") == [
        f"{WEBUI}:1:1: (file): 'ada-k' may not change this file: its author, or an approval of its newest commit, "
        "must come from Member of studio-kite: mio-kite [ownership]"
    ]
    assert pull.by("ada-k", "mio-kite") == []


def test_plan_requires_every_pusher_to_own_the_file(pull: Pull) -> None:
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    assert pull.problems("--author", "mio-kite", "--pushed-by", "ada-k") == [
        f"{WEBUI}:1:1: (file): 'ada-k', who pushed to it, may not change this file: it needs an approval of the newest commit "
        "by Member of studio-kite: mio-kite [ownership]"
    ]
    assert pull.problems("--author", "mio-kite", "--pushed-by", "ada-k", "--approved-by", "mio-kite") == []
    assert pull.plan("--pushed-by", "ada-k").code == 2


def test_a_login_with_an_id_is_one_person(pull: Pull) -> None:
    pull.merge_elsewhere((f"{KITE}/members.yaml", "login: mio-kite", "login: mio-kite#17"))
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    assert pull.by("renamed#17") == []
    assert pull.by("mio-kite#18") == [
        f"{WEBUI}:1:1: (file): 'mio-kite#18' may not change this file: its author, or an approval of its newest commit, "
        "must come from Member of studio-kite: mio-kite#17 [ownership]"
    ]
    (problem,) = pull.by("mio-kite")
    assert "'mio-kite' (unknown id) may not change this file" in problem


def test_plan_grants_no_rights_to_a_member_that_the_change_adds(pull: Pull) -> None:
    pull.edit(f"{KITE}/members.yaml", "  users:\n", "  users:\n    - name: eve\n      role: Admin\n      login: eve\n")
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    problems = pull.by("eve")
    assert [problem.split(":")[0] for problem in problems] == [WEBUI, f"{KITE}/members.yaml"]
    assert "from Admin of studio-kite: mio-kite" in problems[1]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("platform/ownership.yaml", None),
        (".github/workflows/allot.yaml", "on: push\njobs: {}\n"),
        ("CODEOWNERS", "* @eve\n"),
        (".gitattributes", "*.yaml merge=union\n"),
        ("renderers/allotment/cli/plan.py", "print('can be merged')\n"),
        (".pre-commit-config.yaml", "repos: []\n"),
    ],
)
def test_plan_reserves_repository_settings_for_the_platform_team(pull: Pull, path: str, text: str | None) -> None:
    if text is None:
        pull.edit(path, "- tenantRole: Admin", "- login: mio-kite")
    else:
        pull.write(path, text)
    (problem,) = pull.by("mio-kite")
    assert problem.startswith(f"{path}:1:1: (file): 'mio-kite' may not change this file") or path in problem
    assert "from team platform (@northlight-example/platform) [ownership]" in problem
    assert pull.by("mio-kite", "pat") == []


def test_the_ownership_is_the_platform_teams_whatever_a_pattern_matches(pull: Pull) -> None:
    pattern = "  paths:\n    - path: platform/*\n      approvers:\n        - team: finance\n"
    pull.merge_elsewhere(("platform/ownership.yaml", "  paths:\n", pattern))
    git(pull.root, "reset", "-q", "--hard", "main")
    pull.edit("platform/ownership.yaml", "- fin-ann", "- fin-ann\n        - eve")
    (problem,) = pull.by("fin-ann")
    assert "platform/ownership.yaml:1:1: (file): 'fin-ann' may not change this file" in problem
    (problem,) = pull.by("pat")
    assert (
        "spec.teams: 'pat' may not change spec.teams: its author, or an approval of its newest commit, must come from team finance"
        in problem
    )
    assert pull.by("pat", "fin-ann") == []


def test_many_files_of_a_folder_that_lack_the_same_approval_are_one_line(pull: Pull) -> None:
    for number in range(300):
        path = pull.root / f".venv/lib/python3/site-packages/p{number % 7}/m{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n")
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    venv, webui = sorted(pull.by("ada-k"))
    assert venv == (
        ".venv/:1:1: (folder): 'ada-k' may not change 300 files of this folder, such as 'lib/python3/site-packages/p0/m0.py': "
        f"its author, or an approval of its newest commit, must come from team platform ({TEAM.split('=')[0]}) [ownership]"
    )
    assert webui.startswith(f"{WEBUI}:1:1: (file): 'ada-k' may not change this file")
    assert pull.by("ada-k", "mio-kite", "pat") == []


def test_plan_reserves_files_beside_the_folder_for_the_platform_team(allot: Allot, tmp_path: Path) -> None:
    for name in ROOTS:
        shutil.copytree(PROJECT / name, tmp_path / "gpus" / name)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "-A")
    git(tmp_path, *AUTHOR, "commit", "-q", "-m", "Begin")
    git(tmp_path, "checkout", "-q", "-b", "feature")
    (tmp_path / ".github/workflows").mkdir(parents=True)
    (tmp_path / ".github/workflows/allot.yaml").write_text("on: push\n")
    (tmp_path / "gpus.txt").write_text("beside it too\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, *AUTHOR, "commit", "-q", "-m", "Change")
    plan = ("plan", "--repo", tmp_path / "gpus", "--base", "main", "--head", "feature", "--team", TEAM, "--author")
    result = allot(*plan, "eve")
    assert result.code == 1
    for path in ("../.github/workflows/allot.yaml", "../gpus.txt"):
        assert f"{path}:1:1: (file): 'eve' may not change this file" in result.out
    assert allot(*plan, "pat").code == 0


def test_plan_refuses_a_rebase_result_that_differs_from_the_merge(pull: Pull) -> None:
    base = git(pull.root, "rev-parse", "HEAD")
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    evil = pull.commit()
    git(pull.root, "checkout", "-q", "-B", "feature", base)
    pull.commit("Nothing")
    git(pull.root, *AUTHOR, "merge", "-q", "-s", "ours", "--no-edit", evil)
    (problem,) = pull.by("eve")
    assert "a rebase gives another result than a merge" in problem
    assert problem.endswith("Squash it into one commit on top of the base [rebase]")


def test_prices_take_finance_besides_the_platform_team(pull: Pull) -> None:
    pull.edit(
        "platform/specs/l4-quarter.yaml", "  prices:\n", '  prices:\n    - from: "2027-11-01"\n      perHour: "0.30"\n'
    )
    (problem,) = pull.by("pat")
    assert problem.startswith("platform/specs/l4-quarter.yaml:")
    assert "spec.prices: 'pat' may not change spec.prices" in problem
    assert "from team finance [ownership]" in problem
    assert len(pull.by("fin-ann")) == 1, "the path is not finance's"
    assert pull.by("pat", "fin-ann") == []


def test_a_file_that_moves_to_another_tenant_takes_both(pull: Pull) -> None:
    pull.copy(WEBUI, f"{ADA}/instances/stolen.yaml")
    pull.remove(WEBUI)
    assert {problem.split(":")[0] for problem in pull.by("ada-k") if "[ownership]" in problem} == {WEBUI}
    assert {problem.split(":")[0] for problem in pull.by("mio-kite") if "[ownership]" in problem} == {
        f"{ADA}/instances/stolen.yaml"
    }


def test_an_ownership_that_can_not_be_read_at_the_base_allows_nothing(pull: Pull) -> None:
    pull.merge_elsewhere(("platform/ownership.yaml", "kind: Ownership", "kind: Ownershop"))
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    assert any("so no change is allowed" in problem for problem in pull.by("mio-kite"))


def test_without_an_author_the_check_is_said_to_be_skipped(pull: Pull) -> None:
    assert pull.planned()["skipped"] == ["whether the author may make this change: name the author with --author LOGIN"]
    result = pull.plan("--approved-by", "pat")
    assert result.code == 2


def test_a_tree_that_is_no_repository_of_declarations_is_read_no_further(pull: Pull) -> None:
    pull.link(f"{KITE}/instances/link.yaml", "/etc/passwd")
    pull.write(f"{ADA}/.gitattributes", "* filter=evil\n")
    problems = pull.problems()
    assert any(
        problem.startswith(f"{KITE}/instances/link.yaml:1:1: (file): is a symbolic link") for problem in problems
    )
    assert any(
        problem.startswith(f"{ADA}/.gitattributes:1:1: (file): no declaration belongs here") for problem in problems
    )
    assert "root:" not in pull.plan("--format", "markdown").out


def test_a_tree_that_unfolds_without_end_is_stopped_in_seconds(pull: Pull) -> None:
    """Twelve objects, ten to the tenth paths."""

    def write_object(kind: str, text: bytes) -> str:
        done = subprocess.run(["git", "-C", str(pull.root), *kind.split()], input=text, capture_output=True, check=True)
        return done.stdout.decode().strip()

    inner = write_object("hash-object -w --stdin", b"x")
    entry = f"100644 blob {inner}"
    for _ in range(10):
        tree = write_object("mktree", "".join(f"{entry}\tf{number}\n" for number in range(10)).encode())
        entry = f"040000 tree {tree}"
    top = git(pull.root, "ls-tree", "main") + f"\n{entry}\tbomb\n"
    commit = git(pull.root, *AUTHOR, "commit-tree", "-p", "main", "-m", "Bomb", write_object("mktree", top.encode()))
    git(pull.root, "update-ref", "refs/heads/bomb", commit)
    begun = time.monotonic()
    result = pull._allot("plan", "--repo", pull.root, "--base", "main", "--head", "bomb")
    assert result.code == 1
    words = "it changes more than 10,000 files, most of them in 'bomb': split it, or leave that folder out [size]"
    assert words in result.out
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize("ref", ["--upload-pack=touch /tmp/owned", "-x", "no\nsuch", "", "HEAD:platform"])
def test_a_ref_is_never_an_option(pull: Pull, allot: Allot, ref: str) -> None:
    for words in (("--base", ref, "--head", "HEAD"), ("--base", "main", "--head", ref)):
        result = allot("plan", "--repo", pull.root, *words)
        assert result.code == 2, result.out


def test_half_a_history_is_refused(pull: Pull, allot: Allot, tmp_path: Path) -> None:
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    pull.merge_elsewhere(("tenants/uni-lab/tenant.yaml", "spec:\n", "spec:\n  description: Elsewhere.\n"))
    half = tmp_path / "half"
    subprocess.run(
        ["git", "clone", "-q", "--depth", "1", "--no-single-branch", pull.root.as_uri(), str(half)], check=True
    )
    result = allot("plan", "--repo", half, "--base", "origin/main", "--head", "origin/feature")
    assert (result.code, "fetch --unshallow" in result.err) == (2, True)


def test_nothing_that_a_terminal_obeys_is_printed(pull: Pull) -> None:
    pull.edit(WEBUI, "spec:\n", 'spec:\n  description: "\\e]0;owned\\a"\n')
    pull.write(f"{KITE}/instances/evil.yaml", "\x1b]0;owned\x07\u202e\n")
    result = pull.plan("--diffs")
    assert result.code == 1
    assert not any(character in result.out for character in "\x1b\x07\u202e")


def tried(pull: Pull, *words: object) -> Result:
    """Return the plan of the folder as it is, against the branch that counts."""
    return pull._allot("plan", "--repo", pull.root, "--as-of", DAY, *words)


@pytest.fixture
def origin(pull: Pull) -> str:
    """Return the commit of origin/main, which is what `main` is here."""
    commit = git(pull.root, "rev-parse", "main")
    git(pull.root, "update-ref", "refs/remotes/origin/main", commit)
    return commit


def test_alone_it_plans_the_folder_as_it_is_against_the_branch_that_counts(pull: Pull, origin: str) -> None:
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    head = pull.commit()
    pull.copy(WEBUI, f"{KITE}/instances/another.yaml")
    pull.edit(f"{ADA}/tenant.yaml", "plan: starter", "plan: team")
    objects = git(pull.root, "count-objects", "-v")
    result = tried(pull)
    assert result.out.splitlines()[:2] == [
        "can be merged · 1 added · 1 replaced · 1 destroyed · ⚠ access · tenants changed · +1073.10 EUR/month",
        f"Plan of the work tree ({head[:12]}, 2 declared files not committed) merged into origin/main ({origin[:12]})",
    ]
    assert git(pull.root, "count-objects", "-v") == objects
    document = checked("plan", tried(pull, "-o", "json").out)
    assert (document["head"], document["base"], document["baseName"], document["workTree"]) == (
        head,
        origin,
        "origin/main",
        {"uncommitted": 2},
    )
    committed = pull.commit()
    later = checked("plan", tried(pull, "-o", "json", "--head", committed).out)
    assert later["checksum"] == document["checksum"], "what is committed is what was planned"
    assert later["workTree"] is None


def test_a_folder_is_planned_as_the_merge_result_too(pull: Pull, origin: str) -> None:
    pull.merge_elsewhere((f"{ADA}/tenant.yaml", "plan: starter", "plan: team"))
    git(pull.root, "update-ref", "refs/remotes/origin/main", "main")
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    plan = checked("plan", tried(pull, "-o", "json").out)
    assert [declaration["path"] for declaration in plan["declarations"]] == [WEBUI], (
        "what others merged meanwhile isn't taken back"
    )
    pull.edit(f"{ADA}/tenant.yaml", "plan: starter", "plan: enterprise")
    assert "it conflicts with the base in tenants/solo-ada/tenant.yaml" in tried(pull).out


def test_the_branch_that_counts_is_the_one_that_the_platform_declares(pull: Pull, origin: str) -> None:
    pull.edit("platform/platform.yaml", "branch: main", "branch: live")
    missing = tried(pull)
    assert (missing.code, missing.out) == (2, "")
    assert missing.err == (
        "allot: origin/live isn't in this clone, but a plan without --base needs it: this repository has no remote"
        " named origin. Run `git remote add origin URL` and fetch or push live, or name a commit with --base, such as"
        " --base HEAD for uncommitted changes\n"
    )
    git(pull.root, "remote", "add", "origin", str(pull.root.parent / "nowhere.git"))
    assert (
        "needs it: run `git fetch origin live`, or `git push origin live` if the branch has never been pushed, or name"
        in tried(pull).err
    )
    git(pull.root, "update-ref", "refs/remotes/origin/live", origin)
    assert "merged into origin/live (" in tried(pull).out
    assert f"merged into main ({origin[:12]})" in tried(pull, "--base", "main").out


def test_a_status_tells_what_changes_nothing_from_what_does(pull: Pull, origin: str) -> None:
    assert tried(pull, "--detailed-exitcode").code == 0
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    assert (tried(pull).code, tried(pull, "--detailed-exitcode").code) == (0, 4)
    pull.edit(WEBUI, "l4-whole", "l4-nothing")
    assert (tried(pull).code, tried(pull, "--detailed-exitcode").code) == (1, 1)
    assert tried(pull, "--detailed-exitcode", "--base", "nothing").code == 2


def written(root: Path) -> dict[str, bytes]:
    """Return all that lies in the repository's own folder."""
    return {str(file): file.read_bytes() for file in (root / ".git").rglob("*") if file.is_file()}


def test_a_plan_runs_nothing_that_the_repository_names_and_writes_nothing_there(pull: Pull, origin: str) -> None:
    ran = pull.root.parent / "ran"
    own = pull.root.parent / "own"
    own.write_text(f"#!/bin/sh\ntouch {ran}\n")
    own.chmod(0o755)
    pull.write(".gitattributes", "*.yaml filter=own merge=own diff=own\n")
    pull.merge_elsewhere((WEBUI, "name: webui", "name: webui  # Hers"))
    git(pull.root, "update-ref", "refs/remotes/origin/main", "main")
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    feature = pull.commit()
    pull.edit(f"{ADA}/tenant.yaml", "plan: starter", "plan: team")
    for name in ("filter.own.clean", "filter.own.process", "merge.own.driver", "diff.own.textconv", "core.fsmonitor"):
        git(pull.root, "config", name, str(own))
    git(pull.root, "config", "core.splitIndex", "true")
    for name in ("post-index-change", "reference-transaction", "pre-commit"):
        shutil.copy(own, pull.root / ".git/hooks" / name)
    before = written(pull.root)
    assert "it conflicts" not in (result := tried(pull)).out
    assert "1 replaced" in result.out.splitlines()[0]
    assert tried(pull, "--head", feature).code == 0
    assert written(pull.root) == before
    assert not ran.exists()


def test_a_plan_asks_no_other_repository_for_what_is_missing(pull: Pull, origin: str) -> None:
    ran = pull.root.parent / "ran"
    own = pull.root.parent / "own"
    own.write_text(f"#!/bin/sh\ntouch {ran}\n")
    own.chmod(0o755)
    for name, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.url", str(pull.root.parent / "nowhere.git")),
        ("remote.origin.promisor", "true"),
        ("remote.origin.uploadpack", str(own)),
    ):
        git(pull.root, "config", name, value)
    (pull.root / ".git/refs/heads/gone").write_text("1" * 40 + "\n")
    result = tried(pull, "--base", "gone")
    assert (result.code, "allot: " in result.err) == (2, True)
    git(pull.root, "update-ref", "--no-deref", "-d", "refs/heads/gone")
    assert tried(pull, "--base", "HEAD").code == 0
    assert not ran.exists()


def test_a_users_own_merge_driver_merges_nothing(pull: Pull, origin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = pull.root.parent / "ran"
    configuration = pull.root.parent / "configuration"
    configuration.write_text(f'[merge]\n\tdefault = own\n[merge "own"]\n\tdriver = touch {ran}\n')
    pull.merge_elsewhere((WEBUI, "name: webui", "name: webui  # Hers"))
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    feature = pull.commit()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    result = tried(pull, "--base", "main", "--head", feature)
    assert "1 replaced" in result.out.splitlines()[0]
    assert not ran.exists()


def test_a_pipe_where_attributes_belong_is_refused(pull: Pull, origin: str) -> None:
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    os.mkfifo(pull.root / "tenants/.gitattributes")
    result = tried(pull)
    assert (result.code, result.out) == (2, "")
    assert "'tenants/.gitattributes' is not a regular file: remove it" in result.err


def test_objects_that_the_environment_names_are_there(pull: Pull, origin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    feature = pull.commit()
    besides = pull.root.parent / "besides"
    (pull.root / ".git/objects").rename(besides)
    (pull.root / ".git/objects").mkdir()
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(besides))
    result = tried(pull, "--base", "main", "--head", feature)
    assert "1 replaced" in result.out.splitlines()[0], result.err


@pytest.mark.parametrize("branch", ["main; touch owned", "main~0"])
def test_plan_suggests_no_command_with_an_invalid_branch_name(branch: str, pull: Pull) -> None:
    pull.edit("platform/platform.yaml", "branch: main", f'branch: "{branch}"')
    result = tried(pull)
    assert branch not in result.err
    assert "push main" in result.err


def test_a_large_file_in_the_folder_is_refused_unread(pull: Pull, origin: str) -> None:
    with (pull.root / f"{ADA}/model.bin").open("wb") as file:
        file.truncate(2 << 30)
    started = time.monotonic()
    result = tried(pull)
    assert f"'{ADA}/model.bin' has 2,147,483,648 bytes: keep data elsewhere" in result.out
    assert result.code == 1
    assert time.monotonic() - started < 60


def test_plan_lists_declared_changes_without_rendered_changes(pull: Pull) -> None:
    for path, old, new in (
        (
            "platform/specs/l4-quarter.yaml",
            "  prices:\n",
            '  prices:\n    - from: "2026-12-01"\n      perHour: "0.60"\n',
        ),
        ("platform/plans/starter.yaml", '"300"', '"3000"'),
        (f"{ADA}/members.yaml", "  users:\n", "  users:\n    - name: eve\n      role: Admin\n      login: eve-k\n"),
        ("platform/ownership.yaml", "        - fin-ann\n", "        - fin-ann\n        - mallory\n"),
    ):
        pull.edit(path, old, new)
    plan = pull.planned()
    assert plan["summary"] == (
        "can be merged · ⚠ access · ⚠ approvals · prices, plans changed · +4839.90 EUR/month from 2026-12-01"
        " · uni-lab 2594.00 over budget from 2026-12-01"
    )
    assert [(change["topic"], change["path"]) for change in plan["declared"]] == [
        ("access", f"{ADA}/members.yaml"),
        ("approvals", "platform/ownership.yaml"),
        ("prices", "platform/specs/l4-quarter.yaml"),
        ("plans", "platform/plans/starter.yaml"),
    ]
    text = pull.plan().out
    assert (
        text.index("⚠ Access: 1 Admin\n")
        < text.index("⚠ Approvals\n")
        < text.index("Cost\n")
        < text.index("Declared\n")
    )
    assert (
        "⚠ From 2026-12-01 on uni-lab costs 2594.00 EUR more than its budget. From that day on, it keeps its last "
        "published manifests until it declares less or its budget grows."
    ) in text
    rows = [line.split() for line in text.splitlines()]
    assert ["total", "of", "3", "tenants", "today", "4760.70", "0.00"] in rows
    assert ["total", "of", "3", "tenants", "2026-12-01", "4760.70", "→", "9600.60", "+4839.90"] in rows


def test_plan_lists_declared_changes_of_an_invalid_platform(pull: Pull) -> None:
    pull.edit("clusters/eu-1/node-pools/l4-ts2-film.yaml", "nodes: 2", "nodes: 1")
    pull.edit(f"{ADA}/members.yaml", "role: Admin", "role: Viewer")
    plan = pull.planned()
    assert not plan["allowed"]
    assert [change["path"] for change in plan["declared"]] == [
        f"{ADA}/members.yaml",
        *(f"{ADA}/members.yaml",) * 2,  # nobody is left who approves
        "clusters/eu-1/node-pools/l4-ts2-film.yaml",
    ]


def test_another_plan_restarts_nothing_and_says_what_the_tenant_may_have(pull: Pull) -> None:
    pull.edit(f"{ADA}/tenant.yaml", "plan: starter", "plan: enterprise")
    plan = pull.planned()
    assert (plan["things"], plan["losses"]) == ([], [])
    quota = {
        quota_change["what"]: (
            quota_change["before"],
            quota_change["after"],
            quota_change["limitBefore"],
            quota_change["limit"],
        )
        for quota_change in plan["quota"]
    }
    assert quota["nvidia-l4 GPUs"] == (0.25, 0.25, 1, 16)
    assert quota["instances"] == (1, 1, 3, 100)
    (cost,) = plan["costs"]
    assert (cost["budgetBefore"], cost["budget"]) == (300, None)
    (change,) = plan["declared"]
    assert (change["topic"], change["path"], change["field"]) == ("access", f"{ADA}/tenant.yaml", "spec.plan")
    assert change["note"] == (
        "newly allows exposure Public, images of registry.example/, sharing Exclusive, sharing Mig"
    )


def test_a_plan_that_allows_more_is_told_where_nobody_misses_it(pull: Pull) -> None:
    pull.edit("platform/plans/starter.yaml", "    exposure:\n", "    exposure:\n      - Public\n")
    lines = pull.plan().out.splitlines()
    assert lines[0] == "can be merged · ⚠ access"
    assert "  platform/plans/starter.yaml: spec.allow.exposure added: Public" in lines


def test_plan_lists_declared_changes_of_an_invalid_tenant(pull: Pull) -> None:
    pull.edit(WEBUI, "gpuSpec: l4-quarter", "gpuSpec: l4-nothing")
    pull.edit(f"{KITE}/instances/comfy.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    changes = [f"{change['path']}: {change['field']}" for change in pull.planned()["declared"]]
    assert changes == [f"{KITE}/instances/comfy.yaml: spec.state", f"{WEBUI}: spec.gpuSpec"]


def test_folders_of_an_app_that_is_merged_may_change_and_render_nothing(pull: Pull) -> None:
    path = "platform/apps/stable-diffusion-webui.yaml"
    pull.edit(path, "path: /workspace/outputs", "path: /workspace/pictures")
    plan = pull.planned()
    assert [problem for problem in plan["problems"] if problem["severity"] == "error"] == []
    assert (plan["things"], plan["objects"]) == ([], [])
    assert {(change["topic"], change["path"]) for change in plan["declared"]} == {("apps", path)}
    assert [problem["message"] for problem in plan["problems"] if problem["rule"] == "app-folder"] == [
        "/workspace/outputs is not a folder of app stable-diffusion-webui 1.10.1, which has /workspace/models,"
        " /workspace/pictures; mount the storage there, or name this path in container.args or container.env"
    ]
    unsaved = [problem["path"] for problem in plan["problems"] if problem["rule"] == "unsaved-folder"]
    assert unsaved == [WEBUI], "only the folder of version 1.10.1 has another path"


def test_each_reason_names_its_file(pull: Pull) -> None:
    pull.edit(EU, *DOMAIN)
    pull.edit(f"{ADA}/members.yaml", "subject: 00u1ada", "subject: 00u1eve")
    pull.edit(f"{KITE}/instances/comfy.yaml", "spec:\n", "# Mine.\nspec:\n")
    pull.edit("tenants/uni-lab/storages/course.yaml", "size: 100Gi", "size: 101Gi")
    pull.edit(EU, "capacity: 200Ti", "capacity: 201Ti")  # nothing is rendered from it
    copy(
        pull.root, "clusters/eu-1/node-pools/l4-whole.yaml", "clusters/eu-1/node-pools/spare.yaml"
    )  # no stock lies there
    pull.edit("clusters/eu-1/node-pools/spare.yaml", "pool: l4-whole", "pool: spare")
    why = {f"{resource['tenant']}/{resource['name']}": resource["why"] for resource in pull.planned()["things"]}
    domain = f"{EU}: spec.domain eu-1.gpu.northlight.example → fra.gpu.northlight.example"
    assert why["solo-ada/webui"] == [f"{ADA}/members.yaml: spec.users[ada].subject 00u1ada → 00u1eve", domain]
    assert why["uni-lab/group-a"] == [domain]
    assert why["uni-lab/course"] == ["tenants/uni-lab/storages/course.yaml: spec.size 100Gi → 101Gi"]


def test_a_comment_of_a_person_is_no_change_of_what_is_declared(pull: Pull) -> None:
    pull.edit(f"{KITE}/instances/comfy.yaml", "spec:\n", "# Mine.\nspec:\n")
    (resource,) = pull.planned()["things"]
    assert resource["why"] == [f"{KITE}/instances/comfy.yaml: only its text, not its meaning"]


def test_programs_that_jobs_run_are_shown_with_what_changes(pull: Pull) -> None:
    path = f"{ADA}/storages/styles.yaml"
    pull.write(f"{KITE}/storages/styles.yaml", (pull.root / path).read_text())
    plan = pull.planned()
    storage, programs = (manifest["path"] for manifest in plan["objects"])
    assert storage == "eu-1/tenants/studio-kite/storage/styles.rendered.yaml"
    assert programs.startswith("eu-1/tenants/studio-kite/storage/allotment--programs-fetch-url-")
    assert plan["objects"][1]["diff"].startswith("--- /dev/null\n")
    assert plan["files"] == {"declared": 1, "outside": 0, "added": 2, "changed": 1, "removed": 0, "markers": 1}


def test_colours_are_for_a_terminal_alone(pull: Pull, monkeypatch: pytest.MonkeyPatch) -> None:
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    words = ("--head", pull.commit(), "--base", "main", "--diffs")
    plain = tried(pull, *words).out
    assert "\x1b" not in plain
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_: False)
    coloured = tried(pull, *words).out
    assert coloured.startswith("\x1b[33mcan be merged · 1 replaced · 1 destroyed")
    assert "\x1b[31m-  gpuSpec: l4-quarter\x1b[0m\n\x1b[32m+  gpuSpec: l4-whole\x1b[0m\n" in coloured
    assert click.unstyle(coloured) == plain


def test_the_checksum_is_the_last_line(pull: Pull) -> None:
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    checksum = pull.planned()["checksum"]
    for words in ((), ("--diffs",)):
        assert pull.plan(*words).out.splitlines()[-1] == f"Checksum {checksum}"
    assert pull.plan("-o", "markdown").out.splitlines()[-1] == f"Checksum `{checksum}`."


def test_of_very_much_that_is_declared_otherwise_the_first_is_named_and_all_is_counted(
    pull: Pull, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allotment.services.pull_requests.merge_plan.MAX_DECLARED", 2)
    for name in ("starter", "team", "enterprise"):
        pull.edit(f"platform/plans/{name}.yaml", "    instances: ", "    instances: 1")
    pull.edit(f"{ADA}/members.yaml", "role: Admin", "role: Viewer")
    plan = pull.planned()
    assert [change["topic"] for change in plan["declared"]] == ["access", "approvals", "approvals", "plans", "plans"]
    assert plan["declaredCount"] == 6
    assert "\n  and 1 more\n" in pull.plan().out


def test_many_changes_of_one_topic_push_no_other_out(pull: Pull) -> None:
    prices = "".join(
        f'    - from: "{2030 + at // 300}-{1 + at // 25 % 12:02}-{1 + at % 25:02}"\n      perHour: "{1 + at}.00"\n'
        for at in range(600)
    )
    pull.edit("platform/specs/l4-quarter.yaml", "  prices:\n", f"  prices:\n{prices}")
    pull.edit("platform/plans/team.yaml", "enforcement: Deny", "enforcement: Warn")
    plan = pull.planned()
    assert "prices, plans changed" in plan["summary"]
    assert [change["field"] for change in plan["declared"] if change["topic"] == "plans"] == ["spec.budget.enforcement"]
    assert plan["declaredCount"] == 601
    assert len(plan["declared"]) < 100
    assert all(len(cost["days"]) <= 25 for cost in plan["costs"])
    assert any("more price changes: a plan shows 24 of them" in words for words in plan["skipped"])


@pytest.mark.parametrize("words", [("--base", "\udcff"), ("--base", "main", "--head", "\udcff")])
def test_a_name_of_no_text_names_no_commit(words: tuple[str, ...], pull: Pull, allot: Allot) -> None:
    result = allot("plan", "--repo", pull.root, *words)
    assert result.code == 2
    assert "names no commit here" in result.err


def test_a_file_outside_the_declarations_is_named_and_what_it_decides_is_said_first(pull: Pull) -> None:
    pull.write(".github/workflows/allot.yaml", "on: push\n")
    pull.write(".allot/program.lock", "evil==1.0\n")
    pull.write("notes.md", "Hello\n")
    result = pull.plan()
    first, *_ = lines = result.out.splitlines()
    assert first == "can be merged · ⚠ changes which program runs, what runs in CI · 3 files outside the declarations"
    assert "⚠ Outside the declarations" in lines
    assert "  changes which program runs: .allot/program.lock added" in lines
    assert "  changes what runs in CI: .github/workflows/allot.yaml added" in lines
    assert "  notes.md  added" in lines
    assert "0 declared files, 3 other files and 0 rendered files change." in lines
    plan = pull.planned()
    assert (plan["changes"], plan["outsideCount"], plan["files"]["outside"]) == (True, 3, 3)
    assert plan["outside"] == [
        {"path": ".allot/program.lock", "written": "added", "decides": "program"},
        {"path": ".github/workflows/allot.yaml", "written": "added", "decides": "ci"},
        {"path": "notes.md", "written": "added", "decides": ""},
    ]
    output = pull.plan("-o", "markdown").out
    assert "#### ⚠️ Outside the declarations\n\n- changes which program runs: `.allot/program.lock` added\n" in output
    assert "| `notes.md` | `added` |" in output
    assert pull.plan("--detailed-exitcode").code == 4


def test_very_many_files_outside_the_declarations_are_counted_and_their_names_are_inert(pull: Pull) -> None:
    for at in range(3_000):
        pull.write(f".github/workflows/{at:04}-@everyone.yaml", "")
        pull.write(f"notes/{at:04}.md", "")
    pull.write(".gitea/workflows/\x1b]0;owned\x07`|.yaml", "")
    result = pull.plan("-o", "markdown")
    assert (result.code, len(result.out.encode()) < 60_000) == (0, True)
    assert "and 2,961 more" in result.out
    assert "6,001 files outside the declarations" in result.out.splitlines()[2]
    assert "and 2,961 more" in (text := pull.plan().out)
    assert not any(character in text + result.out for character in "\x1b\x07")


def test_a_plan_foresees_that_the_brake_stops_it(pull: Pull) -> None:
    gone = sorted(pull.root.glob("tenants/*/instances/*.yaml"))[:15]
    for file in gone:
        file.unlink()
    result = pull.plan()
    assert "⚠ the brake will stop it, and stop publishing for all tenants" in result.out.splitlines()[0]
    assert result.code == 1
    words = "the brake will stop this: 15 of 17 instances would be deleted within 24 hours, more than 30 %: "
    assert f"⚠ The brake\n  {words}" in result.out
    brake = pull.planned()["brake"]
    assert (brake["what"], brake["deleted"], brake["of"], brake["maxDeletedPercent"]) == ("instances", 15, 17, 30)
    assert "15 of 17 instances would be deleted" in pull.plan("-o", "markdown").out
    for file in gone[5:]:
        git(pull.root, "checkout", "main", "--", str(file))
    assert pull.planned()["brake"] is None, "5 of 17 are 29 %"


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("clusters/us-1/cluster.yaml", "spec:\n", "spec: 3\nx:\n"),
        ("platform/add-ons/karpenter.yaml", "- us-1", "- us-9"),
    ],
)
def test_a_fault_elsewhere_hides_no_loss_of_what_is_published_all_the_same(
    pull: Pull, path: str, old: str, new: str
) -> None:
    pull.merge_elsewhere((path, old, new))
    git(pull.root, "merge", "-q", "main")
    for file in sorted((pull.root / "tenants/uni-lab/instances").iterdir()):
        file.unlink()
    plan = pull.planned()
    assert [loss["what"] for loss in plan["losses"]] == [
        f"instance uni-lab/{name} in eu-1" for name in ("group-a", "group-b", "group-c")
    ]
    assert not [loss for loss in plan["losses"] if "node pool" in loss["what"]]


def test_plan_counts_deletions_for_the_brake_across_all_tenants(pull: Pull) -> None:
    for file in (pull.root / "tenants/uni-lab/instances").iterdir():
        file.unlink()
    assert pull.planned()["brake"] is None, "all of one tenant, and few of all"
    shutil.rmtree(pull.root / "clusters/us-1")
    assert pull.planned()["brake"] is None, "the branch of a cluster that is gone stays as it is"


def test_the_brake_counts_what_is_deleted_while_an_invalid_tenant_is_mended(pull: Pull) -> None:
    lab = "tenants/uni-lab/tenant.yaml"
    pull.merge_elsewhere(
        (lab, "plan: team", "plan: nothing"), ("platform/platform.yaml", "minObjects: 10", "minObjects: 4")
    )
    git(pull.root, "merge", "-q", "main")
    for file in (pull.root / "tenants/uni-lab/instances").iterdir():
        file.unlink()
    assert pull.planned()["brake"] is None, "who is invalid keeps what is published"
    pull.edit(lab, "plan: nothing", "plan: team")
    result = pull.plan()
    assert "⚠ the brake " in result.out.splitlines()[0]
    words = "4 of 4 instances of tenant uni-lab would be deleted within 24 hours, more than 30 %: uni-lab/group-a"
    assert words in result.out


def test_plan_shows_the_cost_of_a_tenant_that_exceeds_a_budget(pull: Pull) -> None:
    for letter in "efghi":
        pull.copy(f"{KITE}/instances/comfy.yaml", f"{KITE}/instances/comfy-{letter}.yaml")
    pull.edit(f"{ADA}/instances/webui.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    plan = pull.planned()
    assert not plan["allowed"]
    costs = {cost["tenant"]: (cost["valid"], cost["overBudget"] is not None) for cost in plan["costs"]}
    assert costs == {"studio-kite": (False, True), "solo-ada": (True, False)}
    for words in ((), ("-o", "markdown")):
        text = pull.plan(*words).out
        assert "total of 2 tenants" in text
        assert "⚠ studio-kite is invalid: the cost is that of the declarations, but the published manifests" in text


def test_a_budget_below_what_is_spent_shows_what_is_spent(pull: Pull) -> None:
    pull.edit("platform/plans/team.yaml", '"4000"', '"400"')
    result = pull.planned()
    over = {cost["tenant"]: cost["overBudget"] for cost in result["costs"]}
    assert over["studio-kite"] == {"day": DAY, "amount": 1876.9, "denied": True}
    assert "studio-kite 1876.90 over budget" in result["summary"]


def test_whose_cost_is_not_known_is_said_beside_the_sum(pull: Pull) -> None:
    pull.edit(WEBUI, "gpuSpec: l4-quarter", "gpuSpec: l4-nothing")
    pull.copy(f"{ADA}/instances/webui.yaml", f"{ADA}/instances/more.yaml")
    assert pull.planned()["unpriced"] == ["studio-kite"]
    assert "total of 1 tenant, without studio-kite" in pull.plan().out
    assert "total of 1 tenant, without studio-kite" in pull.plan("-o", "markdown").out


def approvals(pull: Pull) -> list[str]:
    lines = pull.plan().out.splitlines()
    begin = lines.index("⚠ Approvals") + 1
    return [line.strip() for line in lines[begin : lines.index("", begin)]]


def test_plan_lists_the_approval_rights_of_a_new_team_member(pull: Pull) -> None:
    pull.edit("platform/ownership.yaml", "        - fin-ann\n", "        - fin-ann\n        - mallory\n")
    assert approvals(pull) == [
        "platform/ownership.yaml: spec.teams[finance].logins added: mallory (team finance approves spec.prices of GPUSpec,"
        " spec.prices of StorageSpec, spec.reservation of Stock, spec.budget of Plan and 3 more)"
    ]


def test_a_role_that_approves_more_is_told_as_what_it_means(pull: Pull) -> None:
    pull.edit(
        "platform/ownership.yaml",
        "        - tenantRole: Admin\n",
        "        - tenantRole: Admin\n        - tenantRole: Member\n",
    )
    assert approvals(pull) == [
        "platform/ownership.yaml: spec.paths[tenants/*/members.yaml].approvers added: tenantRole Member (every Member and"
        " Admin of a tenant approves these files of the tenant, including its list of members)"
    ]


def test_a_tenant_of_which_nobody_can_approve_any_more_is_named(pull: Pull) -> None:
    pull.edit(f"{ADA}/members.yaml", "role: Admin", "role: Member")
    assert approvals(pull) == [
        f"{ADA}/members.yaml: approvers by tenants/*/members.yaml removed: ada-k (nobody in solo-ada can approve these files any more: team platform approves them)"
    ]
    pull.edit(f"{ADA}/members.yaml", "role: Member", "role: Viewer")
    assert [line.split(" removed")[0] for line in approvals(pull)] == [
        f"{ADA}/members.yaml: approvers by tenants/*/*/*.yaml",
        f"{ADA}/members.yaml: approvers by tenants/*/members.yaml",
    ]
    pull.edit(f"{ADA}/members.yaml", "  users:\n", "  users:\n    - name: bob\n      role: Admin\n      login: bob-k\n")
    assert "⚠ Approvals" not in pull.plan().out
    for line in ("login: bob-k", "login: ada-k"):
        pull.edit(f"{ADA}/members.yaml", f"      {line}\n", "")
    assert "nobody in solo-ada can approve" in pull.plan().out, "whoever has no login approves nothing"


def test_a_team_of_nobody_is_refused(pull: Pull) -> None:
    pull.edit("platform/ownership.yaml", "      logins:\n        - fin-ann\n", "")
    assert "team finance has no members" in pull.plan().out


@pytest.mark.process
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_plan_fits_the_width_of_the_terminal(pull: Pull, columns: int) -> None:
    pull.edit(WEBUI, "l4-quarter", "l4-whole")
    pull.edit(f"{ADA}/tenant.yaml", "plan: starter", "plan: team")
    pull.edit(
        "platform/specs/l4-half.yaml", "  prices:\n", '  prices:\n    - from: "2099-12-01"\n      perHour: "0.60"\n'
    )
    pull.write("a/very/long/path/of/a/file/that/nobody/declares/" + "x" * 60 + ".md", "")
    pull.write(".github/workflows/allot.yaml", "")
    pull.commit()
    words = (*ALLOT, "plan", "--base", "main", "--head", "feature", "--as-of", DAY)
    piped = subprocess.run(words, cwd=pull.root, capture_output=True, text=True, check=True).stdout
    seen = run_in_terminal(words, pull.root, columns)
    long = [line for line in seen.lines if len(line) > columns]
    assert all(" " not in line.strip() or line.startswith("Checksum") for line in long), "but for what stays whole"
    heads = {"Why", "Change"}  # of what stands below its row
    assert set(piped.replace(",", "").split()) - heads <= set(seen.text.replace(",", "").split()), "nothing is cut"


@pytest.mark.parametrize("words", [(), ("--base", "main"), ("--base", "HEAD"), ("--head", "HEAD")])
def test_before_the_first_commit_it_says_to_commit(words: tuple[str, ...], sample: Path, allot: Allot) -> None:
    git(sample, "init", "-q")
    result = allot("plan", "--repo", sample, "--as-of", DAY, *words)
    assert (result.code, result.out) == (2, "")
    assert "nothing is committed here yet: run `git add --all` and `git commit` first" in result.err
    assert "fetch" not in result.err


def test_a_source_may_name_the_reference_instead_of_its_secret_while_instances_run(place: Place, allot: Allot) -> None:
    declare_source_secret(place.root)
    edit(place.root, "tenants/uni-lab/instances/group-a.yaml", "name: course", "name: papers")
    edit(place.root, SOURCE_STORAGE, "name: s3-keys", "name: s3-keys--secret")
    place.merge()
    edit(place.root, SOURCE_STORAGE, "name: s3-keys--secret", "name: s3-keys")
    result = allot("plan", "--repo", place.root, "--as-of", DAY)
    assert (result.code, "[preparation]" in result.out) == (0, False)
