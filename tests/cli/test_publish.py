"""`allot publish`: what is committed, who is kept and who waits, what is never lost. Cases 27, 31, 32 and 34."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.adapters.git.malformed import write
from tests.conftest import DAY, Allot, Result, checked, copy, edit
from tests.support.brake_limits import GROUPS, brake, put_back, remove
from tests.support.killed import Run, kill_everywhere, killed_at
from tests.support.published import INSTANCE, Place, git

from allotment.adapters.git.remote import Remote
from allotment.isolation.entitlements import Entitlements
from allotment.manifests import names
from allotment.manifests.yaml_text import load
from allotment.observed.status import Instance, TenantStatus, dump_status

WEBUI = "tenants/solo-ada/instances/webui.yaml"
STOPPED = ("spec:\n", "spec:\n  state: Stopped\n")
GROUP = "tenants/uni-lab/instances/group-a.yaml"
CORDON = f"""\
apiVersion: allotment.dev/v1alpha1
kind: Cordon
metadata:
  name: driver
spec:
  nodePool: l4-ts4
  reason: New driver
  from: "{DAY}"
"""
STOP = ("state: Running", "state: Stopped")
OVERSOLD = (
    "warning: clusters/eu-1/stocks/l4-quarter.yaml:9:10: spec.count: 17 units of l4-quarter are held in eu-1,"
    " 2 more than its stock (15 shared); held by uni-lab/group-a 5, uni-lab/group-b 5, uni-lab/group-c 5, solo-ada/webui 1,"
    " studio-kite/webui 1: restore the stock, or stop instances [stock]\n"
)


def deployment(place: Place, path: str, cluster: str = "eu-1") -> dict[str, object]:
    return load(place.tree(cluster)[path].encode())[0]


# What is committed


def test_the_branches_hold_what_render_writes(place: Place, allot: Allot, tmp_path: Path) -> None:
    result = place.publish()
    assert result.code == 0, result.err
    out = tmp_path / "out"
    assert allot("render", "--repo", place.root, "--out", out, "--as-of", DAY).code == 0
    for cluster in ("eu-1", "us-1"):
        written = {
            path.relative_to(out / cluster).as_posix(): path.read_text(encoding="utf-8")
            for path in (out / cluster).rglob("*.yaml")
        }
        assert place.tree(cluster) == written
        manifest_paths = [path for path in written if not path.endswith("/allotment--marker.rendered.yaml")]
        line = f"{cluster}: {len(manifest_paths)} added, 0 changed, 0 removed: rendered/{cluster} is "
        assert line in result.out
    assert git(place.root, "status", "--porcelain") == ""
    local = git(place.root, "for-each-ref", "--format=%(refname)").split()
    assert [name for name in local if not name.startswith("refs/remotes/origin/")] == ["refs/heads/main"]


def test_a_commit_says_what_it_is_of_in_nobodys_words(place: Place) -> None:
    source = git(place.root, "rev-parse", "HEAD")
    place.publish()
    (message,) = git(place.remote, "log", "--format=%B%x00", "rendered/us-1").split("\0")[:-1]
    assert message.splitlines()[0].startswith("Publish us-1: ")
    assert message.splitlines()[-1] == f"Source-Commit: {source}"
    assert place.log("us-1", "%an <%ae> %cn <%ce>") == [
        "Ada Löwe <ada@northlight.example> allotment <allotment@northlight.example>"
    ]


def test_only_what_changed_is_committed(published: Place) -> None:
    before = published.refs()
    second_publish = published.publish()
    assert (second_publish.code, second_publish.out, published.refs()) == (0, "2 clusters: nothing changed\n", before)
    edit(published.root, WEBUI, *STOPPED)
    result = published.merged()
    after = published.refs()
    assert {name for name in after if after[name] != before[name]} == {
        "refs/allotment/source",
        "refs/allotment/published/eu-1",
        "refs/heads/rendered/eu-1",
    }
    # The accessor follows its user.
    assert result.out.splitlines()[0].startswith("eu-1: 0 added, 2 changed, 0 removed: ")
    assert result.out.splitlines()[1].startswith("Pushed to origin (")
    assert result.out.splitlines()[2] == "1 cluster more: nothing changed"
    assert git(published.remote, "diff", "--name-only", "rendered/eu-1~", "rendered/eu-1").splitlines() == [
        "tenants/solo-ada/compute/allotment--marker.rendered.yaml",
        "tenants/solo-ada/compute/webui.rendered.yaml",
        "tenants/solo-ada/storage/allotment--marker.rendered.yaml",
        "tenants/solo-ada/storage/models.rendered.yaml",
    ]
    (published.root / "README.md").write_text("no declaration\n")
    assert published.merged().out == "2 clusters: nothing changed\n"
    assert published.refs() == {**after, "refs/allotment/source": git(published.root, "rev-parse", "HEAD")}


def test_a_dry_run_says_what_would_be_committed_and_writes_nothing(published: Place) -> None:
    before = published.refs()
    edit(published.root, WEBUI, *STOPPED)
    copy(published.root, "tenants/uni-lab/instances/group-a.yaml", "tenants/uni-lab/instances/group-e.yaml")
    (published.root / "tenants/uni-lab/instances/group-a.yaml").unlink()
    result = published.merged("--dry-run")
    assert result.code == 0, result.err
    # group-a has several copies, and a budget of its own
    assert result.out.splitlines() == [
        "eu-1: 1 added, 3 changed, 1 removed: rendered/eu-1 would be committed",
        "  M control/namespaces/u/uni-lab.rendered.yaml",
        "  M tenants/solo-ada/compute/webui.rendered.yaml",
        "  M tenants/solo-ada/storage/models.rendered.yaml",
        "  D tenants/uni-lab/compute/group-a.rendered.yaml",
        "  A tenants/uni-lab/compute/group-e.rendered.yaml",
        f"To origin ({published.remote}), of {git(published.root, 'rev-parse', 'HEAD')[:12]}",
        "1 cluster more: nothing changed",
    ]
    assert published.refs() == before


def test_another_repository_may_hold_the_branches(place: Place, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "other.git")], check=True)
    assert place.publish("--to", tmp_path / "other.git").code == 0
    assert place.refs() == {}
    assert "refs/heads/rendered/us-1" in git(tmp_path / "other.git", "for-each-ref")
    edit(
        place.root,
        "platform/platform.yaml",
        "    branch: main\n",
        "    branch: main\n    rendered: https://127.0.0.1:1/r\n",
    )
    result = place.merged()
    assert (result.code, result.out) == (2, "")
    assert "'https://127.0.0.1:1/r' doesn't answer" in result.err
    assert place.publish("--to", place.remote).code == 0
    assert "repoURL: https://127.0.0.1:1/r" in place.tree("eu-1")["control/argo/s/solo-ada.rendered.yaml"]


def test_publish_refuses_an_unmerged_commit_except_with_to(published: Place, tmp_path: Path) -> None:
    before = published.refs()
    edit(published.root, WEBUI, *STOPPED)
    git(published.root, "-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-q", "-a", "-m", "By hand")
    commit = git(published.root, "rev-parse", "HEAD")
    result = published.publish()
    assert (result.code, result.out) == (2, "")
    assert f"{commit[:12]} isn't in the branch main of origin" in result.err
    tried = published.publish("--dry-run")
    refusal = f"warning: allot publish will refuse this commit: {commit[:12]} isn't in the branch main of origin"
    assert (tried.code, refusal in tried.err) == (0, True)
    assert published.refs() == before
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "mine.git")], check=True)
    tried = published.publish("--to", tmp_path / "mine.git")
    assert (tried.code, f"Pushed to {tmp_path / 'mine.git'}, of {commit[:12]}\n" in tried.out) == (0, True)
    git(published.root, "push", "-q", "origin", "main")
    done = published.publish()
    assert (done.code, f"Pushed to origin ({published.remote}), of {commit[:12]}\n" in done.out) == (0, True)


@pytest.mark.parametrize("ref", ["--help", "-x", "no-such", "HEAD^{tree}", "a\nb"])
def test_publish_reports_an_unknown_commit(place: Place, ref: str) -> None:
    result = place.publish(f"--commit={ref}")
    assert (result.code, result.out) == (2, "")
    assert "names no commit here" in result.err
    assert place.refs() == {}


# One tenant never stops the others


def test_an_invalid_tenant_keeps_what_it_had_and_the_others_go_on(published: Place) -> None:
    before = published.tree("eu-1")
    edit(published.root, "tenants/solo-ada/instances/webui.yaml", "l4-quarter", "l4-quater")
    edit(published.root, GROUP, *STOP)
    result = published.merged()
    assert result.code == 4
    assert result.out.startswith("eu-1: 0 added, 1 changed, 0 removed: ")
    assert result.err.splitlines() == [
        "retained: tenant solo-ada, 1 problem:",
        "  tenants/solo-ada/instances/webui.yaml:8:12: spec.gpuSpec: no GPUSpec is named 'l4-quater'; did you mean 'l4-quarter'? [reference]",
        "1 tenant retained, 6 published. Correct it and publish again.",
    ]
    after = published.tree("eu-1")
    assert {path for path in after if after[path] != before.get(path)} == {
        f"tenants/uni-lab/compute/{name}.rendered.yaml" for name in ("allotment--marker", "group-a")
    }
    assert published.publish().code == 4
    assert published.tree("eu-1") == after
    edit(published.root, "tenants/solo-ada/instances/webui.yaml", "l4-quater", "l4-quarter")
    assert published.merged().code == 0


def test_publish_prints_json(published: Place) -> None:
    edit(published.root, "tenants/solo-ada/instances/webui.yaml", "l4-quarter", "l4-quater")
    edit(published.root, GROUP, *STOP)
    result = published.merged("-o", "json")
    assert result.code == 4
    output = checked("publish", result.out)
    (cluster_commit,) = output["committed"]
    assert (cluster_commit["cluster"], cluster_commit["branch"], cluster_commit["commit"]) == (
        "eu-1",
        "rendered/eu-1",
        published.refs()["refs/heads/rendered/eu-1"],
    )
    assert (cluster_commit["added"], cluster_commit["changed"], cluster_commit["removed"]) == (
        [],
        ["tenants/uni-lab/compute/group-a.rendered.yaml"],
        [],
    )
    assert output["unchanged"] == ["us-1"]
    assert [(tenant["tenant"], [each["rule"] for each in tenant["problems"]]) for tenant in output["kept"]] == [
        ("solo-ada", ["reference"])
    ]


def test_of_an_invalid_tenant_that_is_new_nothing_is_published(place: Place) -> None:
    edit(place.root, "tenants/solo-ada/instances/webui.yaml", "l4-quarter", "l4-fifth")
    result = place.merged()
    assert result.code == 4
    assert not [path for path in place.tree("eu-1") if "solo-ada" in path]
    assert "tenants/uni-lab/compute/group-a.rendered.yaml" in place.tree("eu-1")


def test_publish_refuses_an_invalid_platform(published: Place) -> None:
    before = published.refs()
    edit(published.root, "platform/specs/l4-quarter.yaml", "gpu:\n", "gpus:\n")
    edit(published.root, WEBUI, *STOPPED)
    result = published.merged()
    assert (result.code, result.out, published.refs()) == (1, "", before)
    assert "platform/specs/l4-quarter.yaml:" in result.err
    (published.root / "platform/platform.yaml").write_text("kind: [\n")
    result = published.merged()
    assert (result.code, published.refs()) == (2, before)
    assert "the default branch of 'origin' has no readable platform/platform.yaml in this folder" in result.err


def test_a_folder_of_clusters_without_a_file_is_named(published: Place) -> None:
    before = published.refs()
    (published.root / "clusters/new").mkdir()
    (published.root / "clusters/new/link.yaml").symlink_to("/etc/passwd")
    result = published.merged()
    assert (result.code, published.refs()) == (1, before)
    assert "clusters/new/link.yaml:1:1: " in result.err


def test_of_a_new_cluster_that_is_invalid_nothing_is_published(published: Place) -> None:
    before = published.refs()
    (published.root / "clusters/new").mkdir()
    (published.root / "clusters/new/cluster.yaml").write_text("kind: []\n")
    result = published.merged()
    assert result.code == 4, result.err
    assert {name for name in published.refs() if "new" in name} == set()
    assert published.refs().keys() - before.keys() == {"refs/allotment/retained"}


def test_a_fault_of_two_clusters_retains_both(published: Place) -> None:
    before = published.tree("eu-1"), published.tree("us-1")
    edit(published.root, "clusters/eu-1/cluster.yaml", "domain: eu-1", "domain: us-1")
    edit(published.root, WEBUI, *STOPPED)
    result = published.merged()
    assert result.code == 4
    assert re.findall(r"retained: cluster (\S+),", result.err) == ["eu-1", "us-1"]
    assert "[domain]" in result.err
    assert (published.tree("eu-1"), published.tree("us-1")) == before


def test_a_link_in_a_tenants_folder_is_that_tenants_problem(published: Place) -> None:
    before = published.tree("eu-1")
    (published.root / "tenants/solo-ada/instances/passwd.yaml").symlink_to("/etc/passwd")
    (published.root / "tenants/stray.yaml").write_text("kind: Tenant\n")
    edit(published.root, GROUP, *STOP)
    result = published.merged()
    assert result.code == 4
    assert "retained: tenant solo-ada, 1 problem:" in result.err
    assert "tenants/solo-ada/instances/passwd.yaml:1:1: (file): is a symbolic link" in result.err
    assert (
        published.tree("eu-1")["tenants/uni-lab/compute/group-a.rendered.yaml"]
        != before["tenants/uni-lab/compute/group-a.rendered.yaml"]
    )
    assert {path for path in published.tree("eu-1") if "solo-ada" in path} == {
        path for path in before if "solo-ada" in path
    }


def test_a_folders_name_does_nothing_to_a_terminal(place: Place) -> None:
    (place.root / "tenants/evil\x1b[31m").mkdir()
    (place.root / "tenants/evil\x1b[31m/tenant.yaml").write_text("kind: Tenant\n")
    result = place.merged()
    assert result.code == 4
    assert "\x1b" not in result.err + result.out
    assert "retained: tenant evil\\x1b[31m" in result.err


def test_publish_removes_disallowed_objects_of_a_retained_tenant(published: Place) -> None:
    edit(published.root, WEBUI, "l4-quarter", "l4-fifth")
    edit(published.root, "clusters/eu-1/cluster.yaml", "domain: eu-1.gpu.", "domain: eu-9.gpu.")
    result = published.merged()
    assert result.code == 4
    manifests = load(published.tree("eu-1")["tenants/solo-ada/compute/webui.rendered.yaml"].encode())
    assert "HTTPRoute" not in [manifest["kind"] for manifest in manifests]
    assert "Deployment" in [manifest["kind"] for manifest in manifests]
    assert "these published objects are no longer allowed in the cluster, and are removed" in result.err


def test_a_cluster_that_is_removed_while_an_add_on_names_it_stops_nobody(published: Place) -> None:
    before = published.tree("us-1")
    shutil.rmtree(published.root / "clusters/us-1")
    edit(published.root, WEBUI, *STOPPED)
    result = published.merged()
    assert result.code == 4
    assert "platform/add-ons/karpenter.yaml:16:7: spec.clusters[0]: no Cluster is named 'us-1'" in result.err
    assert sorted(re.findall(r"retained: tenant (\S+),", result.err)) == ["acme-robotics", "ml-orbit"]
    assert "  replicas: 0\n" in published.tree("eu-1")["tenants/solo-ada/compute/webui.rendered.yaml"]
    assert published.tree("us-1") == before


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("clusters/us-1/stocks/l40s-spot.yaml", "gpuSpec: l40s-spot", "gpuSpec: nothing"),
        ("clusters/us-1/cluster.yaml", "kind: Cluster", "kind: []"),
        ("clusters/us-1/cluster.yaml", "spec:", "spec: 3\nx:"),
    ],
)
def test_a_fault_of_a_cluster_retains_that_cluster_and_its_tenants_alone(
    published: Place, path: str, old: str, new: str
) -> None:
    before = published.tree("us-1")
    edit(published.root, path, old, new)
    edit(published.root, WEBUI, *STOPPED)
    edit(published.root, "tenants/ml-orbit/instances/chat.yaml", "spec:\n", "spec:\n  displayName: New\n")
    result = published.merged()
    assert result.code == 4, result.err
    assert "retained: cluster us-1, " in result.err
    assert f"{path}:" in result.err
    assert "tenants/ml-orbit:1:1: (file): cluster us-1 is invalid: " in result.err
    assert "  replicas: 0\n" in published.tree("eu-1")["tenants/solo-ada/compute/webui.rendered.yaml"]
    assert published.tree("us-1") == before
    edit(published.root, path, new, old)
    assert published.merged().code == 0
    assert published.tree("us-1") != before


# Units


def another(place: Place, name: str) -> None:
    """Declare one more instance of uni-lab, on a quarter."""
    path = f"tenants/uni-lab/instances/{name}.yaml"
    copy(place.root, "tenants/uni-lab/instances/group-a.yaml", path)
    edit(place.root, path, "replicas: 5", "replicas: 1")


def unlimited(place: Place) -> None:
    """Let uni-lab have as many as it wants."""
    edit(place.root, "tenants/uni-lab/tenant.yaml", "nvidia-l4: 6", "nvidia-l4: 50")


def room(place: Place, units: int) -> None:
    """Leave so many quarters in eu-1 beside those that run."""
    held = sum(
        int(manifest["metadata"].get("annotations", {}).get("allotment.dev/units", 0))
        for path, text in place.tree("eu-1").items()
        if "/compute/" in path
        for manifest in load(text.encode())
        if manifest["metadata"].get("labels", {}).get("allotment.dev/gpu-spec") == "l4-quarter"
    )
    file = place.root / "clusters/eu-1/stocks/l4-quarter.yaml"
    lines = [line if "count:" not in line else f"  count: {held + units}" for line in file.read_text().splitlines()]
    file.write_text("\n".join(line for line in lines if "warm:" not in line) + "\n")


def test_publish_serves_published_instances_before_newcomers(published: Place) -> None:
    room(published, 1)
    assert published.merged().code == 0
    unlimited(published)
    another(published, "aaa-first")  # two pull requests, each fine alone
    another(published, "zzz-second")
    result = published.merged()
    assert result.err.splitlines() == [
        "waits: uni-lab/zzz-second: gets 0 of 1 units of l4-quarter on eu-1, other instances hold the rest"
    ]
    assert result.code == 0
    first, second = (f"tenants/uni-lab/compute/{name}.rendered.yaml" for name in ("aaa-first", "zzz-second"))
    assert deployment(published, first)["metadata"]["annotations"]["allotment.dev/units"] == "1"
    waiting = deployment(published, second)
    assert waiting["spec"]["replicas"] == 0
    noted = waiting["metadata"]["annotations"]
    assert (noted["allotment.dev/units"], noted["allotment.dev/waits-reason"]) == ("0", "NoFreeUnit")
    words = "1 unit of l4-quarter on eu-1: none is free; preparation of storage course"
    assert noted["allotment.dev/waits-for"] == words
    assert published.publish().err == result.err
    another(published, "aaa-before")
    (published.root / "tenants/uni-lab/instances/group-b.yaml").unlink()
    edit(published.root, "tenants/uni-lab/instances/aaa-before.yaml", "replicas: 1", "replicas: 5")
    result = published.merged()
    assert deployment(published, second)["metadata"]["annotations"]["allotment.dev/units"] == "1", "who waited longer"
    assert [line.split(":")[1] for line in result.err.splitlines()] == [" uni-lab/aaa-before"]
    assert "gets 4 of 5 units" in result.err


def test_units_stay_held_while_pods_of_a_stopped_instance_were_seen_to_run(published: Place) -> None:
    """A frozen Application stops nothing: Git alone frees no unit where a reporter says who runs."""
    room(published, 0)
    unlimited(published)
    assert published.merged().err == "", "all units are held"
    runs = Instance("group-a", "b", "Running", "ProbesAnswered", gpu_spec="l4-quarter", units=5, pods=5)
    published.report("eu-1", TenantStatus("uni-lab", "eu-1", instances=(runs,)))
    another(published, "newcomer")
    edit(published.root, GROUP, *STOP)
    result = published.merged()
    assert result.err.splitlines() == [
        "waits: uni-lab/newcomer: gets 0 of 1 units of l4-quarter on eu-1, other instances hold the rest",
        "holds: eu-1: instance uni-lab/group-a: its pods still run and hold 5 units of l4-quarter, according to the status of"
        " 2026-11-21T12:00:00Z",
    ]
    assert deployment(published, "tenants/uni-lab/compute/group-a.rendered.yaml")["spec"]["replicas"] == 0
    free = deployment(published, "platform/stock/l4-quarter.rendered.yaml")["spec"]["replicas"]
    stopped = runs.__class__("group-a", "b", "Stopped", "StoppedAsDeclared", gpu_spec="l4-quarter")
    published.report("eu-1", TenantStatus("uni-lab", "eu-1", instances=(stopped,)))
    assert published.publish().err == ""
    newcomer = deployment(published, "tenants/uni-lab/compute/newcomer.rendered.yaml")
    assert newcomer["metadata"]["annotations"]["allotment.dev/units"] == "1"
    after = deployment(published, "platform/stock/l4-quarter.rendered.yaml")["spec"]["replicas"]
    assert after - free == 5, "no placeholder took what ran"


def test_publish_reserves_units_for_a_restart_while_old_pods_run(published: Place) -> None:
    room(published, 0)
    unlimited(published)
    runs = Instance("group-a", "b", "Running", "ProbesAnswered", gpu_spec="l4-quarter", units=5, pods=5)
    published.report("eu-1", TenantStatus("uni-lab", "eu-1", instances=(runs,)))
    another(published, "aaa-newcomer")
    edit(published.root, GROUP, *STOP)
    published.merged()
    edit(published.root, GROUP, *reversed(STOP))
    lines = published.merged().err.splitlines()
    assert [line for line in lines if line.startswith("waits")] == [
        "waits: uni-lab/aaa-newcomer: gets 0 of 1 units of l4-quarter on eu-1, other instances hold the rest"
    ]
    restarted_deployment = deployment(published, "tenants/uni-lab/compute/group-a.rendered.yaml")
    assert restarted_deployment["metadata"]["annotations"]["allotment.dev/units"] == "5"


def seen(name: str, pods: int) -> Instance:
    return Instance(name, "b", "Running", "ProbesAnswered", gpu_spec="l4-quarter", units=pods, pods=pods)


@pytest.mark.parametrize("tenant", ["uni-lab", "nobody-has-it"])
def test_a_forged_status_takes_no_units_of_others(published: Place, tenant: str) -> None:
    """Pods count for an instance that was published, and at most for its published units."""
    room(published, 2)
    unlimited(published)
    assert published.merged().err == ""
    forged = (seen("group-a", 100_000), seen("never-declared", 100_000), seen("zzz-newcomer", 100_000))
    published.report("eu-1", TenantStatus(tenant, "eu-1", instances=forged))
    another(published, "aaa-newcomer")
    another(published, "zzz-newcomer")
    result = published.merged()
    assert (result.code, "waits:" in result.err) == (0, False), "two units are free, and both newcomers get theirs"
    assert "100,000" not in result.err
    assert "100000" not in result.err
    another(published, "bbb-newcomer")
    waits = [line for line in published.merged().err.splitlines() if line.startswith("waits:")]
    assert waits == [
        "waits: uni-lab/bbb-newcomer: gets 0 of 1 units of l4-quarter on eu-1, other instances hold the rest"
    ]


@pytest.mark.parametrize("name", ["../../../../x", "a\0b", "x" * 200_000, "--all", "a b", ":(exclude)x", ""])
def test_a_name_of_a_forged_status_reaches_no_command(published: Place, name: str) -> None:
    forged = {"tenants/uni-lab.yaml": dump_status(TenantStatus("uni-lab", "eu-1", instances=(seen(name, 1),)))}
    published.report("eu-1", also=forged)
    edit(published.root, WEBUI, *STOPPED)
    result = published.merged()
    assert result.code == 0, result.err[-500:]
    assert "  replicas: 0\n" in published.tree("eu-1")["tenants/solo-ada/compute/webui.rendered.yaml"]


def test_a_foreign_commit_on_the_branch_is_no_version_of_an_instance(published: Place, tmp_path: Path) -> None:
    """The removal is published on top of a commit that somebody pushed, whose file is no instance and claims units."""
    room(published, 0)
    unlimited(published)
    published.merged()
    text = published.tree("eu-1")["tenants/uni-lab/compute/group-a.rendered.yaml"]
    push_foreign(published, tmp_path, "tenants/uni-lab/compute/group-a.rendered.yaml", "]\n")
    published.report("eu-1", TenantStatus("uni-lab", "eu-1", instances=(seen("group-a", 100_000),)))
    another(published, "newcomer")
    (published.root / GROUP).unlink()
    published.merged()
    result = published.publish()
    assert result.code == 0, result.err
    assert "hold 5 units" in result.err
    assert 'allotment.dev/units: "5"' in text


def test_units_stay_held_while_pods_of_a_removed_instance_run_but_no_more_than_it_had(published: Place) -> None:
    room(published, 0)
    unlimited(published)
    published.merged()
    published.report("eu-1", TenantStatus("uni-lab", "eu-1", instances=(seen("group-a", 100_000),)))
    another(published, "newcomer")
    (published.root / GROUP).unlink()
    result = published.merged()
    assert "waits: uni-lab/newcomer: gets 0 of 1 units" in result.err
    assert "instance uni-lab/group-a: its pods still run and hold 5 units of l4-quarter" in result.err
    assert "hold 5 units" in published.publish().err, "also once the removal is published"


def test_one_that_grows_keeps_what_it_had(published: Place) -> None:
    room(published, 1)
    unlimited(published)
    edit(published.root, "tenants/uni-lab/instances/group-a.yaml", "replicas: 5", "replicas: 8")
    result = published.merged()
    assert "gets 6 of 8 units" in result.err
    grown = deployment(published, "tenants/uni-lab/compute/group-a.rendered.yaml")
    assert grown["metadata"]["annotations"]["allotment.dev/units"] == "6"
    assert published.publish().out == "2 clusters: nothing changed\n"


GROWN = ("gpuSpec: l4-quarter", "gpuSpec: l4-whole")
KEEPS = "keeps 1 unit of l4-quarter on eu-1, as published, until 1 unit of l4-whole is free"
WEBUI_FILE = "tenants/solo-ada/compute/webui.rendered.yaml"
COUNT_OF_WHOLE = ("count: 5", "count: 1")  # studio-kite holds one beyond its own stock


def retained_webui(before: str, words: str = KEEPS) -> str:
    """Return the published file of an instance that keeps its unit: nothing but what it waits for is said anew."""
    lines = f'    allotment.dev/waits-for: "{words}"\n    allotment.dev/waits-reason: ResizePending\n'
    units = '    allotment.dev/units: "1"\n'
    assert before.count(units) == 1
    return before.replace(units, units + lines)


def replicas_of_stock(place: Place, stock: str) -> int:
    """Return the number of placeholders of a stock in eu-1."""
    count = deployment(place, f"platform/stock/{stock}.rendered.yaml")["spec"]["replicas"]
    assert isinstance(count, int)
    return count


def test_an_instance_keeps_running_at_its_old_size_until_a_unit_of_the_new_is_free(published: Place) -> None:
    whole = "clusters/eu-1/stocks/l4-whole.yaml"
    edit(published.root, whole, *COUNT_OF_WHOLE)
    assert published.merged().err == ""
    before = published.tree("eu-1")[WEBUI_FILE]
    warm = replicas_of_stock(published, "l4-quarter"), replicas_of_stock(published, "l4-whole")
    edit(published.root, "tenants/solo-ada/tenant.yaml", "plan: starter", "plan: team")
    edit(published.root, WEBUI, *GROWN)
    edit(published.root, WEBUI, "spec:\n", "spec:\n  container:\n    env:\n      - name: NEW\n        value: x\n")
    result = published.merged()
    assert (result.code, result.err) == (0, f"waits: solo-ada/webui: {KEEPS}\n")
    assert published.tree("eu-1")[WEBUI_FILE] == retained_webui(before), "also the environment waits"
    old_deployment = deployment(published, WEBUI_FILE)
    assert (old_deployment["metadata"]["labels"]["allotment.dev/gpu-spec"], old_deployment["spec"]["replicas"]) == (
        "l4-quarter",
        1,
    )
    resources = old_deployment["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert resources["limits"]["nvidia.com/gpu.shared"] == "1"
    assert (replicas_of_stock(published, "l4-quarter"), replicas_of_stock(published, "l4-whole")) == warm
    assert published.publish().out == "2 clusters: nothing changed\n"
    assert published.publish().err == result.err
    edit(published.root, whole, *reversed(("count: 2", "count: 1")))
    assert published.merged().err == ""
    grown = deployment(published, WEBUI_FILE)
    assert (grown["metadata"]["labels"]["allotment.dev/gpu-spec"], grown["spec"]["replicas"]) == ("l4-whole", 1)
    assert "allotment.dev/waits-for" not in grown["metadata"]["annotations"]


def test_a_member_who_leaves_loses_access_while_a_resize_waits(published: Place) -> None:
    edit(published.root, "clusters/eu-1/stocks/l4-whole.yaml", *COUNT_OF_WHOLE)
    published.merged()
    before = published.tree("eu-1")[WEBUI_FILE]
    assert "00u1ada" in before
    edit(published.root, "tenants/solo-ada/tenant.yaml", "plan: starter", "plan: team")
    edit(published.root, WEBUI, *GROWN)
    edit(published.root, "tenants/solo-ada/members.yaml", "subject: 00u1ada", "subject: 00u2eve")
    assert "waits: solo-ada/webui: keeps" in published.merged().err
    after = published.tree("eu-1")[WEBUI_FILE]
    assert after == retained_webui(before).replace("00u1ada", "00u2eve")


def test_a_resize_that_waits_and_is_taken_back_leaves_no_trace(published: Place) -> None:
    edit(published.root, "clusters/eu-1/stocks/l4-whole.yaml", *COUNT_OF_WHOLE)
    published.merged()
    before = published.tree("eu-1")
    edit(published.root, "tenants/solo-ada/tenant.yaml", "plan: starter", "plan: team")
    edit(published.root, WEBUI, *GROWN)
    assert "waits: solo-ada/webui: keeps" in published.merged().err
    edit(published.root, WEBUI, *reversed(GROWN))
    assert published.merged().err == ""
    assert published.tree("eu-1")[WEBUI_FILE] == before[WEBUI_FILE]


MODELS = "tenants/solo-ada/storages/models.yaml"
MOUNT = "  storages:\n    - name: models\n      mountPath: /workspace\n"
GETS_NONE = "waits: solo-ada/webui: gets 0 of 1 units of l4-whole on eu-1, other instances hold the rest"
CATALOG_APP = "platform/apps/stable-diffusion-webui.yaml"


def no_whole_unit(place: Place) -> None:
    """Leave no unit of l4-whole to solo-ada, whose plan allows a unit."""
    edit(place.root, "clusters/eu-1/stocks/l4-whole.yaml", *COUNT_OF_WHOLE)
    edit(place.root, "tenants/solo-ada/tenant.yaml", "plan: starter", "plan: team")


def test_a_revoked_image_stops_although_a_resize_waits(published: Place) -> None:
    no_whole_unit(published)
    edit(published.root, WEBUI, "1.11.0", "1.10.1")
    assert published.merged().err.splitlines() == []
    edit(published.root, WEBUI, "1.10.1", "1.11.0")
    edit(published.root, WEBUI, *GROWN)
    assert published.merged().err == f"waits: solo-ada/webui: {KEEPS}\n"
    running = deployment(published, WEBUI_FILE)["spec"]
    assert (running["replicas"], ":1.10.1@" in str(running)) == (1, True)
    edit(published.root, CATALOG_APP, "lifecycle: Deprecated", "lifecycle: Revoked")
    assert GETS_NONE in published.merged().err.splitlines()
    stopped = deployment(published, WEBUI_FILE)["spec"]
    assert (stopped["replicas"], ":1.10.1@" in str(stopped)) == (0, False)


def test_a_storage_that_a_resize_gives_up_is_not_mounted_twice(published: Place) -> None:
    no_whole_unit(published)
    published.merged()
    copy(published.root, WEBUI, "tenants/solo-ada/instances/second.yaml")
    edit(published.root, WEBUI, *GROWN)
    edit(published.root, WEBUI, MOUNT, "")
    assert published.merged().err == f"{GETS_NONE}\n"
    files = {
        name: deployment(published, f"tenants/solo-ada/compute/{name}.rendered.yaml") for name in ("webui", "second")
    }
    mounting = [
        name
        for name, manifest in files.items()
        if "claimName': 'models'" in str(manifest) and manifest["spec"]["replicas"]
    ]
    assert mounting == ["second"]


def test_a_storage_that_leaves_is_not_mounted_while_a_resize_waits(published: Place) -> None:
    no_whole_unit(published)
    published.merged()
    edit(published.root, WEBUI, *GROWN)
    assert published.merged().err == f"waits: solo-ada/webui: {KEEPS}\n"
    edit(published.root, WEBUI, MOUNT, "")
    edit(published.root, MODELS, "spec:\n", "spec:\n  deletionPolicy: Delete\n")
    assert published.merged().err == f"{GETS_NONE}\n"
    (published.root / MODELS).unlink()
    assert GETS_NONE in published.merged().err.splitlines()
    stopped = deployment(published, WEBUI_FILE)
    assert (stopped["spec"]["replicas"], "claimName': 'models'" in str(stopped)) == (0, False)


def test_a_unit_that_a_resize_keeps_is_nobody_elses(published: Place) -> None:
    edit(published.root, "clusters/eu-1/stocks/l4-whole.yaml", *COUNT_OF_WHOLE)
    room(published, 0)
    unlimited(published)
    published.merged()
    edit(published.root, "tenants/solo-ada/tenant.yaml", "plan: starter", "plan: team")
    edit(published.root, WEBUI, *GROWN)
    another(published, "newcomer")
    assert published.merged().err.splitlines() == [
        f"waits: solo-ada/webui: {KEEPS}",
        "waits: uni-lab/newcomer: gets 0 of 1 units of l4-quarter on eu-1, other instances hold the rest",
    ]
    assert deployment(published, WEBUI_FILE)["spec"]["replicas"] == 1


def test_a_stock_below_what_is_held_stops_nobody_and_is_told(published: Place) -> None:
    before = published.tree("eu-1")
    room(published, -2)
    result = published.merged()
    assert (result.code, result.err) == (0, OVERSOLD)
    after = published.tree("eu-1")
    assert {path for path in after if after[path] != before[path]} == {
        f"platform/stock/{name}.rendered.yaml" for name in ("allotment--marker", "l4-quarter")
    }
    assert published.publish().err == OVERSOLD, "as long as it is so"
    unlimited(published)
    another(published, "newcomer")
    waits = "waits: uni-lab/newcomer: gets 0 of 1 units of l4-quarter on eu-1, other instances hold the rest\n"
    assert published.merged().err == OVERSOLD + waits, "who waits holds nothing"
    edit(published.root, GROUP, "replicas: 5", "replicas: 3")
    assert published.merged().err == waits, "two were given back"


def test_a_cordon_stops_nobody_and_lets_no_newcomer_start(published: Place) -> None:
    before = published.tree("eu-1")
    cordon = published.root / "clusters/eu-1/cordons/driver.yaml"
    cordon.write_text(CORDON)
    result = published.merged()
    assert (result.code, "retained" in result.err) == (0, False)
    after = published.tree("eu-1")
    stock = "platform/stock/l4-quarter.rendered.yaml"
    assert {path for path in after if after[path] != before[path] and "marker" not in path} == {stock}
    placeholders = deployment(published, stock)
    assert (placeholders["spec"]["replicas"], placeholders["metadata"]["annotations"]["allotment.dev/units"]) == (
        0,
        "0",
    )
    unlimited(published)
    another(published, "newcomer")
    waits = "waits: uni-lab/newcomer: gets 0 of 1 units of l4-quarter on eu-1, other instances hold the rest"
    assert waits in published.merged().err
    cordon.unlink()
    assert "waits" not in published.merged().err
    newcomer = deployment(published, "tenants/uni-lab/compute/newcomer.rendered.yaml")
    assert newcomer["metadata"]["annotations"]["allotment.dev/units"] == "1"


def test_a_stock_that_is_gone_is_told_with_those_who_hold_its_units(published: Place) -> None:
    (published.root / "clusters/us-1/stocks/l40s-spot.yaml").unlink()
    result = published.merged()
    assert result.code == 4, "its tenants are invalid"
    assert result.err.splitlines()[0] == (
        "warning: clusters/us-1/cluster.yaml:2:1: (file): 6 units of l40s-spot are held in us-1, 6 more than"
        " its stock (0 shared); held by acme-robotics/simulate 6: restore the stock, or stop instances [stock]"
    )
    assert "retained: tenant acme-robotics" in result.err


def test_a_kept_tenant_keeps_its_units_too(published: Place) -> None:
    room(published, 0)
    edit(published.root, WEBUI, "1.11.0", "0.0.0")
    unlimited(published)
    another(published, "newcomer")
    result = published.merged()
    assert "waits: uni-lab/newcomer: gets 0 of 1 units" in result.err
    assert deployment(published, "tenants/solo-ada/compute/webui.rendered.yaml")["spec"]["replicas"] == 1


# Deletion


@pytest.mark.parametrize("way", ["removed", "renamed", "moved", "tenant removed", "tenant renamed", "all removed"])
def test_nothing_that_holds_data_goes_in_one_merge(place: Place, way: str) -> None:
    place.publish(hours_ago=30)
    before = {cluster: place.tree(cluster) for cluster in ("eu-1", "us-1")}
    storages, tenants = place.root / "tenants/film-house/storages", place.root / "tenants"
    if way == "removed":
        (storages / "loras.yaml").unlink()
        for instance in (place.root / "tenants/film-house/instances").iterdir():
            instance.unlink()
    elif way == "renamed":
        copy(place.root, "tenants/film-house/storages/loras.yaml", "tenants/film-house/storages/lores.yaml")
        (storages / "loras.yaml").unlink()
    elif way == "moved":
        for path in (place.root / "tenants/film-house").rglob("*.yaml"):
            path.write_text(path.read_text().replace("cluster: eu-1", "cluster: us-1"))
    elif way == "tenant removed":
        shutil.rmtree(tenants / "film-house")
    elif way == "tenant renamed":
        (tenants / "film-house").rename(tenants / "film-hut")
        for name in ("tenant", "members"):
            edit(place.root, f"tenants/film-hut/{name}.yaml", "name: film-house", "name: film-hut")
    else:
        shutil.rmtree(tenants)
        tenants.mkdir()
    for _ in range(2):  # the second look must not take the first for what was there before
        result = place.merged(hours_ago=0)
        assert result.code == 4
        assert "retained: tenant film-house" in result.err
        for cluster, tree in before.items():
            after = place.tree(cluster)
            lost = {path for path in tree if "film-house" in path and after.get(path) != tree[path]}
            assert lost == set(), result.err
            gone = {path for path in tree if "/storage/" in path and path not in after}
            assert gone == set()


def test_a_cluster_that_went_missing_keeps_its_branch(published: Place) -> None:
    before, refs = published.tree("eu-1"), published.refs()
    shutil.rmtree(published.root / "clusters/us-1")
    (
        published.root / "platform/add-ons/karpenter.yaml"
    ).unlink()  # names the cluster: validation alone would refuse that
    result = published.merged()
    assert result.code == 4
    assert "retained: tenant acme-robotics" in result.err
    assert published.refs()["refs/heads/rendered/us-1"] == refs["refs/heads/rendered/us-1"]
    assert published.tree("eu-1") == before


MARKED, HOUR_LATER = "2026-11-21T08:00:00Z", "2026-11-21T09:00:00Z"


def test_a_marked_storage_goes_in_steps(place: Place) -> None:
    path, leaving = (f"tenants/acme-robotics/storage/old-frames{more}.rendered.yaml" for more in ("", "--leaving"))
    place.publish()
    volume = deployment(place, path, "us-1")
    assert volume["metadata"]["annotations"]["allotment.dev/protected"] == "true"
    place.synced("us-1", "acme-robotics", marked=MARKED, observed=HOUR_LATER)
    (place.root / "tenants/acme-robotics/storages/old-frames.yaml").unlink()
    result = place.merged()
    steps = "no longer protected; it is removed after the status confirms that"
    assert result.err == f"leaving: us-1: storage acme-robotics/old-frames: {steps}\n"
    assert path not in place.tree("us-1")
    (free,) = load(place.tree("us-1")[leaving].encode())
    assert free["metadata"]["annotations"] == {
        "allotment.dev/declared-blob": volume["metadata"]["annotations"]["allotment.dev/declared-blob"],
        "allotment.dev/deletion-policy": "Delete",
        "allotment.dev/protected": "false",
    }
    assert free["spec"] == volume["spec"]
    assert place.publish().err == result.err, "the cluster still has it protected"
    assert leaving in place.tree("us-1")
    place.synced("us-1", "acme-robotics", marked=MARKED, observed=HOUR_LATER)
    assert place.publish().code == 0
    assert leaving not in place.tree("us-1")
    assert place.publish().err == ""


@pytest.mark.parametrize(
    ("observed", "hours_ago"),
    [("2026-11-21T08:59:59Z", 0), ("2026-11-21T08:59:59Z", 48), ("2026-11-21T08:59:59Z", -48), ("", 48)],
)
def test_the_two_merges_lie_an_hour_apart_by_the_clusters_clock_whatever_ours_says(
    place: Place, observed: str, hours_ago: float
) -> None:
    leaving = "tenants/acme-robotics/storage/old-frames--leaving.rendered.yaml"
    place.publish(hours_ago=hours_ago)
    if observed:
        place.synced("us-1", "acme-robotics", marked=MARKED, observed=observed)
    (place.root / "tenants/acme-robotics/storages/old-frames.yaml").unlink()
    result = place.merged()
    words = "kept until the status shows that it has been marked for 1h"
    unknown = "" if observed else "; no reporter watches this cluster, so nothing is removed"
    assert result.err == f"leaving: us-1: storage acme-robotics/old-frames: {words}{unknown}\n"
    assert deployment(place, leaving, "us-1")["metadata"]["annotations"]["allotment.dev/protected"] == "true"
    before = place.refs()
    assert place.publish(hours_ago=-9).code == 0
    assert place.refs() == before


@pytest.mark.parametrize(
    "time", ["soon", "2026-11-21", "2026-11-21T08:00:00", "0001-01-01T00:00:00Z", "1999-01-01T00:00:00Z", ""]
)
def test_a_time_that_is_none_makes_nothing_go_and_stops_nobody(published: Place, time: str) -> None:
    published.synced("us-1", "acme-robotics", marked=time, observed=MARKED)
    (published.root / "tenants/acme-robotics/storages/old-frames.yaml").unlink()
    result = published.merged()
    assert result.code == 0
    assert ("no longer protected" in result.err) == time.startswith("1999"), "a year long ago is a time"
    published.synced("us-1", "acme-robotics", marked=MARKED, observed="whenever")
    assert published.publish().code == 0


def test_a_status_of_another_version_makes_nothing_go(place: Place) -> None:
    leaving = "tenants/acme-robotics/storage/old-frames--leaving.rendered.yaml"
    place.publish()
    place.synced("us-1", "acme-robotics", marked=MARKED, observed=HOUR_LATER)
    (place.root / "tenants/acme-robotics/storages/old-frames.yaml").unlink()
    place.merged()
    assert deployment(place, leaving, "us-1")["metadata"]["annotations"]["allotment.dev/protected"] == "false"
    place.report("us-1", observed=HOUR_LATER, also={"tenants/acme-robotics.yaml": b"kind: TenantStatus\nversion: 9\n"})
    result = place.publish()
    assert result.err.endswith(
        "no longer protected; it is removed after the status confirms that; no reporter watches this cluster, so nothing is removed\n"
    )
    assert leaving in place.tree("us-1")


def test_how_far_apart_they_lie_is_declared(place: Place) -> None:
    edit(place.root, "platform/platform.yaml", "  images:\n", "  deletion:\n    after: 168h\n  images:\n")
    place.merged()
    place.synced("us-1", "acme-robotics", marked=MARKED, observed="2026-11-28T07:59:59Z")
    (place.root / "tenants/acme-robotics/storages/old-frames.yaml").unlink()
    assert "kept until the status shows that it has been marked for 168h" in place.merged().err
    place.synced("us-1", "acme-robotics", marked=MARKED, observed="2026-11-28T08:00:00Z")
    assert "no longer protected" in place.publish().err


def test_a_storage_that_is_declared_again_is_protected_again(place: Place) -> None:
    path = "tenants/acme-robotics/storages/old-frames.yaml"
    text = (place.root / path).read_text()
    place.publish()
    place.synced("us-1", "acme-robotics", marked=MARKED, observed=HOUR_LATER)
    before = place.tree("us-1")
    (place.root / path).unlink()
    place.merged()
    assert place.tree("us-1") != before
    (place.root / path).write_text(text)
    assert place.merged().code == 0
    assert place.tree("us-1") == before


def test_publish_refuses_to_shrink_a_storage_that_leaves(place: Place) -> None:
    path = "tenants/acme-robotics/storages/old-frames.yaml"
    text = (place.root / path).read_text()
    place.publish()
    place.synced("us-1", "acme-robotics", marked=MARKED, observed=HOUR_LATER)
    (place.root / path).unlink()
    place.merged()
    (place.root / path).write_text(text.replace("1Ti", "60Gi"))
    result = place.merged()
    assert result.code == 4
    assert "60Gi is less than the current 1Ti" in result.err
    assert "tenants/acme-robotics/storage/old-frames--leaving.rendered.yaml" in place.tree("us-1")


def test_a_retired_tenant_goes_after_all_it_had(place: Place, allot: Allot) -> None:
    def parts() -> set[str]:
        return {path for path in place.tree("us-1") if "acme-robotics" in path}

    def seen() -> None:
        place.synced("us-1", "acme-robotics", marked=MARKED, observed=HOUR_LATER)

    edit(place.root, "tenants/acme-robotics/tenant.yaml", "spec:\n", "spec:\n  lifecycle: Retired\n")
    edit(place.root, "tenants/acme-robotics/storages/frames.yaml", "spec:\n", "spec:\n  deletionPolicy: Delete\n")
    place.merged()
    seen()
    folder = "tenants/acme-robotics"
    shutil.rmtree(place.root / folder)
    place.merged()
    control = {"control/argo/a/acme-robotics.rendered.yaml", "control/namespaces/a/acme-robotics.rendered.yaml"}
    markers = {f"{folder}/{part}/allotment--leaving.rendered.yaml" for part in ("storage", "compute")}
    volumes = {f"{folder}/storage/{name}--leaving.rendered.yaml" for name in ("frames", "old-frames")}
    assert parts() == control | markers | volumes
    place.publish()
    assert parts() == control | markers | volumes, "nothing of it was seen yet"
    status = allot("status", "acme-robotics", "--repo", place.root)
    assert status.code == 0, status.err
    assert "acme-robotics/frames" in status.out
    assert "acme-robotics/allotment " not in status.out, "a marker of a folder is no resource"
    seen()
    place.publish()
    assert parts() == control | markers
    place.publish()
    assert parts() == control | markers, "the volumes were seen last"
    seen()
    place.publish()
    assert parts() == {"control/namespaces/a/acme-robotics.rendered.yaml"}
    released = load(place.tree("us-1")["control/namespaces/a/acme-robotics.rendered.yaml"].encode())
    assert all("argocd.argoproj.io/sync-options" not in manifest["metadata"]["annotations"] for manifest in released)
    place.publish()
    assert parts() == {"control/namespaces/a/acme-robotics.rendered.yaml"}
    seen()
    result = place.publish()
    assert (parts(), result.err) == (set(), "")
    assert "control/tenants-a.rendered.yaml" in place.tree("us-1"), "a letter's shard stays"


def test_a_volume_never_shrinks_whatever_was_merged(published: Place) -> None:
    edit(published.root, "tenants/film-house/storages/loras.yaml", "300Gi", "100Gi")
    for _ in range(2):
        result = published.merged()
        assert result.code == 4
        assert (
            "tenants/film-house/storages/loras.yaml:11:9: spec.size: 100Gi is less than the current 300Gi" in result.err
        )
        assert "storage: 300Gi" in published.tree("eu-1")["tenants/film-house/storage/loras.rendered.yaml"]


def test_a_tenant_that_the_gate_stops_is_kept_and_the_others_are_published(
    published: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = published.tree("eu-1")

    def judge(_: Entitlements, text: str) -> Iterator[str]:
        wrong = "namespace: t-solo-ada" in text and "kind: Service\n" in text
        yield from ["a mistake of ours"] if wrong else []

    monkeypatch.setattr(Entitlements, "judge", judge)
    edit(published.root, WEBUI, *STOPPED)
    edit(published.root, GROUP, *STOP)
    result = published.merged()
    assert result.code == 4
    assert "retained: tenant solo-ada, 1 problem:" in result.err
    assert (
        "the isolation gate rejects its manifests because of a bug in Allotment: report this message: eu-1/"
        in result.err
    )
    after = published.tree("eu-1")
    changed = {path for path in before if before[path] != after[path] and "allotment--marker" not in path}
    assert changed == {"tenants/uni-lab/compute/group-a.rendered.yaml"}


def test_publish_retains_a_tenant_that_shares_with_an_invalid_name(place: Place) -> None:
    edit(place.root, "tenants/northlight/storages/base-models.yaml", "tenants: All", "tenant: Studio_Kite")
    result = place.publish("--commit", place.merge())
    assert result.code == 4
    assert "retained: tenant northlight, 1 problem:" in result.err


def test_no_job_is_written_anew_by_an_upgrade(place: Place) -> None:
    """What an older version published, and the gate would let nobody render today, stays as it is."""
    path = "tenants/ml-orbit/storage/weights.rendered.yaml"
    place.publish()
    today = place.tree("us-1")[path]
    before = today.replace("cpu: 500m", "cpu: 400m")
    assert before != today
    place.rewrite("us-1", path, before)
    edit(place.root, "tenants/ml-orbit/storages/weights.yaml", "size: 4Ti", "size: 5Ti")
    assert place.merged().code == 0
    grown = place.tree("us-1")[path]
    old, new = (load(text.encode())[0]["metadata"]["annotations"][names.BLOB] for text in (before, grown))
    assert grown == before.replace("storage: 4Ti", "storage: 5Ti").replace(old, new)


# The brake


@pytest.mark.process
def test_a_tenant_that_deletes_much_is_retained_until_exactly_that_is_approved(place: Place) -> None:
    brake(place, 20, 4)
    place.merged()
    before = place.tree("eu-1")
    files = remove(place, GROUPS)
    edit(place.root, WEBUI, *STOPPED)
    result = place.merged()
    assert result.code == 4
    words = "the brake stops this: 4 of 4 instances of tenant uni-lab would be deleted within 24 hours, more than 20 %:"
    assert f"{words} uni-lab/group-a," in result.err
    after = place.tree("eu-1")
    changed = {path for path in before if before[path] != after.get(path)}
    assert "tenants/solo-ada/compute/webui.rendered.yaml" in changed, "all others are published"
    assert all(path.startswith("tenants/solo-ada/") for path in changed)
    checksum = result.checksum
    brake(place, 20, 4, checksum)
    assert place.merged().code == 4
    assert place.publish().code == 4, "an approval that is merged while the deletion waits counts for nothing"
    put_back(files)
    assert place.merged().code == 0
    fewer = remove(place, GROUPS[1:])
    assert place.merged().code == 4, "another deletion than the approved"
    put_back(fewer)
    assert place.merged().code == 0
    remove(place, GROUPS)
    assert place.merged().code == 0
    assert "refs/allotment/approved/eu-1" in place.refs()
    put_back(files)
    assert place.merged().code == 0
    remove(place, GROUPS)
    assert place.merged().code == 4, "an approval counts once"


def test_an_approval_that_is_merged_with_its_deletion_counts_for_nothing(place: Place) -> None:
    brake(place, 20, 4)
    place.merged()
    git(place.root, "checkout", "-q", "-b", "feature")
    remove(place, GROUPS)
    commit(place, "Delete")
    checksum = place.publish("--dry-run", "--commit", "HEAD").checksum
    brake(place, 20, 4, checksum)
    commit(place, "Approve")
    git(place.root, "checkout", "-q", "main")
    git(place.root, "merge", "-q", "feature")
    for _ in range(3):
        assert place.merged().code == 4
    assert "tenants/uni-lab/compute/group-a.rendered.yaml" in place.tree("eu-1")


def commit(place: Place, words: str) -> None:
    git(place.root, "-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-q", "-a", "-m", words)


def test_a_deletion_may_be_approved_before_it_is_merged(place: Place) -> None:
    brake(place, 20, 4)
    place.merged()
    before = place.refs()
    git(place.root, "checkout", "-q", "-b", "feature")
    remove(place, GROUPS)
    commit(place, "Delete")

    def planned() -> Result:
        return place._allot("plan", "--repo", place.root, "--as-of", DAY, "--base", "main", "--head", "feature")

    for cluster in ("eu-1", "us-1"):
        git(place.root, "update-ref", "-d", f"refs/remotes/origin/rendered/{cluster}")
    plan = planned()
    forecast = "the brake will stop this: 4 of 4 instances of tenant uni-lab would be deleted within 24 hours"
    assert plan.code == 1
    assert "can't be merged: 1 problem · ⚠ the brake will stop it, and retain tenant uni-lab" in plan.out
    assert f"tenants/uni-lab:1:1: (file): {forecast}" in plan.out
    assert "`allot publish --dry-run --commit HEAD`" in plan.out
    assert "not checked: other deletions within 24 hours" in plan.out
    result = place.publish("--dry-run", "--commit", "HEAD")
    assert (result.code, place.refs()) == (4, before)
    checksum = result.checksum
    git(place.root, "fetch", "-q", "origin")
    plan = planned()
    assert (plan.code, f"If the deletion is meant: merge {checksum} into spec.brake" in plan.out) == (1, True)
    assert "within 24 hours, which" not in plan.out
    git(place.root, "checkout", "-q", "main")
    brake(place, 20, 4, checksum)
    assert place.merged().code == 0
    git(place.root, "fetch", "-q", "origin")
    plan = planned()
    assert (plan.code, "the brake" in plan.out) == (0, False), plan.out
    git(place.root, "-c", "user.name=a", "-c", "user.email=a@b.example", "merge", "-q", "feature")
    assert place.merged().code == 0
    assert not any("uni-lab/compute/group-" in path for path in place.tree("eu-1"))


def test_a_plan_counts_the_same_day_as_the_publisher(place: Place) -> None:
    brake(place, 60, 4)
    place.merged(hours_ago=20)
    for path in GROUPS[:2]:
        remove(place, [path])
        assert place.merged(hours_ago=1).code == 0
    git(place.root, "fetch", "-q", "origin")
    files = remove(place, GROUPS[2:3])
    plan = place._allot("plan", "--repo", place.root, "--as-of", DAY)
    assert (plan.code, "3 of 4 instances of tenant uni-lab would be deleted" in plan.out) == (1, True), plan.out
    assert place.merged().code == 4
    put_back(files)
    edit(place.root, GROUPS[2], "spec:\n", "spec:\n  displayName: C\n")
    plan = place._allot("plan", "--repo", place.root, "--as-of", DAY)
    assert plan.code == 0, plan.out


def test_bit_by_bit_within_a_day_is_stopped_too(place: Place) -> None:
    brake(place, 60, 4)
    place.merged(hours_ago=20)
    for path, code in zip(GROUPS[:3], (0, 0, 4), strict=True):
        files = remove(place, [path])
        assert place.merged(hours_ago=1).code == code, path
    assert "3 of 4 instances of tenant uni-lab" in place.publish().err
    put_back(files)
    edit(place.root, WEBUI, *STOPPED)
    assert place.merged().code == 0, "a publish that deletes nothing is not stopped"


def test_after_a_day_it_counts_anew(place: Place) -> None:
    brake(place, 60, 2)
    place.merged(hours_ago=60)
    for path, hours in zip(GROUPS, (59, 58, 57, 2), strict=True):
        remove(place, [path])
        assert place.merged(hours_ago=hours).code == 0, "the window ends now, whatever the commit's date"


def test_few_are_not_counted(place: Place) -> None:
    brake(place, 20, 5)
    place.merged()
    remove(place, GROUPS)
    assert place.merged().code == 0


def test_deletions_across_tenants_stop_the_publish_until_they_are_approved(place: Place) -> None:
    brake(place, 30, 10)
    place.merged()
    before = place.refs()
    instances = sorted(
        path.relative_to(place.root).as_posix() for path in place.root.glob("tenants/*/instances/*.yaml")
    )
    files = remove(place, [path for path in instances if "/uni-lab/" not in path][:9])
    result = place.merged()
    assert (result.code, result.out, place.refs()) == (1, "", before)
    assert "the brake stops this: 9 of 17 instances would be deleted within 24 hours, more than 30 %: " in result.err
    checksum = result.checksum
    brake(place, 30, 10, checksum)
    assert place.merged().code == 1, "an approval that is merged with the deletion counts for nothing"
    put_back(files)
    assert place.merged().code == 0
    remove(place, [path.relative_to(place.root).as_posix() for path in files])
    assert place.merged().code == 0


def test_one_tenant_stops_nobody_else_by_deleting_bit_by_bit(place: Place) -> None:
    """The attack: many stopped instances, a day later most of them are removed in steps that each look small."""
    brake(place, 30, 10)
    names = [f"many-{letter}" for letter in "abcdefghijklmnop"]
    paths = [f"tenants/film-house/instances/{name}.yaml" for name in names]
    for name, path in zip(names, paths, strict=True):
        stopped = INSTANCE.format(name=name, labels="").replace("spec:\n", "spec:\n  state: Stopped\n")
        (place.root / path).write_text(stopped)
    assert place.merged(hours_ago=30).code == 0
    remove(place, paths[:9])
    result = place.merged()
    assert (result.code, "9 of " in result.err) == (4, True)
    remove(place, paths[9:])
    edit(place.root, WEBUI, *STOPPED)
    result = place.merged()
    assert result.code == 4
    assert "retained: tenant film-house, 1 problem:" in result.err
    assert "  replicas: 0\n" in place.tree("eu-1")["tenants/solo-ada/compute/webui.rendered.yaml"]


@pytest.mark.parametrize("committer", ["committer a <a@b.example> never +0000\n", ""], ids=["nonsense", "none"])
def test_a_commit_whose_date_is_none_ends_the_look_back(published: Place, committer: str) -> None:
    tip, tree = (git(published.remote, "rev-parse", f"rendered/eu-1{suffix}") for suffix in ("", "^{tree}"))
    text = f"tree {tree}\nparent {tip}\nauthor a <a@b.example> 1 +0000\n{committer}\nx\n"
    commit = write(published.remote, "commit", text.encode())
    for ref in ("refs/heads/rendered/eu-1", "refs/allotment/published/eu-1"):
        git(published.remote, "update-ref", ref, commit)
    (published.root / WEBUI).unlink()
    result = published.merged()
    assert result.code == 0, result.err
    assert "tenants/solo-ada/compute/webui.rendered.yaml" not in published.tree("eu-1")


# Others at the same branches


def push_foreign(place: Place, tmp_path: Path, path: str, text: str) -> str:
    """Commit something to rendered/eu-1 as somebody else; return the commit."""
    clone = tmp_path / f"clone-{len(list(tmp_path.iterdir()))}"
    subprocess.run(["git", "clone", "-q", "-b", "rendered/eu-1", str(place.remote), str(clone)], check=True)
    (clone / path).parent.mkdir(parents=True, exist_ok=True)
    (clone / path).write_text(text)
    git(clone, "add", "-A")
    git(clone, "-c", "user.name=Mallory", "-c", "user.email=m@evil.example", "commit", "-q", "-m", "Mine now")
    git(clone, "push", "-q", "origin", "rendered/eu-1")
    return git(clone, "rev-parse", "HEAD")


def test_a_commit_of_somebody_else_is_told_and_replaced(published: Place, tmp_path: Path) -> None:
    before = published.tree("eu-1")
    foreign = push_foreign(
        published, tmp_path, "tenants/solo-ada/compute/root.rendered.yaml", "kind: ClusterRoleBinding\n"
    )
    push_foreign(published, tmp_path, "tenants/solo-ada/compute/webui.rendered.yaml", "kind: Nothing\n")
    tip = git(published.remote, "rev-parse", "rendered/eu-1")
    result = published.publish()
    assert result.code == 4
    assert f"; it replaces {tip[:12]}, which Allotment didn't write" in result.out
    assert result.err == (
        f"restored: rendered/eu-1, which has the commit {tip[:12]}, which Allotment didn't write. Protect the branch at the"
        " forge, so that only the publisher can push\n"
    )
    marker = "tenants/solo-ada/compute/allotment--marker.rendered.yaml"
    after = published.tree("eu-1")
    assert {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)} == {marker}
    assert git(published.remote, "merge-base", "--is-ancestor", foreign, "rendered/eu-1") == "", "nothing was forced"
    assert sorted(published.log("eu-1", "%an")) == ["Ada Löwe", "Ada Löwe", "Mallory", "Mallory"]
    assert published.publish().code == 0
    assert published.tree("eu-1") == before
    assert published.publish().out == "2 clusters: nothing changed\n"
    edit(published.root, WEBUI, *STOPPED)
    assert published.merged().code == 0


def test_a_push_that_was_interrupted_between_two_refs_is_not_called_foreign(published: Place) -> None:
    """Each ref in turn is put back to where it was before a publish, as a crash of the remote leaves it."""
    before = published.refs()
    edit(published.root, WEBUI, *STOPPED)
    published.merged()
    after = published.refs()
    moved = sorted(name for name in after if after[name] != before.get(name))
    assert moved == ["refs/allotment/published/eu-1", "refs/allotment/source", "refs/heads/rendered/eu-1"]
    for number in range(1, 7):
        for at, name in enumerate(moved):
            git(published.remote, "update-ref", name, (before if number >> at & 1 else after)[name])
        result = published.publish()
        is_behind = number & 5 == 4
        assert (result.code, "which Allotment didn't write" in result.out) == (4 * is_behind, False), (number, result)
        assert ("is behind the last publish: a push was interrupted" in result.err) == is_behind, (number, result)
        if number & 5 == 5:  # neither the branch nor our ref had moved, so it is a publish as any
            after = published.refs()
        assert published.refs() == after, number


def test_a_forged_commit_of_the_same_shape_is_replaced(published: Place, tmp_path: Path) -> None:
    """Its parent and message are those of our next commit, and its files aren't."""
    before = published.refs()
    edit(published.root, WEBUI, *STOPPED)
    published.merged()
    text = git(published.remote, "log", "-1", "--format=%B", "rendered/eu-1") + "\n"
    for name, commit in before.items():
        git(published.remote, "update-ref", name, commit)
    foreign = push_foreign(published, tmp_path, "tenants/solo-ada/compute/root.rendered.yaml", "kind: ClusterRole\n")
    tree = git(published.remote, "rev-parse", f"{foreign}^{{tree}}")
    author = ["-c", "user.name=Ada Löwe", "-c", "user.email=ada@northlight.example"]
    forged = git(published.remote, *author, "commit-tree", tree, "-p", before["refs/heads/rendered/eu-1"], "-m", text)
    git(published.remote, "update-ref", "refs/heads/rendered/eu-1", forged)
    result = published.publish()
    assert f"it replaces {forged[:12]}, which Allotment didn't write" in result.out
    assert "root.rendered.yaml" not in " ".join(published.tree("eu-1"))


