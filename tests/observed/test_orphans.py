"""What is removed from the rendered branch and stays in the cluster is said after two minutes, and only then."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support import live
from tests.support.instances import CRASHED, RUNS, STOPPED
from tests.support.orphans import (
    ARGOCD,
    BUCKET,
    CLAIM,
    DEPLOYMENT,
    REFRESH,
    ROUTE,
    SINCE,
    SNAPSHOT,
    accessor,
    after,
    at,
    look,
    published,
)

from allotment.observed.orphans import STOPPED_DEPLOYMENT, find_orphans
from allotment.observed.status import (
    Condition,
    Instance,
    Snapshot,
    Storage,
    TenantStatus,
    dump_status,
    parse_tenant_status,
)
from allotment.observed.tenants import is_time_dependent

Objects = tuple[dict[str, Any], ...]


def of(*conditions: Condition) -> list[tuple[str, str, str]]:
    return [
        (condition.type, condition.status, condition.reason)
        for condition in conditions
        if condition.type.startswith("Declared")
    ]


def test_published_objects_leave_the_status_unchanged() -> None:
    objects = (*RUNS, live.route(), live.claim(), live.bucket(), live.snapshot(), *ARGOCD)
    published_objects = published(DEPLOYMENT, ROUTE, CLAIM, BUCKET, SNAPSHOT)
    assert look(*objects, published_objects=published_objects) == look(*objects)
    assert after(600, *objects, published_objects=published_objects) == after_unknown(600, *objects)


def after_unknown(seconds: int, *objects: dict[str, Any]) -> TenantStatus:
    return look(*objects, before=look(*objects), seconds=seconds)


def test_an_instance_that_runs_on_says_so_after_two_minutes() -> None:
    for seconds in (0, 1, 119):
        (young,) = after(seconds, *RUNS, *ARGOCD, published_objects=published()).instances
        assert (young.state, young.reason, young.message) == ("Running", "ProbesAnswered", "")
        assert young.conditions[-1] == Condition("Declared", "False", "Removed", "being removed", SINCE)
    (instance_status,) = after(120, *RUNS, *ARGOCD, published_objects=published()).instances
    assert (instance_status.state, instance_status.reason) == ("Running", "RemovedStillRunning")
    assert (
        instance_status.message == f"removed, still running: not published since {SINCE}; {REFRESH.format('compute')}"
    )
    assert instance_status.conditions[-1].last_transition_time == SINCE
    assert instance_status.conditions[:-1] == look(*RUNS, *ARGOCD).instances[0].conditions


def test_the_time_is_kept_in_the_file() -> None:
    """A reporter that begins again goes on counting."""
    written = look(*RUNS, published_objects=published())
    read = parse_tenant_status(dump_status(written))
    assert read == written
    assert (
        look(*RUNS, before=read, seconds=121, published_objects=published(time=at(100)))
        .instances[0]
        .message.startswith(f"removed, still running: not published since {SINCE}")
    )


@pytest.mark.parametrize(
    ("objects", "reason", "words"),
    [
        (CRASHED, "RemovedStillRunning", "removed, still running"),
        (STOPPED, "RemovedStillThere", "removed, still there"),
        ((*STOPPED, live.pod(node="n1", container=live.started(3))), "RemovedStillRunning", "removed, still running"),
    ],
)
def test_an_instance_keeps_its_state(objects: Objects, reason: str, words: str) -> None:
    (instance_status,) = after(130, *objects, published_objects=published()).instances
    assert (instance_status.state, instance_status.reason) == (look(*objects).instances[0].state, reason)
    assert instance_status.message.startswith(f"{words}: ")


def test_one_that_is_ending_for_too_long_counts_too() -> None:
    ending = live.deployment(replicas=0)
    ending["metadata"]["deletionTimestamp"] = SINCE
    (instance_status,) = after(130, ending, published_objects=published()).instances
    assert (instance_status.state, instance_status.reason) == ("Stopped", "RemovedStillRunning")


@pytest.mark.parametrize(
    ("objects", "kind"),
    [
        ((live.claim(),), "storages"),
        ((live.claim(phase="Pending"), live.job(), live.route("models--files", label="storage")), "storages"),
        ((live.bucket(phase="Bound"),), "storages"),
        ((live.snapshot(readyToUse=True),), "snapshots"),
    ],
)
def test_a_storage_and_a_snapshot_too(objects: Objects, kind: str) -> None:
    def the(status: TenantStatus) -> Storage | Snapshot:
        statuses: tuple[Storage | Snapshot, ...] = getattr(status, kind)
        return statuses[0]

    young, old = (the(after(seconds, *objects, *ARGOCD, published_objects=published())) for seconds in (119, 120))
    assert of(*young.conditions) == [("Declared", "False", "Removed")]
    assert (young.reason, young.message) == (the(look(*objects)).reason, the(look(*objects)).message)
    assert of(*old.conditions) == [("Declared", "False", "RemovedStillThere")]
    assert (old.state, old.reason) == (the(look(*objects)).state, "RemovedStillThere")
    assert old.message == f"removed, still there: not published since {SINCE}; {REFRESH.format('storage')}"


def test_a_volume_that_leaves_in_steps_is_still_published() -> None:
    """Its object is in the branch, under another file's name; what belonged to it isn't."""
    objects = (live.claim(), live.route("models--files", label="storage"), *ARGOCD)
    (storage_status,) = after(130, *objects, published_objects=published(CLAIM)).storages
    assert of(*storage_status.conditions) == [("Declared.HTTPRoute.models--files", "False", "RemovedStillOpen")]
    assert storage_status.message.startswith("its address https://models--files.example/ is removed, still open: ")


def test_a_route_alone() -> None:
    objects = (*RUNS, live.route(), live.route("webui--api"), *ARGOCD)
    (young,) = after(119, *objects, published_objects=published(DEPLOYMENT, ROUTE)).instances
    assert young.message == ""
    assert young.conditions[-1].message == "its address https://webui--api.example/ is being removed"
    (instance_status,) = after(120, *objects, published_objects=published(DEPLOYMENT, ROUTE)).instances
    assert (instance_status.state, instance_status.reason) == ("Running", "ProbesAnswered")
    assert instance_status.message == (
        f"its address https://webui--api.example/ is removed, still open: not published since {SINCE};"
        f" {REFRESH.format('compute')}"
    )
    assert of(*instance_status.conditions) == [("Declared.HTTPRoute.webui--api", "False", "RemovedStillOpen")]


def test_each_route_has_its_own_time_and_the_instance_s_words_stay() -> None:
    objects = (*CRASHED, live.route(), live.route("webui--api"), *ARGOCD)
    first = look(*objects, published_objects=published(DEPLOYMENT, ROUTE))
    second = look(*objects, before=first, seconds=100, published_objects=published(DEPLOYMENT))
    (instance_status,) = look(*objects, before=second, seconds=130, published_objects=published(DEPLOYMENT)).instances
    assert of(*instance_status.conditions) == [
        ("Declared.HTTPRoute.webui", "False", "Removed"),
        ("Declared.HTTPRoute.webui--api", "False", "RemovedStillOpen"),
    ]
    assert instance_status.reason == "CrashLoop"
    ended = "the container ended with exit code 1 (1 restart); "
    assert instance_status.message.startswith(f"{ended}its address https://webui--api.example/ is removed, still open")


def test_an_instance_that_is_removed_after_its_route_begins_to_count_anew() -> None:
    objects = (*RUNS, live.route())
    route = after(130, *objects, published_objects=published(DEPLOYMENT))
    (instance_status,) = look(*objects, before=route, seconds=140, published_objects=published()).instances
    assert of(*instance_status.conditions) == [("Declared", "False", "Removed")]
    assert instance_status.message == ""


@pytest.mark.parametrize(
    ("extra", "type_", "words"),
    [
        (accessor(), "Declared.Deployment.models--files", "its file server is removed, still running"),
        (
            live.job(),
            "Declared.Job.models--prepare-abc-1",
            "its preparation models--prepare-abc-1 is removed, still running",
        ),
    ],
)
def test_a_removed_file_server_or_preparation_marks_its_storage(extra: dict[str, Any], type_: str, words: str) -> None:
    (storage_status,) = after(130, live.claim(), extra, *ARGOCD, published_objects=published(CLAIM)).storages
    assert [kind for kind, _, _ in of(*storage_status.conditions)] == [type_]
    assert storage_status.message.endswith(f"{words}: not published since {SINCE}; {REFRESH.format('storage')}")


@pytest.mark.parametrize("condition", ["Complete", "Failed"])
def test_a_job_that_has_ended_runs_no_more(condition: str) -> None:
    (storage_status,) = after(
        130, live.claim(), live.job(condition=condition), published_objects=published(CLAIM)
    ).storages
    assert of(*storage_status.conditions) == []


def test_a_deployment_is_judged_by_its_object_s_name() -> None:
    other = live.deployment("webui-2")
    other["metadata"]["labels"]["allotment.dev/instance"] = "webui"
    for objects in ((*RUNS, other), (other, *RUNS)):
        (instance_status,) = after(130, *objects, published_objects=published(DEPLOYMENT)).instances
        assert (instance_status.state, instance_status.reason) == ("Running", "ProbesAnswered"), (
            "of two, the published one counts"
        )
        assert of(*instance_status.conditions) == [("Declared.Deployment.webui-2", "False", "RemovedStillRunning")]
        assert instance_status.message.startswith("its Deployment webui-2 is removed, still running: ")


def test_a_republished_instance_loses_its_removal() -> None:
    gone = after(130, *RUNS, published_objects=published())
    back = look(*RUNS, before=gone, seconds=140, published_objects=published(DEPLOYMENT, time=at(139)))
    assert back.instances == look(*RUNS).instances
    republished_status = look(*RUNS, before=back, seconds=150, published_objects=published(time=at(149)))
    assert republished_status.instances[0].conditions[-1].last_transition_time == at(150)


def test_a_removed_instance_leaves_the_status_with_its_objects() -> None:
    gone = look(
        *ARGOCD, before=after(130, *RUNS, published_objects=published()), seconds=140, published_objects=published()
    )
    assert (gone.instances, [transition.target for transition in gone.transitions]) == ((), [""])


def test_the_status_marks_no_object_newer_than_the_last_branch_read() -> None:
    """It was published after that look, or removed since: the next look tells."""
    for time in ("2026-11-21T09:59:00Z", live.AT.format(0), ""):
        status = after(600, *RUNS, live.claim(), live.snapshot(), live.bucket(), published_objects=published(time=time))
        assert status == after_unknown(600, *RUNS, live.claim(), live.snapshot(), live.bucket())
    status = look(*RUNS, published_objects=published(time=live.AT.format(1)))
    assert of(*status.instances[0].conditions) == [("Declared", "False", "Removed")]


@pytest.mark.parametrize("seconds", [30, 130])
def test_where_the_branch_is_not_known_nothing_new_is_said(seconds: int) -> None:
    known = after(seconds, *RUNS, live.route(), live.claim(), *ARGOCD, published_objects=published())
    later = look(*RUNS, live.route(), live.claim(), *ARGOCD, before=known, seconds=900)
    assert later == msgspec.structs.replace(known, transitions=())
    gone = look(*ARGOCD, before=known, seconds=900)
    assert (gone.instances, gone.storages) == ((), ())


def test_a_removal_under_way_makes_the_status_time_dependent() -> None:
    assert [
        is_time_dependent(after(seconds, *RUNS, published_objects=published())) for seconds in (0, 119, 120, 900)
    ] == [
        *(True, True),
        *(False, False),
    ]
    assert not is_time_dependent(look(*RUNS, published_objects=published(DEPLOYMENT)))


def test_an_application_that_is_gone_can_not_be_refreshed() -> None:
    (instance_status,) = after(130, *RUNS, published_objects=published()).instances
    assert instance_status.message.endswith(
        "; ask the platform team to delete it: Application solo-ada--eu-1--compute is gone"
    )


def test_all_that_is_left() -> None:
    objects = (*RUNS, live.claim(), live.snapshot(), *ARGOCD)
    assert list(find_orphans(after(119, *objects, published_objects=published()))) == []
    orphans = list(find_orphans(after(120, *objects, published_objects=published(CLAIM))))
    assert [
        (orphan.kind, f"{orphan.tenant}/{orphan.name}", orphan.condition.reason, orphan.remedy) for orphan in orphans
    ] == [
        ("instance", "solo-ada/webui", "RemovedStillRunning", REFRESH.format("compute")),
        ("snapshot", "solo-ada/keep", "RemovedStillThere", REFRESH.format("storage")),
    ]


def test_the_status_escapes_the_address_of_an_annotation() -> None:
    route = live.route()
    route["metadata"]["annotations"]["link.argocd.argoproj.io/external-link"] = "https://x/\x1b[2J\n"
    (instance_status,) = after(130, *RUNS, route, published_objects=published(DEPLOYMENT)).instances
    assert isinstance(instance_status, Instance)
    assert "its address https://x/\\x1b[2J\\n is removed" in instance_status.message


def stopping(*conditions: Condition) -> list[tuple[str, str]]:
    return [
        (condition.reason, condition.last_transition_time) for condition in conditions if condition.type == "Stopped"
    ]


def test_an_instance_that_is_published_without_replicas_and_runs_says_so_after_ten_minutes() -> None:
    published_objects = published(DEPLOYMENT, (STOPPED_DEPLOYMENT, "webui"))
    young = after(599, *RUNS, *ARGOCD, published_objects=published_objects)
    (instance_status,) = young.instances
    assert (instance_status.state, instance_status.reason, instance_status.message) == ("Running", "ProbesAnswered", "")
    assert stopping(*instance_status.conditions) == [("Stopping", SINCE)]
    assert (is_time_dependent(young), list(find_orphans(young))) == (True, [])
    old = after(600, *RUNS, *ARGOCD, published_objects=published_objects)
    (instance_status,) = old.instances
    assert (instance_status.state, instance_status.reason) == ("Running", "StoppedStillRunning")
    message = f"declared stopped, still running: published without replicas since {SINCE}"
    assert instance_status.message == f"{message}; {REFRESH.format('compute')}"
    assert [(orphan.name, orphan.is_stopped) for orphan in find_orphans(old)] == [("webui", True)]
    unknown = look(*RUNS, *ARGOCD, before=old, seconds=700)
    assert stopping(*unknown.instances[0].conditions) == [("StoppedStillRunning", SINCE)], "not known: as it was"
    begun = look(*RUNS, *ARGOCD, before=old, seconds=700, published_objects=published(DEPLOYMENT))
    assert stopping(*begun.instances[0].conditions) == []


def test_one_that_stopped_says_nothing() -> None:
    published_objects = published(DEPLOYMENT, (STOPPED_DEPLOYMENT, "webui"))
    status = after(700, *STOPPED, *ARGOCD, published_objects=published_objects)
    assert stopping(*status.instances[0].conditions) == []
    assert status.instances[0].pods == 0


def test_pods_hold_units_until_they_are_gone() -> None:
    pod = live.pod()
    (runs,) = look(*RUNS).instances
    assert runs.pods == 1
    ending = {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": SINCE}}
    (ending_instance,) = look(
        *[ending if live_object["kind"] == "Pod" else live_object for live_object in RUNS]
    ).instances
    assert ending_instance.pods == 0, "another takes its place"
    going = live.deployment()
    going["metadata"]["deletionTimestamp"] = SINCE  # which waits for its pods
    (removed,) = look(going, ending).instances
    assert removed.pods == 1
    (stopped,) = look(live.deployment(replicas=0), ending).instances
    assert stopped.pods == 1
    before = look(*RUNS)
    (orphan,) = look(ending, before=before).instances
    assert (orphan.state, orphan.reason, orphan.pods, orphan.gpu_spec) == ("Stopped", "Terminating", 1, runs.gpu_spec)
    done = {**pod, "status": {"phase": "Succeeded"}}
    assert look(done).instances == ()
