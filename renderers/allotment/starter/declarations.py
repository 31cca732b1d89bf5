"""Generate the minimal valid declarations of a new cloud, and list the values that its team must supply."""

from __future__ import annotations

from typing import Any, NamedTuple

from allotment.declared import documents
from allotment.declared.layout import MAX_NAME_LENGTHS, name_error
from allotment.edits.blanks import Blank, list_cluster_blanks, locate_blank
from allotment.edits.cluster_edits import build_cluster_spec
from allotment.edits.new_declaration import build_declaration
from allotment.manifests.yaml_text import dump_scalar
from allotment.problems import quote_value


class Cloud(NamedTuple):
    """A team's answers about its cloud: its repository, its first cluster, and its approver."""

    forge: str
    url: str
    branch: str
    cluster: str
    domain: str
    issuer: str
    admin: str
    currency: str
    time_zone: str


_OPTIONS = {"forge": "forge", "url": "url", "branch": "branch", "currency": "currency", "timeZone": "time_zone"}
_EXPECTED = {  # the errors of these options name the expected value, because the pattern alone would not help people
    "branch": "a branch such as main",
    "admin": "a login at the forge such as alice, or alice#4711 with the forge's id",
    "currency": "an ISO 4217 code such as EUR",
    "time_zone": "an IANA time zone such as Europe/Berlin",
}
GPU, POOL, STORAGE = "l4-whole", "l4-nodes", "block-ssd"
_SPECS = f"platform/specs/{GPU}.yaml"
_STORAGE_SPECS = f"platform/storage-specs/{STORAGE}.yaml"


def starter_declarations(cloud: Cloud, files_image: str = "") -> dict[str, bytes]:
    """Return the files of a cloud with one cluster, one GPUSpec and its stock, one StorageSpec, one plan, and no
    tenant.

    `files_image` is the image of the file server of storages, with its digest. If it is empty, no storage has an accessor.
    """
    folder = f"clusters/{cloud.cluster}"
    declared: dict[str, dict[str, Any]] = {
        "platform/platform.yaml": {
            "git": {"forge": cloud.forge, "url": cloud.url, "branch": cloud.branch},
            "billing": {"currency": cloud.currency, "timeZone": cloud.time_zone},
            **({"images": {"files": files_image}} if files_image else {}),
        },
        "platform/ownership.yaml": {
            "teams": [{"name": "platform", "logins": [cloud.admin]}],
            "paths": [
                {"path": "tenants/*/*/*.yaml", "approvers": [{"tenantRole": "Member"}]},
                {"path": "tenants/*/members.yaml", "approvers": [{"tenantRole": "Admin"}]},
            ],
        },
        _SPECS: {
            "gpu": {"model": "nvidia-l4", "count": 1, "memory": "24Gi", "cudaCores": 7424},
            "cpu": 8,
            "memory": "32Gi",
            "disk": "100Gi",
            "prices": [{"from": "2026-01-01", "perHour": "0.80"}],
        },
        _STORAGE_SPECS: {
            "volume": {"accessMode": "ReadWriteOnce"},
            "size": {"min": "10Gi", "max": "2Ti"},
            "prices": [{"from": "2026-01-01", "perGiBMonth": "0.10"}],
        },
        "platform/plans/team.yaml": {
            "quota": {"gpus": {"nvidia-l4": 2}, "instances": 10, "storages": 10, "storage": "1Ti"},
            "budget": {"perMonth": "1500", "enforcement": "Deny"},
            "allow": {"sharing": ["Exclusive"], "exposure": ["Members"]},
        },
        f"{folder}/cluster.yaml": build_cluster_spec(
            cloud.cluster,
            cloud.domain,
            cloud.issuer,
            [{"storageSpec": STORAGE, "storageClassName": "block-retain", "capacity": "10Ti"}],
        ),
        f"{folder}/node-pools/{POOL}.yaml": {
            "node": {"gpu": {"model": "nvidia-l4", "count": 2}, "cpu": 30, "memory": "120Gi"},
            "static": {"nodes": 1, "nodeSelector": {"pool": POOL}},
        },
        f"{folder}/stocks/{GPU}.yaml": {"gpuSpec": GPU, "nodePool": POOL, "count": 2},
    }
    return {path: build_declaration(path, spec) for path, spec in declared.items()}