def test_a_tree_of_an_older_version_moves_to_the_endings_of_today_and_nothing_is_removed(
    published: Place, tmp_path: Path
) -> None:
    before = published.tree("eu-1")
    clone = tmp_path / "older"
    subprocess.run(["git", "clone", "-q", "-b", "rendered/eu-1", str(published.remote), str(clone)], check=True)
    for path in before:
        git(clone, "mv", path, path.replace(".rendered.yaml", ".yaml"))
    git(clone, "-c", "user.name=Older", "-c", "user.email=older@northlight.example", "commit", "-q", "-m", "Older")
    git(clone, "push", "-q", "origin", "rendered/eu-1", "HEAD:refs/allotment/published/eu-1")
    brake(published, 1, 1)
    edit(published.root, WEBUI, "l4-quarter", "l4-fifth")
    result = published.merged()
    assert result.code == 4
    assert "retained: tenant solo-ada, 1 problem:" in result.err
    assert published.tree("eu-1") == before


def test_a_folder_that_somebody_else_moved_a_file_from_or_to_is_named_once_it_is_replaced(
    published: Place, tmp_path: Path
) -> None:
    source_folder, other = "tenants/solo-ada/compute", "tenants/uni-lab/compute"
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "-b", "rendered/eu-1", str(published.remote), str(clone)], check=True)
    git(clone, "mv", f"{source_folder}/webui.rendered.yaml", f"{other}/webui.rendered.yaml")  # and no marker is touched
    git(clone, "-c", "user.name=M", "-c", "user.email=m@evil.example", "commit", "-q", "-m", "Mine now")
    git(clone, "push", "-q", "origin", "rendered/eu-1")
    foreign = git(clone, "rev-parse", "HEAD")
    assert published.publish().code == 4
    named = git(published.remote, "diff", "--name-only", foreign, "rendered/eu-1").splitlines()
    assert {path.rpartition("/")[0] for path in named} == {source_folder, other}
    assert published.publish().code == 0
    assert published.publish().out == "2 clusters: nothing changed\n"


