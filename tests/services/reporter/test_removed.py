"""What is removed from the rendered branch and stays in the cluster: the status, the log and the metrics say so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.conftest import PROJECT
from tests.support import live
from tests.support.instances import RUNS
from tests.support.published import git
from tests.support.reported import BRANCH, CLUSTER, Bed

from allotment.adapters.backoff import NO_BACKOFF
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.adapters.metrics import metrics_text
from allotment.branches.rendered_branches import published_ref
from allotment.lifecycle.published_manifests import deleting_volume, read_identities
from allotment.manifests import names
from allotment.manifests.names import rendered_branch
from allotment.observed import drift
from allotment.observed.objects import PLATFORM_OWNER
from allotment.observed.orphans import OBJECT_KINDS, STOPPED_DEPLOYMENT
from allotment.observed.status import Condition, Instance
from allotment.problems import OperationRefused
from allotment.services.reporter import published_objects, reporter
from allotment.services.reporter.published_objects import PublishedBranch

DEPLOYMENT, CLAIM, ROUTE = live.deployment(), live.claim(), live.route()
RENDERED, OURS = rendered_branch(CLUSTER), published_ref(CLUSTER)
SEES = (*RUNS, ROUTE, CLAIM, live.application(), live.application("storage"))
STOPPED = b"kind: Deployment\nmetadata:\n  name: webui\nspec:\n  replicas: 0\n"
STAYS = "removed, still running: not published since 2026-11-21T10:00:{:02d}Z"


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    """Return a reporter that looks at the branch at every turn, and has seen what is published."""
    monkeypatch.setattr(published_objects, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(reporter, "BACKOFF", NO_BACKOFF)
    Repository.open_or_create(tmp_path / "remote.git")
    test_bed = Bed(tmp_path / "data", tmp_path / "remote.git")
    with (test_bed.remote / "config").open("a", encoding="utf-8") as settings:
        settings.write("[user]\n\tname = publisher\n\temail = publisher@northlight.example\n")
    test_bed.publish(DEPLOYMENT, ROUTE, CLAIM)
    test_bed.report(*SEES)
    return test_bed


def instance(bed: Bed) -> Instance:
    return bed.status().instances[0]


def declared(bed: Bed) -> list[Condition]:
    """Return the conditions of what is removed."""
    resources = (*bed.status().instances, *bed.status().storages)
    return [
        condition
        for resource in resources
        for condition in resource.conditions
        if condition.type.startswith("Declared")
    ]


def counted(bed: Bed, what: str = "removed") -> str:
    name = f"allotment_{what}_still_running{{"
    return next(line.split()[-1] for line in metrics_text(bed.counts).decode().splitlines() if line.startswith(name))


def test_the_reporter_reports_no_removal_of_published_objects(bed: Bed) -> None:
    assert declared(bed) == []
    assert counted(bed) == "0.0"
    bed.report(*SEES, seconds=150)
    assert (bed.commits(), bed.warnings()) == (1, [])


@pytest.mark.parametrize("stopped", [False, True], ids=["removed", "stopped"])
def test_pods_that_outlive_their_deployment_are_said(stopped: bool, bed: Bed) -> None:
    bed.publish(CLAIM, files={"tenants/solo-ada/compute/webui.rendered.yaml": STOPPED} if stopped else {})
    left = [live_object for live_object in SEES if live_object["kind"] not in ("Deployment", "ReplicaSet", "HTTPRoute")]
    bed.report(*left)
    assert (instance(bed).state, instance(bed).pods, bed.warnings()) == ("Stopped", 1, [])
    bed.clock += 600 if stopped else 120
    bed.reporter.tick()
    prefix = "declared stopped, still running" if stopped else "removed, still running"
    assert instance(bed).message.startswith(prefix)
    assert "delete its pods in Namespace" in instance(bed).message
    assert counted(bed, "stopped" if stopped else "removed") == "1.0"
    assert len(bed.warnings()) == 1
    bed.report(*(live_object for live_object in left if live_object["kind"] != "Pod"))
    assert counted(bed, "stopped" if stopped else "removed") == "0.0"


def test_a_removed_instance_that_runs_on_is_said_once_after_two_minutes(bed: Bed) -> None:
    bed.publish(CLAIM)
    bed.report(*SEES)
    assert [condition.reason for condition in declared(bed)] == ["Removed"]
    assert (counted(bed), bed.warnings(), instance(bed).message) == ("0.0", [], "")
    bed.clock += 119
    bed.reporter.tick()
    assert (bed.commits(), counted(bed)) == (2, "0.0")
    bed.clock += 1
    bed.reporter.tick()
    assert instance(bed).state == "Running"
    words = f"{STAYS.format(2)}; ask the platform team to refresh Application solo-ada--eu-1--compute"
    assert instance(bed).message == words
    bed.reporter.tick()
    bed.report(*SEES, seconds=60)
    assert (counted(bed), bed.warnings(), bed.commits()) == ("1.0", [words], 3)
    bed.report(CLAIM)
    assert (bed.status().instances, counted(bed)) == ((), "0.0")


def test_a_stopped_instance_that_runs_on_is_said_once_after_ten_minutes(bed: Bed) -> None:
    bed.publish(ROUTE, CLAIM, files={"tenants/solo-ada/compute/webui.rendered.yaml": STOPPED})
    bed.report(*SEES)
    bed.clock += 599
    bed.reporter.tick()
    assert (counted(bed, "stopped"), counted(bed), bed.warnings()) == ("0.0", "0.0", [])
    bed.clock += 1
    bed.reporter.tick()
    assert instance(bed).reason == "StoppedStillRunning"
    assert (counted(bed, "stopped"), counted(bed)) == ("1.0", "0.0")
    (warning,) = bed.warnings()
    assert warning.startswith("declared stopped, still running: published without replicas since 2026-11-21T10:")
    summary = git(bed.remote, "show", f"{BRANCH}:summary.md")
    assert "## Stopped, and still running" in summary
    assert "## Removed, and not gone" not in summary
    bed.clock += 60
    bed.reporter.tick()
    assert len(bed.warnings()) == 1


def test_the_warning_comes_again_with_the_next_time(bed: Bed) -> None:
    for _ in range(2):
        bed.publish(CLAIM)
        bed.report(*SEES)
        bed.report(*SEES, seconds=120)
        bed.publish(DEPLOYMENT, ROUTE, CLAIM)
        bed.report(*SEES)
        assert (declared(bed), counted(bed)) == ([], "0.0")
    assert len(bed.warnings()) == 2


def test_a_reporter_that_begins_again_goes_on_counting(bed: Bed, tmp_path: Path) -> None:
    bed.publish(CLAIM)
    bed.report(*SEES)
    second_bed = Bed(tmp_path / "again", bed.remote)
    second_bed.clock = 121
    second_bed.report(*SEES)
    assert instance(second_bed).message.startswith(STAYS.format(2))


def test_a_route_alone(bed: Bed) -> None:
    bed.publish(DEPLOYMENT, CLAIM)
    bed.report(*SEES)
    bed.report(*SEES, seconds=120)
    assert instance(bed).message.startswith("its address https://webui.example/ is removed, still open: ")
    assert instance(bed).reason == "ProbesAnswered"


def test_a_tenant_of_whom_nothing_is_published(bed: Bed) -> None:
    bed.publish()
    bed.report(*SEES)
    bed.report(*SEES, seconds=120)
    assert [condition.reason for condition in declared(bed)] == ["RemovedStillRunning", "RemovedStillThere"]
    assert counted(bed) == "2.0"


def test_the_reporter_ignores_foreign_commits_on_the_rendered_branch(bed: Bed) -> None:
    """And what they take away is published still."""
    bed.point(bed.publish(CLAIM), OURS)
    bed.point(
        bed.write({"tenants/solo-ada/compute/webui.rendered.yaml": b"kind: Deployment\nmetadata:\n  name: webui\n"}),
        RENDERED,
    )
    bed.report(*SEES)
    assert [condition.reason for condition in declared(bed)] == ["Removed"]
    bed.publish(DEPLOYMENT, ROUTE, CLAIM)
    bed.point(bed.write({"x.yaml": b"x\n"}), RENDERED)
    bed.report(*SEES)
    assert declared(bed) == []


@pytest.mark.parametrize("why", ["never published", "no branch of ours", "unreadable", "away"])
def test_where_it_is_not_known_nothing_new_is_said(why: str, bed: Bed, tmp_path: Path) -> None:
    bed.publish(CLAIM)
    bed.report(*SEES)
    before = bed.status()
    if why == "unreadable":
        bed.publish(files={"tenants/solo-ada/compute/webui.rendered.yaml": b"kind Deployment"})
    elif why == "away":
        bed.place.rendered_remote.url = str(tmp_path / "nothing.git")
    else:
        git(bed.remote, "update-ref", "-d", OURS)
        if why == "never published":
            git(bed.remote, "update-ref", "-d", RENDERED)
    bed.report(*SEES, seconds=600)
    bed.report(*SEES, live.claim("others", "c2"), seconds=600)
    assert bed.status().instances == before.instances
    assert counted(bed) == "0.0"
    assert len(bed.warnings()) == (why in ("unreadable", "away")), "and why is told once"
    bed.place.rendered_remote.url = str(bed.remote)
    bed.publish(CLAIM)
    bed.report(*SEES, seconds=0)
    assert instance(bed).message.startswith(STAYS.format(2))


def test_the_reporter_preserves_removals_while_the_ref_is_missing(bed: Bed) -> None:
    bed.publish(CLAIM)
    bed.report(*SEES)
    bed.report(*SEES, seconds=120)
    git(bed.remote, "update-ref", "-d", OURS)
    commits = bed.commits()
    bed.report(*SEES, seconds=60)
    assert (bed.commits(), counted(bed), len(bed.warnings())) == (commits, "1.0", 1)


def test_the_reporter_judges_new_objects_when_the_ref_returns(bed: Bed) -> None:
    """Also where the branch is as it was before."""
    commit = git(bed.remote, "rev-parse", OURS)
    git(bed.remote, "update-ref", "-d", OURS)
    bed.report(*SEES, live.claim("others", "c2"))
    assert declared(bed) == []
    bed.point(commit, OURS)
    bed.reporter.tick()
    assert [condition.reason for condition in declared(bed)] == ["Removed"]


def test_the_next_branch_read_judges_objects_newer_than_the_last_read(bed: Bed) -> None:
    young = live.claim("others", "c2")
    young["metadata"]["creationTimestamp"] = "2026-11-21T10:00:30Z"
    bed.clock = 30
    bed.report(*SEES, young, seconds=0)
    assert declared(bed) == []
    bed.clock = 31
    bed.reporter.tick()
    assert [condition.reason for condition in declared(bed)] == ["Removed"]


def test_a_standby_reporter_exports_no_removal_metric(bed: Bed) -> None:
    bed.leads = False
    bed.reporter.tick()
    assert "allotment_removed_still_running{" not in metrics_text(bed.counts).decode()


def test_the_reporter_logs_removals_while_the_status_remote_is_away(bed: Bed, tmp_path: Path) -> None:
    bed.publish(CLAIM)
    bed.report(*SEES)
    bed.place.remote.url = str(tmp_path / "nothing.git")
    bed.report(*SEES, seconds=120)
    assert (len(bed.warnings()), counted(bed)) == (1, "1.0")
    assert git(bed.remote, "rev-list", "--count", BRANCH) == "2"


class Counted(Remote):
    """A remote that counts how often it is asked."""

    request_count = 0

    def fetch(self, *refs: str, ours: bool = False, unfetched: tuple[str, ...] = ()) -> dict[str, str]:
        self.request_count += 1
        return super().fetch(*refs, ours=ours, unfetched=unfetched)


@pytest.fixture
def counting(bed: Bed, tmp_path: Path) -> Iterator[Counted]:
    with Repository.open_or_create(tmp_path / "clone") as clone:
        yield Counted(clone, str(bed.remote), keep=True)


def test_the_remote_is_asked_every_half_minute_at_most(
    bed: Bed, counting: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    assert published_objects.POLL_SECONDS == 30
    clock = [1000]
    monkeypatch.setattr("allotment.services.reporter.published_objects.time.monotonic", lambda: clock[0])
    branch = PublishedBranch(counting.repository, counting, CLUSTER, bed.now)
    for _ in range(121):
        branch.poll()
        clock[0] += 1
        assert branch.find_published(live.TENANT) is not None
    assert counting.request_count == 5
    first = branch.find_published(live.TENANT)
    bed.publish(CLAIM)
    clock[0] += 20
    branch.poll()
    assert branch.find_published(live.TENANT) == first
    assert branch.has_commit(git(bed.remote, "rev-parse", RENDERED)), "Argo CD names a commit that isn't here"
    published = branch.find_published(live.TENANT)
    assert published is not None and published.objects == {("PersistentVolumeClaim", "models")}
    assert not branch.has_commit("1" * 40)
    assert counting.request_count == 6


def test_only_files_that_changed_are_read(bed: Bed, counting: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    original = Repository.read_all
    monkeypatch.setattr(Repository, "read_all", lambda self, blobs: read.extend(blobs) or original(self, blobs))
    branch = PublishedBranch(counting.repository, counting, CLUSTER, bed.now)
    branch.poll()
    first = len(read)
    bed.publish(DEPLOYMENT, CLAIM, live.claim("others"))
    branch.poll()
    assert len(read) == first + 1
    branch.poll()
    assert len(read) == first + 1
    published_objects = branch.find_published(live.TENANT)
    assert published_objects is not None and len(published_objects.objects) == 3
    assert branch.find_published("nobody") == (frozenset(), published_objects.time)


def test_an_answer_that_broke_off_is_not_taken_for_the_next(bed: Bed) -> None:
    commit = git(bed.remote, "rev-parse", OURS)
    repository = Repository(bed.remote)
    blobs = sorted(repository.listing(commit).values())
    whole = repository.read_all(blobs)
    with pytest.raises(OperationRefused, match="isn't here"):
        repository.read_all(["1" * 40, *blobs])
    assert repository.read_all(blobs) == whole
    with pytest.raises(OperationRefused, match="can't be read"):
        repository.listing("1" * 40)


@pytest.mark.parametrize("cluster", ["eu-1", "us-1"])
def test_all_that_we_render_is_published(cluster: str, bed: Bed, counting: Counted) -> None:
    """By YAML's reading of the whole golden tree."""
    tree = PROJECT / "tests/manifests/golden" / cluster
    files = {path.relative_to(tree).as_posix(): path.read_bytes() for path in tree.rglob("*.yaml")}
    bed.publish(files=files)
    branch = PublishedBranch(counting.repository, counting, CLUSTER, bed.now)
    branch.poll()
    rendered, kinds = defaultdict(set), {*OBJECT_KINDS.values(), *drift.COMPARED_KINDS}
    for data in files.values():
        for manifest in yaml.safe_load_all(data):
            metadata = manifest["metadata"]
            if manifest["kind"] in kinds:
                objects = rendered[metadata["labels"].get("allotment.dev/tenant", PLATFORM_OWNER)]
                objects.add((manifest["kind"], names.scoped_name(metadata.get("namespace", ""), metadata["name"])))
                if manifest["kind"] == "Deployment" and manifest["spec"]["replicas"] == 0:
                    objects.add((STOPPED_DEPLOYMENT, metadata["name"]))
    assert ("AppProject", f"argocd/solo-ada--{cluster}") in rendered["solo-ada"] or cluster == "us-1"
    assert ("ValidatingAdmissionPolicy", "allotment-protected") in rendered[PLATFORM_OWNER]
    for tenant, objects in rendered.items():
        published_objects = branch.find_published(tenant)
        assert published_objects is not None and published_objects.objects == objects, tenant


def test_a_volume_that_leaves_is_published_under_another_file_s_name(bed: Bed) -> None:
    data = (PROJECT / "tests/manifests/golden/eu-1/tenants/film-house/storage/loras.rendered.yaml").read_bytes()
    assert read_identities(deleting_volume(data, protected=False)) == {("PersistentVolumeClaim", "loras")}
    bed.publish(files={"tenants/solo-ada/storage/models--leaving.rendered.yaml": deleting_volume(data, protected=True)})
    bed.report(live.claim("loras"))
    assert declared(bed) == []
