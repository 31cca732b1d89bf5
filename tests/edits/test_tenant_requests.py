"""`tenant_requests` raises the limits of a single tenant, and changes no file that the request doesn't need."""

from __future__ import annotations

import datetime
import re

import pytest
from tests.conftest import PROJECT

from allotment.adapters.folder_source import FolderSource
from allotment.edits.change_set import ChangeSet
from allotment.edits.operation_id import write_message
from allotment.edits.tenant_requests import SpecRequest, check_reason, request_quota, request_spec
from allotment.problems import OperationRefused
from allotment.services.changes.declared_files import open_declarations
from allotment.services.changes.tenant_offers import compute_tenant_offers

DECLARED = open_declarations(FolderSource(PROJECT))
TENANT = "tenants/studio-kite/tenant.yaml"
STOCK = "clusters/eu-1/stocks/l4-whole-kite.yaml"


def request(gpu_spec: str, cluster: str = "", count: str = "1", tenant: str = "studio-kite") -> ChangeSet:
    offers = compute_tenant_offers(DECLARED, tenant, lambda source: datetime.date(2026, 11, 1))
    return request_spec(DECLARED, offers.offers, offers.allowance, SpecRequest(gpu_spec, cluster, count), "More")


def list_added_lines(change: ChangeSet) -> dict[str, list[str]]:
    return {
        path: [line.strip() for line in (data or b"").decode().splitlines() if line not in (PROJECT / path).read_text()]
        for path, data in change.files.items()
    }


def test_a_quota_is_a_field_of_the_tenant() -> None:
    change = request_quota(DECLARED, "studio-kite", ["gpus.nvidia-l4=12", "instances=30"], "A film")
    assert list_added_lines(change) == {TENANT: ["quota:", "gpus:", "nvidia-l4: 12", "instances: 30"]}
    assert change.title == "Set the quota of studio-kite to gpus.nvidia-l4=12, instances=30"
    assert write_message(change, "deploy-1") == f"{change.title}\n\nReason: A film\n\nOperation-ID: deploy-1\n"


@pytest.mark.parametrize(
    ("assignment", "limit", "value"),
    [("gpus.nvidia-l4=4", "8", "4"), ("instances=1", "20", "1"), ("storage=100Gi", "5Ti", "100Gi")],
)
def test_a_request_lowers_no_quota(assignment: str, limit: str, value: str) -> None:
    field = assignment.partition("=")[0]
    with pytest.raises(OperationRefused) as refused:
        request_quota(DECLARED, "studio-kite", [assignment], "A film")
    assert str(refused.value) == (
        f"quota.{field} of studio-kite is {limit}, and {value} is less: a request only raises a quota, and"
        f" `allot set Tenant/studio-kite quota.{assignment}` lowers it"
    )


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (
            [],
            "no field is set: write FIELD=VALUE; the quota of studio-kite is gpus.nvidia-a100-80gb=2, gpus.nvidia-l4=8,"
            " instances=20, storages=50, snapshots=50, storage=5Ti",
        ),
        (["instances=30", "gpus=12"], "gpus=12 names no model: write gpus.nvidia-a100-80gb=12 or gpus.nvidia-l4=12"),
    ],
)
def test_a_request_names_the_fields_of_the_quota(assignments: list[str], message: str) -> None:
    with pytest.raises(OperationRefused, match=f"^{re.escape(message)}$"):
        request_quota(DECLARED, "studio-kite", assignments, "A film")


def test_a_spec_beyond_the_quota_changes_only_the_tenant() -> None:
    change = request("h100-one")
    assert list_added_lines(change) == {TENANT: ["quota:", "gpus:", "nvidia-h100-80gb: 1"]}
    assert (change.title, change.reason) == ("Allow studio-kite 1 more unit of h100-one in us-1", "More")
    assert change.notes[0].startswith("Until the merge: no nvidia-h100-80gb is in its quota; a month of it costs ")


def test_units_that_are_not_free_are_reserved() -> None:
    change = request("l4-whole", "eu-1", "5")
    assert list_added_lines(change) == {STOCK: ["count: 3"], TENANT: ["quota:", "gpus:", "nvidia-l4: 9"]}
    change = request("l4-half", tenant="ml-orbit")
    assert list(change.files) == ["clusters/eu-1/stocks/l4-half-ml-orbit.yaml"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("l4-whole",),
            "no quota and no stock prevents 1 more unit of l4-whole in eu-1 for studio-kite: `allot instance create`",
        ),
        (
            ("l4-whole", "", "1", "solo-ada"),
            "plan starter doesn't allow Exclusive, only TimeSlicing, and no tenant has its own",
        ),
        (("l4-whole", "us-1"), "--cluster: no stock of l4-whole is in a cluster named 'us-1'"),
        (("l4-whole", "", "0"), "--count: '0' is not a whole number from 1 to 100000"),
        (("l4-whol",), "the platform has no GPUSpec named 'l4-whol'; did you mean 'l4-whole'?"),
    ],
)
def test_a_request_without_a_change_is_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(OperationRefused, match=re.escape(message)):
        request(*words)


def test_a_reason_is_one_line() -> None:
    assert check_reason("For\nOperation-ID: x ") == "For Operation-ID: x"
    for text in (" ", "x" * 2001):
        with pytest.raises(OperationRefused, match="--reason has "):
            check_reason(text)