@pytest.mark.parametrize("mode", ["100755", "120000", "160000"])
def test_whatever_mode_and_name_somebody_gave_a_file_is_replaced(published: Place, tmp_path: Path, mode: str) -> None:
    before = git(published.remote, "rev-parse", "rendered/eu-1^{tree}")
    push_foreign(published, tmp_path, '"quoted\nand broken', "x\n")
    clone = tmp_path / "theirs"
    subprocess.run(["git", "clone", "-q", "-b", "rendered/eu-1", str(published.remote), str(clone)], check=True)
    path = "tenants/solo-ada/compute/webui.rendered.yaml"
    object_id = git(clone, "rev-parse", "HEAD" if mode == "160000" else f"HEAD:{path}")
    git(clone, "update-index", "--cacheinfo", f"{mode},{object_id},{path}")
    git(clone, "-c", "user.name=M", "-c", "user.email=m@evil.example", "commit", "-q", "-m", "Mine now")
    git(clone, "push", "-q", "origin", "rendered/eu-1")
    result = published.publish()
    assert (result.code, "which Allotment didn't write" in result.out) == (4, True), result.err
    assert published.publish().code == 0, "a folder that a submodule changed has its own marker again"
    assert git(published.remote, "rev-parse", "rendered/eu-1^{tree}") == before
    assert published.publish().out == "2 clusters: nothing changed\n"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("refs/heads/rendered/eu-1", "refs/heads/rendered/eu-1~"), "is behind the last publish"),
        (("-d", "refs/heads/rendered/eu-1"), "is gone"),
    ],
)
def test_a_branch_that_was_wound_back_or_deleted_is_named_and_restored(
    published: Place, allot: Allot, change: tuple[str, str], words: str
) -> None:
    edit(published.root, WEBUI, *STOPPED)
    published.merged()
    before = published.refs()
    git(published.remote, "update-ref", *change)
    status = allot("status", "--repo", published.root)
    assert f"rendered/eu-1 {words}: a push was interrupted, or somebody" in status.out + status.err
    dry = published.publish("--dry-run")
    assert (dry.code, dry.err.startswith(f"to restore: rendered/eu-1, which {words}")) == (4, True), dry
    result = published.publish()
    assert (result.code, result.err.startswith(f"restored: rendered/eu-1, which {words}: a push")) == (4, True), result
    assert published.refs() == before
    assert "rendered/eu-1 is" not in allot("status", "--repo", published.root).out


