"""What leaves, step by step, and what is kept when time, a mark or what the cluster was seen to have is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.published import with_own_programs

from allotment.lifecycle.deletion_steps import NAMESPACE, ClusterObservation, Removal, next_removal_step
from allotment.manifests.yaml_text import load

GOLDEN = Path(__file__).parent.parent / "manifests/golden"
TENANT = "acme-robotics"
STORAGE = f"tenants/{TENANT}/storage"
MARKED, RETAINED = f"{STORAGE}/old-frames.rendered.yaml", f"{STORAGE}/frames.rendered.yaml"
LEAVING = f"{STORAGE}/old-frames--leaving.rendered.yaml"
ARGO, NAMESPACE_FILE = f"control/argo/a/{TENANT}.rendered.yaml", f"control/namespaces/a/{TENANT}.rendered.yaml"
MARKERS = {f"tenants/{TENANT}/{part}/allotment--marker.rendered.yaml" for part in ("storage", "compute")}
OTHERS = {ARGO, NAMESPACE_FILE, *MARKERS, RETAINED}
AFTER = 3600.0
THING = ("storage", "old-frames")
NOTHING_KNOWN = ClusterObservation()


def golden(path: str, cluster: str = "us-1") -> bytes:
    return (GOLDEN / cluster / path).read_bytes()


def marked(seconds: float) -> ClusterObservation:
    return ClusterObservation(True, (THING, NAMESPACE), {THING: seconds})


def leaver(
    gone: set[str], rendered: set[str], seen: ClusterObservation, *, declared: bool = True, **files: bytes
) -> Removal:
    def read(path: str) -> bytes:
        return files[path.rsplit("/", 1)[1].removesuffix(".rendered.yaml").replace("-", "_")] if files else golden(path)

    return Removal(
        tenant=TENANT,
        is_declared=declared,
        rendered_paths=rendered,
        removed_paths=gone,
        read_published=read,
        observation=seen,
        grace_seconds=AFTER,
    )


def test_next_removal_step_reports_the_removal_of_an_unmarked_storage() -> None:
    removal_step = next_removal_step(
        leaver({RETAINED}, OTHERS - {RETAINED}, ClusterObservation(True, (), {("storage", "frames"): 10 * AFTER}))
    )
    assert [finding.rule for finding in removal_step.findings] == ["deletion"]
    assert removal_step.findings[0].path == f"tenants/{TENANT}/storages/frames.yaml"


def test_a_volume_in_a_file_that_we_would_not_name_so_is_an_error_of_its_tenant_alone() -> None:
    path, data = f"tenants/{TENANT}/storage/not--ours.rendered.yaml", golden(RETAINED)
    removal_step = next_removal_step(
        Removal(
            tenant=TENANT,
            is_declared=True,
            rendered_paths=OTHERS,
            removed_paths={path},
            read_published=lambda _: data,
            observation=NOTHING_KNOWN,
            grace_seconds=AFTER,
        )
    )
    assert [(finding.rule, finding.path) for finding in removal_step.findings] == [
        ("deletion", f"tenants/{TENANT}/storages/not--ours.yaml")
    ]


@pytest.mark.parametrize(
    ("seen", "protected"),
    [
        (marked(AFTER), "false"),
        (marked(AFTER - 1), "true"),
        (marked(-5), "true"),
        (ClusterObservation(True, (THING,)), "true"),
        (ClusterObservation(True), "true"),
        (NOTHING_KNOWN, "true"),
    ],
    ids=str,
)
def test_the_cluster_must_have_been_seen_to_have_it_marked_for_an_hour(
    seen: ClusterObservation, protected: str
) -> None:
    removal_step = next_removal_step(leaver({MARKED}, OTHERS, seen))
    assert removal_step.findings == []
    assert removal_step.files.keys() == {LEAVING}
    (volume,) = load(removal_step.files[LEAVING])
    assert volume["metadata"]["annotations"]["allotment.dev/protected"] == protected
    assert ("argocd.argoproj.io/sync-options" in volume["metadata"]["annotations"]) == (protected == "true")
    assert ("no reporter watches this cluster" in removal_step.pending_deletions[0]) == (not seen.is_observed)


@pytest.mark.parametrize(
    ("seen", "stays"),
    [
        (ClusterObservation(True, (THING,), {}, (THING,)), False),
        (ClusterObservation(True, (NAMESPACE,)), False),
        (marked(9 * AFTER), True),
        (NOTHING_KNOWN, True),
    ],
    ids=str,
)
def test_an_unprotected_volume_goes_once_the_cluster_was_seen_to_have_let_it_go(
    seen: ClusterObservation, stays: bool
) -> None:
    free = next_removal_step(leaver({MARKED}, OTHERS, marked(AFTER))).files[LEAVING]
    removal_step = next_removal_step(leaver({LEAVING}, OTHERS, seen, old_frames__leaving=free))
    assert (removal_step.files == {LEAVING: free}) == stays
    assert bool(removal_step.files) == bool(removal_step.pending_deletions) == stays


def test_jobs_of_a_volume_that_leaves_are_let_go_before_it() -> None:
    path = "tenants/solo-ada/storage/styles.rendered.yaml"
    data = with_own_programs(golden(path, "eu-1")).replace(b"deletion-policy: Retain", b"deletion-policy: Delete")
    seen = ClusterObservation(True, {("storage", "styles")})
    removal_step = next_removal_step(
        Removal(
            tenant="solo-ada",
            is_declared=True,
            rendered_paths={"control/argo/s/solo-ada.rendered.yaml"},
            removed_paths={path},
            read_published=lambda _: data,
            observation=seen,
            grace_seconds=AFTER,
        )
    )
    volume, *jobs = load(removal_step.files["tenants/solo-ada/storage/styles--leaving.rendered.yaml"])
    assert volume["metadata"]["annotations"]["argocd.argoproj.io/sync-options"] == "Prune=false,Delete=false"
    assert [manifest["kind"] for manifest in jobs] == ["Job", "ConfigMap"]
    for manifest in jobs:
        assert "argocd.argoproj.io/sync-options" not in manifest["metadata"].get("annotations", {})


def test_programs_are_nothing_that_leaves() -> None:
    """What the Jobs that stay name is beside them, whatever leaves (`lifecycle/program_references.py`)."""

    def read(path: str) -> bytes:
        raise AssertionError(path)

    gone = {f"{STORAGE}/allotment--programs-seal-0123456789abcdef.rendered.yaml"}
    assert next_removal_step(
        Removal(
            tenant=TENANT,
            is_declared=True,
            rendered_paths=OTHERS,
            removed_paths=gone,
            read_published=read,
            observation=NOTHING_KNOWN,
            grace_seconds=AFTER,
        )
    ) == ({}, [], [])


def test_the_applications_of_a_tenant_that_goes_stay_while_there_are_programs_to_prune() -> None:
    left = {ARGO, NAMESPACE_FILE, *(path.replace("--marker", "--leaving") for path in MARKERS)}
    retired = golden(ARGO).replace(b"lifecycle: Active", b"lifecycle: Retired")

    def read(path: str) -> bytes:
        return retired if path == ARGO else golden(path.replace("--leaving", "--marker"))

    def stays(gone: set[str]) -> bool:
        return (
            ARGO
            in next_removal_step(
                Removal(
                    tenant=TENANT,
                    is_declared=False,
                    rendered_paths=set(),
                    removed_paths=gone,
                    read_published=read,
                    observation=ClusterObservation(True, {NAMESPACE}),
                    grace_seconds=AFTER,
                )
            ).files
        )

    assert not stays(left)
    assert stays({*left, f"{STORAGE}/allotment--programs-seal-0123456789abcdef.rendered.yaml"})


def test_an_instance_goes_at_once() -> None:
    gone = {f"tenants/{TENANT}/compute/simulate.rendered.yaml"}
    assert next_removal_step(leaver(gone, OTHERS, NOTHING_KNOWN)) == ({}, [], [])


def test_a_tenant_that_is_not_retired_does_not_go() -> None:
    removal_step = next_removal_step(leaver(OTHERS - {RETAINED}, set(), marked(10 * AFTER), declared=False))
    assert [(finding.path, finding.rule) for finding in removal_step.findings] == [
        (f"tenants/{TENANT}/tenant.yaml", "deletion")
    ]


def test_one_that_declares_nothing_there_any_more_leaves_after_what_it_had() -> None:
    removal_step = next_removal_step(leaver(OTHERS - {RETAINED}, set(), marked(10 * AFTER)))
    leaving = {path.replace("marker", "leaving") for path in MARKERS}
    assert removal_step.findings == []
    assert removal_step.files.keys() == {ARGO, NAMESPACE_FILE} | leaving
    assert removal_step.files[NAMESPACE_FILE] == golden(NAMESPACE_FILE)


@pytest.mark.parametrize(
    ("seen", "stays"),
    [
        (ClusterObservation(True, (NAMESPACE,)), False),
        (ClusterObservation(True, (THING,)), True),
        (NOTHING_KNOWN, True),
    ],
    ids=str,
)
def test_applications_go_once_the_cluster_was_seen_to_have_nothing_of_it(seen: ClusterObservation, stays: bool) -> None:
    leaving = {path.replace("marker", "leaving") for path in MARKERS}

    def read(path: str) -> bytes:
        return golden(path.replace("allotment--leaving", "allotment--marker"))

    removal_step = next_removal_step(
        Removal(
            tenant=TENANT,
            is_declared=True,
            rendered_paths=set(),
            removed_paths={ARGO, NAMESPACE_FILE, *leaving},
            read_published=read,
            observation=seen,
            grace_seconds=AFTER,
        )
    )
    assert removal_step.files.keys() == ({ARGO, NAMESPACE_FILE} | leaving if stays else {NAMESPACE_FILE})
    assert (b"sync-options" in removal_step.files[NAMESPACE_FILE]) == stays


@pytest.mark.parametrize(
    ("seen", "stays"),
    [
        (ClusterObservation(True, (NAMESPACE,), {}, (NAMESPACE,)), False),
        (ClusterObservation(True), False),
        (ClusterObservation(True, (NAMESPACE,)), True),
        (NOTHING_KNOWN, True),
    ],
    ids=str,
)
def test_a_namespace_goes_once_the_cluster_was_seen_to_have_let_it_go(seen: ClusterObservation, stays: bool) -> None:
    removal_step = next_removal_step(leaver({NAMESPACE_FILE}, set(), seen))
    assert (removal_step.files.keys() == {NAMESPACE_FILE}) == bool(removal_step.pending_deletions) == stays


def test_a_namespace_with_openings_is_let_go_whole() -> None:
    file = "control/namespaces/s/studio-kite.rendered.yaml"
    kite = Removal(tenant="studio-kite", is_declared=True, rendered_paths=set(), removed_paths={"control/argo/s/studio-kite.rendered.yaml", file}, read_published=lambda path: golden(path, "eu-1"),
                  observation=ClusterObservation(True, (NAMESPACE,)), grace_seconds=AFTER)  # fmt: skip
    objects = load(next_removal_step(kite).files[file])
    assert [manifest for manifest in objects if manifest["metadata"]["name"].startswith("read--")]
    for manifest in objects:
        assert manifest["metadata"]["annotations"]["allotment.dev/protected"] == "false"
        assert "argocd.argoproj.io/sync-options" not in manifest["metadata"]["annotations"]


INSTANCE_FILE = f"tenants/{TENANT}/compute/simulate.rendered.yaml"


class Declared(NamedTuple):
    """What the merged commit declares of the tenant."""

    folder: bool = True
    lifecycle: str = "Active"
    instance: bool = True
    storage: bool = True
    policy: str = "Retain"

    def render(self) -> dict[str, bytes]:
        if not self.folder or not (self.instance or self.storage):
            return {}
        policy = golden(MARKED).replace(b"deletion-policy: Delete", f"deletion-policy: {self.policy}".encode())
        argo = golden(ARGO).replace(b"lifecycle: Active", f"lifecycle: {self.lifecycle}".encode())
        return {
            ARGO: argo,
            **{path: golden(path) for path in (NAMESPACE_FILE, *MARKERS)},
            **({INSTANCE_FILE: golden(INSTANCE_FILE)} if self.instance else {}),
            **({MARKED: policy} if self.storage else {}),
        }


MERGES: dict[str, Callable[[Declared], Declared]] = {
    "retire": lambda declared: declared._replace(lifecycle="Retired"),
    "mark": lambda declared: declared._replace(policy="Delete"),
    "remove the instance": lambda declared: declared._replace(instance=False),
    "remove the storage": lambda declared: declared._replace(storage=False),
    "remove the folder": lambda declared: declared._replace(folder=False, instance=False, storage=False),
}
AT_ONCE = (("retire",), ("mark",), ("remove the instance",), ("retire", "remove the instance"), ("retire", "mark"))


def list_histories() -> Iterator[tuple[tuple[str, ...], ...]]:
    """Yield every order of merges that `allot validate` accepts and that ends without the folder of the tenant."""
    pending: list[tuple[tuple[tuple[str, ...], ...], Declared]] = [((), Declared())]
    while pending:
        merges, declared = pending.pop()
        for names in (*AT_ONCE, ("remove the storage",), ("retire", "remove the storage")):
            after = reduce(lambda state, name: MERGES[name](state), names, declared)
            is_new = all(MERGES[name](declared) != declared for name in names)
            if is_new and ("remove the storage" not in names or declared.policy == "Delete"):
                pending.append(((*merges, names), after))
        if declared.lifecycle == "Retired" and (declared.policy == "Delete" or not declared.storage):
            yield (*merges, ("remove the folder",))


class World:
    """The published files of the tenant, and a cluster that Argo CD syncs with them. An hour passes between two statuses."""

    def __init__(self) -> None:
        self.published = Declared().render()
        self.observation, self.mark_age = ClusterObservation(), 0.0

    def publish(self, declared: Declared) -> None:
        rendered = declared.render()
        step = next_removal_step(
            Removal(
                tenant=TENANT,
                is_declared=declared.folder,
                rendered_paths=rendered.keys(),
                removed_paths=self.published.keys() - rendered.keys(),
                read_published=self.published.__getitem__,
                observation=self.observation,
                grace_seconds=AFTER,
                lifecycle=declared.lifecycle if declared.folder else "",
            )
        )
        assert step.findings == []
        self.published = rendered | step.files

    def report(self) -> None:
        """Report the cluster after Argo CD has synced it."""
        data = self.published.get(LEAVING, self.published.get(MARKED, b""))
        is_protected = {THING: b'protected: "true"' in data, NAMESPACE: ARGO in self.published}
        present = {THING} if data else set[tuple[str, str]]()
        present |= {("instance", "simulate")} if INSTANCE_FILE in self.published else set()
        present |= {NAMESPACE} if NAMESPACE_FILE in self.published else set()
        is_marked = b"deletion-policy: Delete" in data
        self.mark_age = self.mark_age + AFTER if is_marked and THING in self.observation.marked_seconds else 0.0
        self.observation = ClusterObservation(
            True,
            present,
            {THING: self.mark_age} if is_marked else {},
            {thing for thing in present if not is_protected.get(thing, True)},
        )


@pytest.mark.parametrize(
    "history", [*list_histories()], ids=lambda history: ", then ".join(" and ".join(names) for names in history)
)
def test_a_tenant_leaves_whole_in_every_order_and_with_every_delay_of_the_status(
    history: tuple[tuple[str, ...], ...],
) -> None:
    for reports in product((False, True), repeat=len(history)):
        world, declared = World(), Declared()
        for names, is_reported in zip(history, reports, strict=True):
            declared = reduce(lambda state, name: MERGES[name](state), names, declared)
            world.publish(declared)
            if is_reported:
                world.report()
        for _ in range(8):
            world.report()
            world.publish(declared)
        assert world.published == {}, reports
