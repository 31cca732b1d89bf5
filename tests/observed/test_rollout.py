"""A rollout of a removal ends when what was removed is gone, and fails where it stays."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest
from tests.support import live
from tests.support.instances import CRASHED, RUNS
from tests.support.orphans import (
    ARGOCD,
    CLAIM,
    DEPLOYMENT,
    REFRESH,
    ROUTE,
    SINCE,
    accessor,
    after,
    look,
    published,
)

from allotment.observed.retention import RetainedTenant, RetentionReason
from allotment.observed.rollout import BlobVersions, ResourceRef, RolloutStage, derive_stage
from allotment.observed.status import ApplicationStatus, Condition, Instance, TenantStatus

WEBUI = ResourceRef("instance", live.TENANT, "webui", "eu-1", "")
CHANGED = WEBUI._replace(blob="b1")
MODELS = ResourceRef("storage", live.TENANT, "models", "eu-1", "")
KEEP = ResourceRef("snapshot", live.TENANT, "keep", "eu-1", "")
WAITS = "keeps 1 unit of l4-quarter on eu-1, as published, until 1 unit of l4-whole is free"
REMOVED = BlobVersions("", "")
STAYS = f"{{}}: not published since {SINCE}"


def of(resource: ResourceRef, *statuses: TenantStatus) -> RolloutStage:
    return derive_stage(resource, BlobVersions(resource.blob, resource.blob), statuses)


def test_an_instance_that_is_published_as_it_was_waits_where_it_says_so() -> None:
    waits = derive_stage(CHANGED, BlobVersions("b1", "b0", wait_message=WAITS), [look(*RUNS)])
    assert waits == RolloutStage("going", "waiting", WAITS, remedy="stop another instance, or choose another GPUSpec")
    assert derive_stage(CHANGED, BlobVersions("b1", "b0"), [look(*RUNS)]).state == "kept"
    assert derive_stage(CHANGED, BlobVersions("b2", "b0", wait_message=WAITS), [look(*RUNS)]).state == "overtaken"


def test_a_change_of_a_retained_tenant_names_the_reason() -> None:
    tenant = RetainedTenant(live.TENANT, RetentionReason.BRAKE, SINCE, ("the brake stops this", "more"), 3)
    words = "its tenant is retained: Brake: the brake stops this (and 4 more)"
    way_out = "restore the declarations, or have the deletion approved"
    for old, what in (("b0", "the previous version is still published"), ("", "not published")):
        stage = derive_stage(CHANGED, BlobVersions("b1", old), [], retained=tenant)
        assert stage == RolloutStage("failed", "kept", f"{what}: {words}", remedy=way_out)
    assert derive_stage(CHANGED, BlobVersions("b1", "b1"), [look(*RUNS)], retained=tenant).state != "kept"


@pytest.mark.parametrize(
    ("resource", "objects", "state", "part"),
    [
        (WEBUI, RUNS, "still running", "compute"),
        (MODELS, (live.claim(),), "still there", "storage"),
        (KEEP, (live.snapshot(),), "still there", "storage"),
    ],
)
def test_a_removed_thing(resource: ResourceRef, objects: tuple[dict[str, Any], ...], state: str, part: str) -> None:
    being_removed = RolloutStage("going", "published", "being removed")
    assert of(resource, look(*objects, *ARGOCD)) == being_removed, "the reporter hasn't seen the branch yet"
    assert of(resource, after(119, *objects, *ARGOCD, published_objects=published())) == being_removed
    assert of(resource, after(120, *objects, *ARGOCD, published_objects=published())) == RolloutStage(
        "failed", state, STAYS.format(f"removed, {state}"), remedy=REFRESH.format(part)
    )
    assert of(resource, look(*ARGOCD)) == of(resource) == RolloutStage("done", "gone")


def test_another_cluster_s_counts_for_nothing() -> None:
    assert of(WEBUI._replace(cluster="us-1"), after(120, *RUNS, published_objects=published())) == RolloutStage(
        "done", "gone"
    )


def test_an_address_that_was_removed() -> None:
    objects = (*RUNS, live.route(), live.route("webui--api"), *ARGOCD)
    done = of(CHANGED, look(*objects, published_objects=published(DEPLOYMENT, ROUTE, ("HTTPRoute", "webui--api"))))
    assert (done.progress, done.state) == ("done", "running")
    young = of(CHANGED, after(119, *objects, published_objects=published(DEPLOYMENT, ROUTE)))
    words = "its address https://webui--api.example/ is"
    assert young == RolloutStage("going", "running", f"{words} being removed", "https://webui.example/")
    assert of(CHANGED, after(120, *objects, published_objects=published(DEPLOYMENT, ROUTE))) == RolloutStage(
        "failed", "still open", STAYS.format(f"{words} removed, still open"), remedy=REFRESH.format("compute")
    )


def test_why_it_fails_is_said_with_what_stays() -> None:
    rollout_stage = of(CHANGED, after(120, *CRASHED, live.route(), *ARGOCD, published_objects=published(DEPLOYMENT)))
    assert (rollout_stage.progress, rollout_stage.state) == ("failed", "failed")
    assert rollout_stage.message.startswith(
        "the container ended with exit code 1 (1 restart); its address https://webui.example/ is"
    )
    assert "report it to the platform team if it runs an app" in rollout_stage.remedy


def test_a_remaining_file_server_fails_the_rollout_of_its_storage() -> None:
    rollout_stage = of(MODELS, after(120, live.claim(), accessor(), *ARGOCD, published_objects=published(CLAIM)))
    assert (rollout_stage.progress, rollout_stage.state) == ("failed", "still running")


@pytest.mark.parametrize(
    ("tree", "words"),
    [("0123", "Argo CD can't compare its Application"), ("", "Argo CD hasn't applied it yet")],  # nor compared it ever
)
def test_a_change_that_argo_cd_cannot_compare_says_so(tree: str, words: str) -> None:
    status = look(*RUNS, live.application(sync="Unknown"))
    applications = [msgspec.structs.replace(application, tree=tree) for application in status.applications]
    stage = of(CHANGED._replace(blob="newer"), msgspec.structs.replace(status, applications=tuple(applications)))
    assert (stage.progress, stage.state) == ("going", "published")
    assert stage.message.startswith(words)


SYNC_FAILED = Condition("Synced", "False", "SyncFailed", "", SINCE)


@pytest.mark.parametrize(
    ("name", "state", "conditions", "progress"),
    [
        ("webui", "Running", (), "going"),
        ("webui", "Failed", (), "going"),
        ("webui", "Running", (SYNC_FAILED,), "failed"),
        ("new", "Running", (), "failed"),
        ("new", "Failed", (), "going"),
    ],
)
def test_another_failed_resource_of_its_application_fails_no_change(
    name: str, state: str, conditions: tuple[Condition, ...], progress: str
) -> None:
    status = look(*RUNS)
    webui = msgspec.structs.replace(status.instances[0], state=state, conditions=conditions)
    applications = (ApplicationStatus("compute", "OutOfSync", "Degraded", tree="0123"),)
    status = msgspec.structs.replace(status, instances=(webui,), applications=applications)
    stage = of(CHANGED._replace(name=name, blob="newer"), status)
    message = "Argo CD can't apply it" if progress == "failed" else "Argo CD hasn't applied it yet"
    assert (stage.progress, stage.state, stage.message) == (progress, "published", message)


def test_a_republished_instance_waits_for_a_newer_status() -> None:
    rollout_stage = of(CHANGED, after(120, *RUNS, *ARGOCD, published_objects=published()))
    assert (rollout_stage.progress, rollout_stage.state) == ("going", "published")


@pytest.mark.parametrize(
    ("sync", "url", "progress"),
    [
        ("Synced", "", "done"),
        ("OutOfSync", "", "going"),
        ("OutOfSync", "https://webui.northlight.example/", "done"),
        ("Unknown", "", "done"),
    ],
)
def test_an_instance_that_runs_is_done_once_its_address_can_be_known(sync: str, url: str, progress: str) -> None:
    status = look(*RUNS)
    (running,) = status.instances
    applications = tuple(application for application in status.applications if application.name != "compute")
    status = msgspec.structs.replace(
        status,
        instances=(msgspec.structs.replace(running, url=url),),
        applications=(*applications, ApplicationStatus("compute", sync, "Healthy")),
    )
    stage = of(CHANGED._replace(blob=running.observed_blob), status)
    assert (stage.progress, stage.state, stage.url) == (progress, "running", url)


def test_a_failed_storage_fails_no_new_snapshot() -> None:
    status = look(live.claim(), *ARGOCD)
    models = msgspec.structs.replace(status.storages[0], state="Failed")
    applications = (ApplicationStatus("storage", "OutOfSync", "Degraded", tree="0123"),)
    status = msgspec.structs.replace(status, storages=(models,), applications=applications)
    assert of(KEEP._replace(name="new", blob="b1"), status).message == "Argo CD hasn't applied it yet"


@pytest.mark.parametrize(
    ("minutes", "advice"),
    [
        (11, "it continues without your action"),
        (13, "stop it, so that it costs nothing, or ask the platform team about the node"),
    ],
)
def test_a_lost_node_is_waited_for_only_as_long_as_a_restart_takes(minutes: int, advice: str) -> None:
    instance = Instance("webui", "b1", "Waiting", "NodeLost", "its node doesn't respond", "2026-11-20T10:00:00Z")
    now = datetime.datetime(2026, 11, 20, 10, minutes, tzinfo=datetime.UTC)
    status = TenantStatus(live.TENANT, "eu-1", instances=(instance,))
    stage = derive_stage(CHANGED, BlobVersions("b1", "b1"), [status], now=now)
    assert stage == RolloutStage("going", "waiting", "its node doesn't respond", remedy=advice)