def test_a_branch_that_was_never_ours_is_taken_over_on_top(place: Place) -> None:
    git(place.root, "push", "-q", "origin", "HEAD:refs/heads/rendered/eu-1")
    result = place.publish()
    assert (result.code, "which Allotment didn't write" in result.out) == (4, True)
    assert "platform/platform.yaml" not in place.tree("eu-1")
    assert len(place.log("eu-1", "%h")) == 2


@pytest.mark.parametrize("left", ["nothing", "a blob", "a long commit"])
def test_a_ref_of_ours_that_is_lost_stops_until_a_person_believes_the_branch(published: Place, left: str) -> None:
    """It isn't known which commit of the branch was ours: whoever guesses deletes what is kept, or waits."""
    ref, before = "refs/allotment/published/eu-1", published.refs()
    tree = git(published.remote, "rev-parse", "rendered/eu-1^{tree}")
    long = f"tree {tree}\nparent {before[ref]}\nauthor a <a@b.example> 1 +0000\ncommitter a <a@b.example> 1 +0000\n\n"
    strange = {
        "nothing": lambda: "",
        "a blob": lambda: write(published.remote, "blob", b"x"),
        "a long commit": lambda: write(published.remote, "commit", long.encode() + b"x" * (2 << 20)),
    }[left]()
    git(published.remote, "update-ref", *((ref, strange) if strange else ("-d", ref)))
    moved = published.refs()
    result = published.publish()
    assert (result.code, published.refs()) == (2, moved), result
    assert f"{ref} is at {strange[:12]}, and that can't be read: " in result.err or f"{ref} is gone, and " in result.err
    assert "`allot publish --adopt` once" in result.err
    (published.root / WEBUI).write_text("nonsense")
    result = published.merged("--adopt")
    assert "retained: tenant solo-ada" in result.err, result
    assert git(published.remote, "rev-parse", "rendered/eu-1^{tree}", f"{ref}^{{tree}}").split() == [tree, tree]
    assert published.publish().out == "2 clusters: nothing changed\n"


