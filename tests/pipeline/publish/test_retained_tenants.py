"""Why a tenant is retained: each cause gives its reason, in the output of the publish and in the record at the remote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from tests.conftest import edit
from tests.pipeline.publish.test_tenant_error import BREAKS
from tests.published import Place

from allotment.manifests.gate.entitlements import Entitlements
from allotment.observed.retention import RetentionReason
from allotment.pipeline.check import share

WEBUI = "tenants/solo-ada/instances/webui.yaml"
Cause = Callable[[Place, pytest.MonkeyPatch], None]


def misspell(place: Place, _: pytest.MonkeyPatch) -> None:
    """Let solo-ada name a GPUSpec that does not exist."""
    edit(place.root, WEBUI, "l4-quarter", "l4-fifth")


def _remove_storage(place: Place, _: pytest.MonkeyPatch) -> None:
    (place.root / WEBUI).unlink()
    (place.root / "tenants/solo-ada/storages/models.yaml").unlink()


def _stop_at_gate(place: Place, patch: pytest.MonkeyPatch) -> None:
    def judge(_: Entitlements, text: str) -> Iterator[str]:
        yield from ["a mistake"] if "namespace: t-solo-ada" in text and "kind: Service\n" in text else []

    patch.setattr(Entitlements, "judge", judge)
    edit(place.root, WEBUI, "spec:\n", "spec:\n  state: Stopped\n")


def _spend_time(place: Place, patch: pytest.MonkeyPatch) -> None:
    def through(self: share.TimeShare, items: Iterator[object]) -> Iterator[object]:
        for item in items:
            if isinstance(item, tuple) and "solo-ada" in str(item[0]):
                raise share.Spent
            yield item

    patch.setattr(share.TimeShare, "through", through)
    edit(place.root, WEBUI, "spec:\n", "spec:\n  state: Stopped\n")


def _delete_instances(place: Place, _: pytest.MonkeyPatch) -> None:
    edit(place.root, "platform/platform.yaml", "minObjects: 10", "minObjects: 1")
    for path in (place.root / "tenants/uni-lab/instances").glob("*.yaml"):
        path.unlink()


def _break_cluster(place: Place, _: pytest.MonkeyPatch) -> None:
    edit(place.root, "clusters/us-1/cluster.yaml", "domain: ", "domaine: ")


def _fail(place: Place, patch: pytest.MonkeyPatch) -> None:
    BREAKS["transition"](patch)
    edit(place.root, WEBUI, "spec:\n", "spec:\n  state: Stopped\n")


CAUSES: dict[RetentionReason, Cause] = {
    RetentionReason.INVALID: misspell,
    RetentionReason.REFUSED_TRANSITION: _remove_storage,
    RetentionReason.ISOLATION_GATE: _stop_at_gate,
    RetentionReason.TIME_BUDGET: _spend_time,
    RetentionReason.BRAKE: _delete_instances,
    RetentionReason.INVALID_CLUSTER: _break_cluster,
    RetentionReason.PROGRAM_ERROR: _fail,
}


@pytest.mark.parametrize("reason", RetentionReason)
def test_each_cause_has_its_reason(published: Place, monkeypatch: pytest.MonkeyPatch, reason: RetentionReason) -> None:
    with monkeypatch.context() as patch:
        CAUSES[reason](published, patch)
        said = published.merged("-o", "json")
    assert said.code == 4, said.err
    kept = json.loads(said.out)["kept"]
    assert kept
    assert {one["reason"] for one in kept} == {reason}
