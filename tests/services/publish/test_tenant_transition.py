"""What becomes of what a tenant had, of each kind of change alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.conftest import edit
from tests.services.publish.written import before, of_files, render_files
from tests.support.published import of_another_version, with_own_programs

from allotment.adapters.folder_source import FolderSource
from allotment.lifecycle.volume_transitions import StorageUsers
from allotment.manifests import names, paths
from allotment.services.publish.observed_state import EMPTY_STATE, ObservedState, ObservedTenant
from allotment.services.publish.published_trees import PublishedTrees
from allotment.services.publish.tenant_transition import TenantTransition, TransitionContext, transition_tenant

MODELS = "tenants/solo-ada/storages/models.yaml"
FILE, LEAVING = (f"eu-1/{paths.resource_file('solo-ada', 'storage', stem)}" for stem in ("models", "models--leaving"))
UNKNOWN = TransitionContext(EMPTY_STATE, 60, lambda *_: StorageUsers(), lambda *_: "")
NOTHING_BECOMES = TenantTransition([], {}, {}, [], [])


@pytest.fixture
def files(sample: Path) -> dict[str, bytes]:
    """Return what solo-ada is rendered to."""
    rendered_files = render_files(FolderSource(sample))
    assert FILE in rendered_files
    return rendered_files


def deleted(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return files in which the storage may be deleted."""
    return files | {FILE: files[FILE].replace(b"deletion-policy: Retain", b"deletion-policy: Delete")}


def decide_transition(
    files: dict[str, bytes], was: PublishedTrees, watched: TransitionContext = UNKNOWN
) -> TenantTransition:
    return transition_tenant("solo-ada", True, of_files(files, was), was, watched)


def test_transition_tenant_changes_nothing_for_unchanged_files(files: dict[str, bytes]) -> None:
    assert decide_transition(files, before(files)) == NOTHING_BECOMES


def test_an_instance_goes_at_once(files: dict[str, bytes]) -> None:
    (webui,) = [path for path in files if path.endswith("/compute/webui.rendered.yaml")]
    less = {path: data for path, data in files.items() if path != webui}
    assert decide_transition(less, before(files)) == NOTHING_BECOMES


def test_a_storage_may_not_go_that_is_to_be_kept(files: dict[str, bytes]) -> None:
    less = {path: data for path, data in files.items() if path != FILE}
    tenant_transition = decide_transition(less, before(files))
    assert [finding.path for finding in tenant_transition.findings] == [MODELS]
    assert tenant_transition.retained == {}


def test_a_storage_that_may_goes_in_steps_by_what_its_cluster_was_seen_to_have(files: dict[str, bytes]) -> None:
    less, was = {path: data for path, data in files.items() if path != FILE}, before(deleted(files))
    first = decide_transition(less, was)
    assert first.findings == []
    assert list(first.retained) == [LEAVING]
    assert first.pending_deletions == [
        "eu-1: storage solo-ada/models: kept until the status shows that it has been marked for 1m; no reporter watches this cluster, so nothing is removed"
    ]
    storage = ("eu-1", "storage", "models")
    known = ObservedTenant(present=frozenset({storage}), marked_since={storage: "2026-11-21T10:00:00Z"})
    for time, protected in (("2026-11-21T10:00:59Z", True), ("2026-11-21T10:01:00Z", False), ("nonsense", True)):
        tenant_transition = decide_transition(
            less, was, UNKNOWN._replace(observed_state=ObservedState({"solo-ada": known}, {"eu-1": time}))
        )
        claim = next(yaml.safe_load_all(tenant_transition.retained[LEAVING]))
        assert (claim["metadata"]["annotations"][names.PROTECTED] == "true") == protected, time
    gone = UNKNOWN._replace(
        observed_state=ObservedState(
            {"solo-ada": ObservedTenant(unprotected=frozenset({storage}))}, {"eu-1": "2026-11-21T10:02:00Z"}
        )
    )
    left = {path: data for path, data in deleted(files).items() if path != FILE} | {
        LEAVING: tenant_transition.retained[LEAVING]
    }
    unprotected = left | {LEAVING: left[LEAVING].replace(b'protected: "true"', b'protected: "false"')}
    assert decide_transition(less, before(unprotected), gone) == NOTHING_BECOMES


def test_a_storage_that_is_declared_again_is_taken_back(files: dict[str, bytes]) -> None:
    less, was = {path: data for path, data in files.items() if path != FILE}, before(deleted(files))
    published_files = less | decide_transition(less, was).retained
    tenant_transition = decide_transition(files, before(published_files))
    assert (tenant_transition.findings, tenant_transition.retained) == ([], {})
    claim = next(yaml.safe_load_all(tenant_transition.updated[FILE]))
    assert claim["metadata"]["annotations"][names.PROTECTED] == "true"


def test_a_volume_does_not_shrink(sample: Path, files: dict[str, bytes]) -> None:
    edit(sample, MODELS, "size: 60Gi", "size: 50Gi")
    rendered_files = render_files(FolderSource(sample))
    (finding,) = decide_transition(rendered_files, before(files)).findings
    assert (finding.path, finding.field) == (MODELS, ("spec", "size"))