def test_an_older_source_changes_nothing(place: Place, tmp_path: Path) -> None:
    older = place.fork(tmp_path / "older")
    edit(place.root, WEBUI, *STOPPED)
    newer = place.merge()
    place.publish()
    before = place.refs()
    result = older.publish()
    assert (result.code, result.out) == (
        0,
        f"Nothing to do: the newer commit {newer[:12]} is already published; this is {git(older.root, 'rev-parse', 'HEAD')[:12]}.\n",
    )
    assert place.refs() == before


@pytest.mark.parametrize("to", ["behind", "aside"])
def test_a_source_that_was_rewound_stops_it(place: Place, to: str) -> None:
    edit(place.root, WEBUI, *STOPPED)
    lost = place.merge()
    place.publish()
    before = place.refs()
    git(place.root, "reset", "-q", "--hard", "HEAD~")
    if to == "aside":
        git(place.root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "Aside")
    git(place.root, "push", "-q", "--force", "origin", "main")
    result = place.publish()
    assert (result.code, result.out, place.refs()) == (2, "", before)
    assert f"the source was rewound: {lost[:12]} was published" in result.err
    git(place.root, "-c", "user.name=a", "-c", "user.email=a@b", "merge", "-q", "-s", "ours", "-m", "Back", lost)
    git(place.root, "push", "-q", "origin", "main")
    assert place.publish().code == 0