def list_blanks(cloud: Cloud, files: dict[str, bytes]) -> list[Blank]:
    """Return the values that the team must supply in `files`, in the order in which the team needs them."""
    folder = f"clusters/{cloud.cluster}"
    cluster, pool, stock = (f"{folder}/{name}.yaml" for name in ("cluster", f"node-pools/{POOL}", f"stocks/{GPU}"))
    none_yet = (
        ""
        if any(path.startswith("platform/apps/") for path in files)
        else ", and there are none yet: `allot app add` declares them"
    )
    blank_fields = [
        (pool, "spec.node", "the allocatable resources of a GPU node, minus those of DaemonSets"),
        (pool, "spec.static", "the number of nodes, and labels that only these nodes have"),
        (stock, "spec.count", "the units that you sell of them"),
        (_SPECS, "spec.gpu", "your GPU, and the cpu, memory and disk of a unit"),
        (_SPECS, "spec.prices[0].perHour", f"its price, in {cloud.currency}"),
        (_STORAGE_SPECS, "spec.prices[0].perGiBMonth", f"its price, in {cloud.currency}"),
        ("platform/plans/team.yaml", "spec.quota", "the quota and the budget of a tenant on this plan"),
        (
            "platform/plans/team.yaml",
            "spec.allow",
            "imageRegistries for the tenants' own images; without them, tenants can use only the apps of platform/apps"
            + none_yet,
        ),
        ("platform/platform.yaml", "spec.billing", "currency and time zone: neither can change once there are prices"),
    ]
    others = [locate_blank(path, files[path], field, message) for path, field, message in blank_fields]
    return [*list_cluster_blanks(cluster, files[cluster], cloud.domain), *others]


def invalid_values(cloud: Cloud, *, sample: bool = False) -> list[tuple[str, str]]:
    """Return the name of each `allot init` option that has an invalid value, and the reason.

    For a sample, check only the options about the repository, because the sample has its own cluster and currency.
    """
    from pydantic import TypeAdapter, ValidationError

    from allotment.declared.addresses import Domain, IssuerUrl
    from allotment.declared.kinds.platform import Billing, Git
    from allotment.declared.values import Login

    faults: list[tuple[str, str]] = []

    def hold(kind: Any, value: Any, name: str = "") -> None:
        try:
            TypeAdapter(kind).validate_python(value)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                option = name or _OPTIONS[str(detail["loc"][0])]
                want = (
                    f"{quote_value(detail['input'])} is not allowed here: write {_EXPECTED[option]}"
                    if option in _EXPECTED
                    else ""
                )
                faults.append((option, want or detail["msg"]))

    hold(Git, {"forge": cloud.forge, "url": cloud.url, "branch": cloud.branch})
    if not sample:
        if message := name_error(cloud.cluster, MAX_NAME_LENGTHS["cluster"]):
            faults.append(("cluster", f"{quote_value(cloud.cluster)} {message}"))
        hold(Domain, cloud.domain, "domain")
        hold(IssuerUrl, cloud.issuer, "oidc_issuer")
        hold(Login, cloud.admin, "admin")
        hold(Billing, {"currency": cloud.currency, "timeZone": cloud.time_zone})
    return faults


def sample_platform(data: bytes, cloud: Cloud) -> bytes:
    """Return the sample's platform.yaml with the repository of `cloud` in `spec.git`. Comments stay."""
    lines = data.decode().splitlines()
    places = documents.find_positions(data)
    for key, value in (("forge", cloud.forge), ("url", cloud.url), ("branch", cloud.branch)):
        place = places[("spec", "git", key)]
        lines[place.line - 1] = f"{lines[place.line - 1][: place.column - 1]}{dump_scalar(value)}"
    return ("\n".join(lines) + "\n").encode()