def test_a_preparation_waits_until_who_uses_the_volume_has_stopped(sample: Path) -> None:
    styles = "tenants/solo-ada/storages/styles.yaml"
    path = f"eu-1/{paths.resource_file('solo-ada', 'storage', 'styles')}"
    was = render_files(FolderSource(sample))
    edit(sample, styles, "  prepare:\n", "  prepare:\n    attempt: 2\n")
    now = render_files(FolderSource(sample))
    for users, held, allowed in (
        (StorageUsers(stopping_instances=["webui"]), "waits until webui has stopped", True),
        (StorageUsers(running_instances=["webui"]), "", False),
        (StorageUsers(), "waits until the status shows the end of the previous preparation", True),
    ):
        queries: list[tuple[str, str]] = []

        def ask(
            cluster: str, storage: str, users: StorageUsers = users, queries: list[tuple[str, str]] = queries
        ) -> StorageUsers:
            queries.append((cluster, storage))
            return users

        tenant_transition = decide_transition(now, before(was), UNKNOWN._replace(find_users=ask))
        assert queries == [("eu-1", "styles")]
        assert bool(tenant_transition.findings) != allowed
        assert "".join(tenant_transition.pending_preparations).endswith(held)
        jobs = [
            each["metadata"]["name"]
            for each in yaml.safe_load_all(tenant_transition.updated[path])
            if each["kind"] == "Job"
        ]
        if allowed:
            assert [name[-2:] for name in jobs] == ["-1"], "the last Job stays until another may begin"


def test_a_new_storage_is_not_prepared_because_another_of_its_name_was(sample: Path, files: dict[str, bytes]) -> None:
    less = {path: data for path, data in files.items() if path != FILE}
    watched = UNKNOWN._replace(find_last_job_uid=lambda cluster, storage: f"uid-of-{cluster}-{storage}")
    tenant_transition = decide_transition(files, before(less), watched)
    assert list(tenant_transition.updated) == [FILE]
    claim = next(yaml.safe_load_all(tenant_transition.updated[FILE]))
    assert "uid-of-eu-1-models" in claim["metadata"]["annotations"].values()
    assert decide_transition(files, before({}), watched) == NOTHING_BECOMES, (
        "a branch that is new says nothing of its storages"
    )


def test_a_jobs_programs_stay_as_long_as_it_does(sample: Path, files: dict[str, bytes]) -> None:
    (now,) = [path for path in files if paths.is_programs(path)]
    path = f"eu-1/{paths.resource_file('solo-ada', 'storage', 'styles')}"
    job, name, theirs = of_another_version(files[path])
    other = f"eu-1/{paths.resource_file('solo-ada', 'storage', name)}"
    older = {**{file_path: data for file_path, data in files.items() if file_path != now}, path: job, other: theirs}
    tenant_transition = decide_transition(files, before(older))
    assert (tenant_transition.updated, tenant_transition.retained, tenant_transition.unreferenced) == (
        {path: job},
        {other: theirs},
        {now},
    )
    edit(sample, MODELS, "size: 60Gi", "size: 70Gi")
    grown = render_files(FolderSource(sample))
    tenant_transition = decide_transition(grown, before(older))
    assert (tenant_transition.updated.keys(), tenant_transition.retained, tenant_transition.unreferenced) == (
        {path, FILE},
        {other: theirs},
        {now},
    )
    assert decide_transition(files, before({**files, other: theirs})) == NOTHING_BECOMES, "nobody names them any more"
    lost = {file_path: data for file_path, data in older.items() if file_path != other}
    assert decide_transition(files, before(lost)).retained == {}


def test_transition_tenant_ignores_a_job_at_a_program_or_marker_path(files: dict[str, bytes]) -> None:
    """Somebody else's Job there is neither kept nor asked after."""
    job = files[f"eu-1/{paths.resource_file('solo-ada', 'storage', 'styles')}"]
    for path in files:
        if "/storage/allotment--" in path:
            assert decide_transition(files, before({**files, path: job})) == NOTHING_BECOMES, path


def test_a_job_with_programs_beside_it_needs_no_others(files: dict[str, bytes]) -> None:
    (now,) = [path for path in files if paths.is_programs(path)]
    path = f"eu-1/{paths.resource_file('solo-ada', 'storage', 'styles')}"
    older = {
        **{file_path: data for file_path, data in files.items() if file_path != now},
        path: with_own_programs(files[path]),
    }
    tenant_transition = decide_transition(files, before(older))
    assert (tenant_transition.updated, tenant_transition.retained, tenant_transition.unreferenced) == (
        {path: older[path]},
        {},
        {now},
    )


def test_a_tenant_without_a_folder_may_not_go_unless_it_is_retired(files: dict[str, bytes]) -> None:
    was = before({path: data for path, data in files.items() if "/storage/" not in path})
    (finding,) = transition_tenant("solo-ada", False, None, was, UNKNOWN).findings
    assert finding.path == "tenants/solo-ada/tenant.yaml"