def test_a_rewind_that_nothing_proves_names_no_ref_to_delete(place: Place, tmp_path: Path) -> None:
    """A clone without the branch that counts cannot tell which of two commits is newer."""
    edit(place.root, WEBUI, *STOPPED)
    place.merge()
    place.publish()
    git(place.root, "reset", "-q", "--hard", "HEAD~")
    git(place.root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "Aside")
    git(place.root, "branch", "-q", "-m", "main", "aside")
    git(place.root, "remote", "rename", "origin", "elsewhere")
    result = place.publish("--to", place.remote)
    assert (result.code, "the source was rewound" in result.err) == (2, True)
    assert "--delete" not in result.err


def test_a_commit_beside_the_branch_is_not_called_a_rewind(place: Place) -> None:
    edit(place.root, WEBUI, *STOPPED)
    newest = place.merge()
    place.publish()
    git(place.root, "checkout", "-q", "-b", "aside", "HEAD~")
    git(place.root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "Aside")
    result = place.publish("--to", place.remote)
    assert result.code == 2
    assert f"is not the newest commit of the branch: publish {newest[:12]}" in result.err


def test_half_a_history_is_refused(published: Place, tmp_path: Path) -> None:
    published.merge()
    url = published.remote.as_uri()
    subprocess.run(["git", "clone", "-q", "--depth", "1", url, str(tmp_path / "shallow")], check=True)
    shallow = published.fork(tmp_path / "unused")
    shallow.root = tmp_path / "shallow"
    result = shallow.publish()
    assert (result.code, result.out) == (2, "")
    assert "git fetch --unshallow" in result.err
    git(shallow.root, "fetch", "-q", "--unshallow")
    assert shallow.publish().code == 0


def test_a_slower_publish_starts_again(published: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(published.root, GROUP, *STOP)
    published.merge()
    older = published.fork(tmp_path / "older")
    edit(published.root, WEBUI, *STOPPED)
    published.merge()
    push, raced = Remote.push, list[Result]()

    def pushing(self: Remote, refs: dict[str, str], over: dict[str, str]) -> bool:
        if not raced:
            raced.append(Result(-1, "", ""))  # the other's own push goes straight through
            raced[0] = older.publish()
        return push(self, refs, over)

    monkeypatch.setattr(Remote, "push", pushing)
    result = published.publish()
    assert (raced[0].code, result.code) == (0, 0), result.err
    lines = raced[0].out.splitlines()
    assert [line.split(":")[0] for line in (lines[0], lines[-1])] == ["eu-1", "1 cluster more"]
    assert lines[1].startswith(f"Pushed to origin ({published.remote}), of ")
    for path in ("tenants/solo-ada/compute/webui.rendered.yaml", "tenants/uni-lab/compute/group-a.rendered.yaml"):
        annotations = deployment(published, path)["metadata"]["annotations"]
        assert annotations["allotment.dev/waits-for"] == "state: Stopped"
    assert len(published.log("eu-1", "%h")) == 3


@pytest.mark.process
def test_several_at_once_end_with_the_newer_source(published: Place, tmp_path: Path) -> None:
    forks = []
    for number in range(1, 4):
        copy(published.root, "tenants/uni-lab/instances/group-a.yaml", f"tenants/uni-lab/instances/extra-{number}.yaml")
        edit(published.root, f"tenants/uni-lab/instances/extra-{number}.yaml", *STOP)
        published.merge()
        forks.append(published.fork(tmp_path / f"fork-{number}"))
    command = [sys.executable, "-m", "allotment", "publish", "--as-of", DAY, "--repo"]
    running = [
        subprocess.Popen([*command, str(fork.root)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for fork in forks
    ]
    ended = [(process.wait(), process.stderr.read() if process.stderr else b"") for process in running]
    for process in running:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.stderr.close()
    assert [code for code, _ in ended] == [0] * 3, ended
    assert published.refs()["refs/allotment/source"] == git(published.root, "rev-parse", "HEAD")
    extra = [path for path in published.tree("eu-1") if "/extra-" in path]
    assert len(extra) == 3
    fresh = published.publish()
    assert fresh.out == "2 clusters: nothing changed\n"


@pytest.mark.process
def test_a_kill_at_any_step_leaves_the_old_state_or_the_new(small: Place, tmp_path: Path) -> None:
    command = ("allotment", "publish", "--as-of", DAY, "--repo", str(small.root))
    declared = (small.root / WEBUI).read_text()
    states = [declared.replace(*STOPPED), declared]

    def killed(step: int) -> tuple[Run, bool]:
        """Publish what is declared otherwise now, killed; return how it ended, and whether that is published."""
        (small.root / WEBUI).write_text(states[0])
        before, source = small.refs(), small.merge()
        run = killed_at(step, tmp_path / "said", *command)
        after = small.refs()
        new = after["refs/allotment/source"] == source
        assert after["refs/heads/rendered/eu-1"] == after["refs/allotment/published/eu-1"]
        assert new or after == before
        if new:
            states.reverse()
        return run, new

    kill_everywhere(small.remote, killed)
    assert small.publish().code == 0
    assert small.refs()["refs/allotment/source"] == git(small.root, "rev-parse", "HEAD")


def test_a_plan_that_is_demanded_must_still_hold(place: Place, allot: Allot) -> None:
    checksum = "sha256:" + "0" * 64
    refused = place.publish("--plan", checksum)
    assert (refused.code, "nothing has been published yet" in refused.err) == (2, True)
    place.publish()
    base = git(place.root, "rev-parse", "HEAD")
    edit(place.root, "tenants/solo-ada/instances/webui.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    head = place.merge()
    planned = allot("plan", "--repo", place.root, "--base", base, "--head", head, "--format", "json")
    checksum = json.loads(planned.out)["checksum"]
    before = place.refs()
    edit(place.root, "tenants/uni-lab/tenant.yaml", "spec:\n", "spec:\n  description: More.\n")
    place.merge()
    refused = place.publish("--plan", checksum)
    assert (refused.code, "the plan holds no more" in refused.err) == (2, True)
    assert place.refs() == before
    assert place.publish("--plan", checksum, "--commit", head).code == 0
    assert "replicas: 0" in place.tree("eu-1")["tenants/solo-ada/compute/webui.rendered.yaml"]


def test_an_upgrade_restarts_nothing_and_a_change_of_the_plan_doesn_t_either(published: Place) -> None:
    path, instance = "tenants/solo-ada/compute/webui.rendered.yaml", "        allotment.dev/instance: webui\n"
    older = published.tree("eu-1")[path].replace(instance, f"{instance}        allotment.dev/plan: starter\n")
    published.rewrite("eu-1", path, older)
    assert published.publish().code == 0
    assert published.tree("eu-1")[path] == older
    edit(published.root, "tenants/solo-ada/tenant.yaml", "plan: starter", "plan: enterprise")
    assert published.merged().code == 0
    assert published.tree("eu-1")[path] == older
    assert "allotment.dev/plan: enterprise" in published.tree("eu-1")["control/argo/s/solo-ada.rendered.yaml"]
    edit(published.root, "tenants/solo-ada/instances/webui.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    assert published.merged().code == 0
    assert "allotment.dev/plan" not in published.tree("eu-1")[path]


def _new_tenant(root: Path) -> None:
    for name in ("tenant", "members"):
        text = (root / f"tenants/solo-ada/{name}.yaml").read_text().replace("solo-ada", "zebra-lab")
        (root / "tenants/zebra-lab/instances").mkdir(parents=True, exist_ok=True)
        (root / f"tenants/zebra-lab/{name}.yaml").write_text(text)
    (root / "tenants/zebra-lab/instances/note.yaml").write_text(INSTANCE.format(name="note", labels=""))


@pytest.mark.parametrize(
    "change",
    [
        lambda root: edit(root, "tenants/studio-kite/instances/comfy.yaml", "spec:\n", "spec:\n  state: Stopped\n"),
        lambda root: edit(root, "tenants/solo-ada/tenant.yaml", "plan: starter", "plan: enterprise"),
        lambda root: edit(root, "clusters/eu-1/cluster.yaml", "domain: eu-1", "domain: fra"),
        lambda root: (root / "tenants/solo-ada/instances/webui.yaml").unlink(),
        lambda root: edit(root, "tenants/ml-orbit/storages/weights.yaml", "spec:\n", "spec:\n  description: Mine.\n"),
        _new_tenant,
    ],
)
def test_a_plan_counts_the_files_that_its_publish_changes(
    published: Place, allot: Allot, change: Callable[[Path], None]
) -> None:
    base = git(published.root, "rev-parse", "HEAD")
    change(published.root)
    published.merge()
    result = allot("plan", "--repo", published.root, "--base", base, "--head", "HEAD", "--as-of", DAY, "-o", "json")
    planned = checked("plan", result.out)["files"]
    before = published.refs()
    assert published.publish().code == 0
    counts = {"added": 0, "changed": 0, "removed": 0}
    for name, commit in published.refs().items():
        if name.startswith("refs/heads/rendered/") and before[name] != commit:
            for line in git(
                published.remote, "diff", "--name-status", "--no-renames", before[name], commit
            ).splitlines():
                counts[{"A": "added", "M": "changed", "D": "removed"}[line[0]]] += 1
    assert sum(counts.values())
    assert {key: planned[key] for key in counts} == counts
