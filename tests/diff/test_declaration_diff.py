"""What is declared otherwise: each kind of change in a line that a person understands, what is dangerous first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import copy, edit

from allotment.adapters.folder_source import FolderSource
from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder
from allotment.diff.declaration_diff import declared_changes
from allotment.diff.declared_change import TOPICS
from allotment.diff.field_diff import DiffCache
from allotment.services.check.workers import read_scope

QUARTER, SSD = "platform/specs/l4-quarter.yaml", "platform/storage-specs/block-ssd.yaml"
OWNERSHIP, MEMBERS, ADA = "platform/ownership.yaml", "tenants/solo-ada/members.yaml", "tenants/solo-ada/tenant.yaml"
EU, POOL = "clusters/eu-1/cluster.yaml", "clusters/eu-1/node-pools/l4-ts4.yaml"
STOCK, APP = "clusters/eu-1/stocks/l4-quarter.yaml", "platform/apps/stable-diffusion-webui.yaml"
COMFY = "tenants/studio-kite/instances/comfy.yaml"
SIMULATE = "tenants/acme-robotics/instances/simulate.yaml"
MODELS = "tenants/solo-ada/storages/models.yaml"
WIDE = "  paths:\n    - path: tenants/**\n      approvers:\n        - login: eve\n"
FILES = "sha256:5b1f0a39e2d4c7b8a6950e1f2d3c4b5a69788796a5b4c3d2e1f0a1b2c3d4e5f6"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP3uQw1AvVfe6sGGzZeQAz0PBvkJqIBufObnF6t8fVAp"


def folders(root: Path) -> dict[Scope, ScopeDeclarations]:
    source = FolderSource(root)
    return {scope: read_folder(scope, read_scope(source, scope).files)[0] for scope in source.scopes()[0]}


def changes(root: Path, change: Callable[[Path], object]) -> list[str]:
    """Return what a change declares otherwise, by topic."""
    before = folders(root)
    change(root)
    after = folders(root)

    def describe_changes() -> Iterator[str]:
        for scope in sorted(before.keys() | after.keys()):
            nothing = ScopeDeclarations(scope)
            for declared_change in declared_changes(
                before.get(scope, nothing), after.get(scope, nothing), "EUR", DiffCache()
            ):
                yield f"{declared_change.topic}: {declared_change.path}: {declared_change.text}"

    return list(describe_changes())


def swap(path: str, old: str, new: str) -> Callable[[Path], object]:
    return lambda root: edit(root, path, old, new)


def both(*steps: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda root: [step(root) for step in steps]


def new_tenant(root: Path) -> None:
    (root / "tenants/new-lab").mkdir()
    for name in ("tenant", "members"):
        text = (root / f"tenants/solo-ada/{name}.yaml").read_text().replace("solo-ada", "new-lab")
        (root / f"tenants/new-lab/{name}.yaml").write_text(text)


CASES = {
    "a price that rises": (
        swap(QUARTER, "  prices:\n", '  prices:\n    - from: "2026-12-01"\n      perHour: "0.60"\n'),
        [f"prices: {QUARTER}: spec.prices from 2026-12-01 0.21 → 0.60 (EUR an hour, +185.7 %)"],
    ),
    "a price that was announced and doesn't rise": (
        swap(QUARTER, '"0.21"', '"0.24"'),
        [f"prices: {QUARTER}: spec.prices from 2026-10-01 0.21 → 0.24 (EUR an hour, +14.3 %)"],
    ),
    "a price that comes back": (
        swap(
            QUARTER,
            "  prices:\n",
            '  prices:\n    - from: "2026-12-01"\n      perHour: "0.10"\n    - from: "2027-01-01"\n      perHour: "0.21"\n',
        ),
        [
            f"prices: {QUARTER}: spec.prices from 2026-12-01 0.21 → 0.10 (EUR an hour, -52.4 %)",
            f"prices: {QUARTER}: spec.prices from 2027-01-01 0.21 → 0.21 (as before)",
        ],
    ),
    "a price that is said twice": (
        swap(QUARTER, "  prices:\n", '  prices:\n    - from: "2026-12-01"\n      perHour: "0.21"\n'),
        [],
    ),
    "prices of storage and its snapshots": (
        swap(SSD, "  prices:\n", '  prices:\n    - from: "2027-01-01"\n      perGiBMonth: "0.05"\n'),
        [f"prices: {SSD}: spec.prices from 2027-01-01 0.10 → 0.05 (EUR a GiB and month, -50.0 %)"],
    ),
    "a budget": (
        swap("platform/plans/starter.yaml", '"300"', '"3000"'),
        ["plans: platform/plans/starter.yaml: spec.budget.perMonth 300 → 3000 (+900.0 %)"],
    ),
    "a plan's limits": (
        swap("platform/plans/team.yaml", "nvidia-l4: 8", "nvidia-l4: 80"),
        ["plans: platform/plans/team.yaml: spec.quota.gpus.nvidia-l4 8 → 80"],
    ),
    "a tenant's plan": (swap(ADA, "plan: starter", "plan: team"), [f"tenants: {ADA}: spec.plan starter → team"]),
    "a tenant's own quota": (
        swap(ADA, "  plan: starter\n", "  plan: starter\n  quota:\n    storage: 2Ti\n"),
        [f"tenants: {ADA}: spec.quota added: storage 2Ti"],
    ),
    "a default that is written": (swap(ADA, "  plan: starter\n", "  plan: starter\n  lifecycle: Active\n"), []),
    "a tenant that is suspended": (
        swap(ADA, "  plan: starter\n", "  plan: starter\n  lifecycle: Suspended\n"),
        [f"tenants: {ADA}: spec.lifecycle Active → Suspended"],
    ),
    "a port of an App leads elsewhere": (
        swap(APP, "containerPort: 7860", "containerPort: 22"),
        [
            f"access: {APP}: spec.versions[1.10.1].container.ports[http].containerPort 7860 → 22 (points to port 22 instead of 7860: exposure Members)"
        ],
    ),
    "a new tenant": (
        new_tenant,
        [
            "access: tenants/new-lab/members.yaml: spec.users[ada] added: role Admin, login ada-k, subject 00u1ada,"
            f" sshKeys '{KEY}'",
            "tenants: tenants/new-lab/tenant.yaml: added: plan starter",
        ],
    ),
    "somebody made admin": (
        swap(MEMBERS, "  users:\n", "  users:\n    - name: eve\n      role: Admin\n      login: eve-k\n"),
        [f"access: {MEMBERS}: spec.users[eve] added: role Admin, login eve-k"],
    ),
    "a role": (
        swap(MEMBERS, "role: Admin", "role: Viewer"),
        [f"access: {MEMBERS}: spec.users[ada].role Admin → Viewer"],
    ),
    "a new approver": (
        swap(OWNERSHIP, "        - fin-ann\n", "        - fin-ann\n        - mallory\n"),
        [
            f"approvals: {OWNERSHIP}: spec.teams[finance].logins added: mallory (team finance approves spec.prices of GPUSpec,"
            " spec.prices of StorageSpec, spec.reservation of Stock, spec.budget of Plan and 3 more)"
        ],
    ),
    "another approver of paths": (
        swap(OWNERSHIP, "        - tenantRole: Admin\n", "        - login: eve\n"),
        [
            f"approvals: {OWNERSHIP}: spec.paths[tenants/*/members.yaml].approvers removed: tenantRole Admin",
            f"approvals: {OWNERSHIP}: spec.paths[tenants/*/members.yaml].approvers added: login eve",
        ],
    ),
    "another approver of fields": (
        swap(OWNERSHIP, "        - team: finance\n", "        - team: platform\n"),
        [
            f"approvals: {OWNERSHIP}: spec.fields[GPUSpec spec.prices].approvers removed: team finance",
            f"approvals: {OWNERSHIP}: spec.fields[GPUSpec spec.prices].approvers added: team platform",
        ],
    ),
    "a rule that goes, whose files another one takes": (
        both(
            swap(OWNERSHIP, "  paths:\n", WIDE),
            swap(OWNERSHIP, "    - path: tenants/*/members.yaml\n      approvers:\n        - tenantRole: Admin\n", ""),
        ),
        [
            f"approvals: {OWNERSHIP}: spec.paths[tenants/**] added: approvers login eve",
            f"approvals: {OWNERSHIP}: spec.paths[tenants/*/members.yaml] removed: approvers tenantRole Admin (tenants/** takes"
            " its files: login eve approves them)",
        ],
    ),
    "a rule that goes, whose files no other one takes": (
        swap(OWNERSHIP, "    - path: tenants/*/members.yaml\n      approvers:\n        - tenantRole: Admin\n", ""),
        [
            f"approvals: {OWNERSHIP}: spec.paths[tenants/*/members.yaml] removed: approvers tenantRole Admin (no other pattern"
            " matches its files: team platform approves them)",
        ],
    ),
    "what may be deleted at once": (
        swap("platform/platform.yaml", "maxDeletedPercent: 30", "maxDeletedPercent: 100"),
        ["approvals: platform/platform.yaml: spec.brake.maxDeletedPercent 30 → 100"],
    ),
    "changes that merge by themselves": (
        swap("platform/platform.yaml", "spec:\n", "spec:\n  selfService: Enabled\n"),
        ["approvals: platform/platform.yaml: spec.selfService Disabled → Enabled"],
    ),
    "who logs people in": (
        swap(EU, "clientID: allotment", "clientID: other"),
        [f"access: {EU}: spec.oidc.clientID allotment → other"],
    ),
    "from where a tenant's URLs are open": (
        swap(ADA, "  plan: starter\n", "  plan: starter\n  allowedCIDRs: [203.0.113.0/24]\n"),
        [f"access: {ADA}: spec.allowedCIDRs added: 203.0.113.0/24"],
    ),
    "which program of ours runs in all clusters": (
        swap("platform/platform.yaml", "mirror/dufs:v0.46.0", "mirror/dufs:v0.46.1"),
        [
            f"access: platform/platform.yaml: spec.images.files registry.example/mirror/dufs:v0.46.0@{FILES} →"
            f" registry.example/mirror/dufs:v0.46.1@{FILES}"
        ],
    ),
    "a pool shrunk by a node": (
        swap(POOL, "nodes: 3", "nodes: 2"),
        [f"capacity: {POOL}: spec.static.nodes 3 → 2 (12 → 8 nvidia-l4 GPUs at most)"],
    ),
    "a pool whose nodes are all replaced": (
        swap("clusters/us-1/node-pools/h100.yaml", "  karpenter:\n", "  generation: 2\n  karpenter:\n"),
        [
            "capacity: clusters/us-1/node-pools/h100.yaml: spec.generation added: 2 (replaces every node, one at a time; a node with an instance of a single copy stays until this instance stops)"
        ],
    ),
    "a stock": (swap(STOCK, "count: 40", "count: 39"), [f"capacity: {STOCK}: spec.count 40 → 39"]),
    "a new stock": (
        lambda root: copy(root, STOCK, "clusters/eu-1/stocks/more.yaml"),
        ["capacity: clusters/eu-1/stocks/more.yaml: added: gpuSpec l4-quarter, nodePool l4-ts4, count 40, warm 6"],
    ),
    "a cluster's domain": (
        swap(EU, "domain: eu-1.gpu.northlight.example", "domain: fra.northlight.example"),
        [f"clusters: {EU}: spec.domain eu-1.gpu.northlight.example → fra.northlight.example"],
    ),
    "a cluster's capacity": (
        swap(EU, "capacity: 400Ti", "capacity: 401Ti"),
        [f"clusters: {EU}: spec.storages[shared-files].capacity 400Ti → 401Ti"],
    ),
    "an app's version": (
        swap(APP, "lifecycle: Deprecated", "lifecycle: Revoked"),
        [f"apps: {APP}: spec.versions[1.10.1].lifecycle Deprecated → Revoked"],
    ),
    "an offer's lifecycle": (
        swap(QUARTER, "spec:\n", "spec:\n  lifecycle: Retired\n"),
        [f"offers: {QUARTER}: spec.lifecycle Active → Retired"],
    ),
    "an offer that is gone": (
        lambda root: (root / "platform/plans/enterprise.yaml").unlink(),
        None,
    ),
    "many people, of whom the Admin comes first": (
        swap(
            "tenants/film-house/members.yaml",
            "  groups:\n",
            "  users:\n"
            + "".join(
                f"    - name: {name}\n      role: Viewer\n      login: {name}-x\n"
                for name in ("ann", "bob", "cem", "dan")
            )
            + "    - name: eve\n      role: Admin\n      login: eve\n  groups:\n",
        ),
        [
            "access: tenants/film-house/members.yaml: spec.users[eve] added: role Admin, login eve",
            *(
                f"access: tenants/film-house/members.yaml: spec.users[{name}] added: role Viewer, login {name}-x"
                for name in ("ann", "bob", "cem", "dan")
            ),
        ],
    ),
    "an approver of another sort whose name is the same": (
        swap(OWNERSHIP, "        - team: finance", "        - login: finance"),
        [
            f"approvals: {OWNERSHIP}: spec.fields[GPUSpec spec.prices].approvers removed: team finance",
            f"approvals: {OWNERSHIP}: spec.fields[GPUSpec spec.prices].approvers added: login finance",
        ],
    ),
    "a group that is called as its role": (
        swap("tenants/film-house/members.yaml", "  groups:\n", "  groups:\n    - name: Admin\n      role: Admin\n"),
        ["access: tenants/film-house/members.yaml: spec.groups[Admin] added: role Admin"],
    ),
    "a storage that others may copy": (
        swap(MODELS, "spec:\n", "spec:\n  sharedWith:\n    - tenant: film-house\n"),
        [f"access: {MODELS}: spec.sharedWith added: tenant film-house"],
    ),
    "an instance that people connect to by SSH": (
        swap(COMFY, "spec:\n", "spec:\n  access:\n    - SSH\n"),
        [f"access: {COMFY}: spec.access added: SSH"],
    ),
    "an instance without SSH": (
        swap("tenants/solo-ada/instances/webui.yaml", "  access:\n    - SSH\n", ""),
        ["access: tenants/solo-ada/instances/webui.yaml: spec.access removed: SSH"],
    ),
    "which host people connect to by SSH": (
        swap(EU, "    host: ssh.eu-1.gpu", "    host: ssh2.eu-1.gpu"),
        [f"access: {EU}: spec.ssh.host ssh.eu-1.gpu.northlight.example → ssh2.eu-1.gpu.northlight.example"],
    ),
    "which secrets the tenants of a cluster read": (
        swap(EU, "    name: vault\n", "    name: vault\n    prefix: secrets\n"),
        [f"access: {EU}: spec.secretStore.prefix tenants → secrets"],
    ),
    "an instance that nobody reaches any more": (lambda root: (root / SIMULATE).unlink(), []),
    "an app that everybody reaches, written with an escape": (
        swap(APP, "exposure: Members", 'exposure: "\\u0050ublic"'),
        [
            f"access: {APP}: spec.versions[1.10.1].container.ports[http].exposure Members → Public (open to everybody without login)"
        ],
    ),
    "an app that everybody reaches, its word broken over two lines": (
        swap(APP, "exposure: Members", 'exposure: "Pub\\\n              lic"'),
        [
            f"access: {APP}: spec.versions[1.10.1].container.ports[http].exposure Members → Public (open to everybody without login)"
        ],
    ),
    "a plan that allows what everybody reaches": (
        swap("platform/plans/starter.yaml", "    exposure:\n", "    exposure:\n      - Public\n"),
        ["access: platform/plans/starter.yaml: spec.allow.exposure added: Public"],
    ),
    "an app that everybody reaches": (
        swap(APP, "exposure: Members", "exposure: Public"),
        [
            f"access: {APP}: spec.versions[1.10.1].container.ports[http].exposure Members → Public (open to everybody without login)"
        ],
    ),
    "the key of closed months": (
        swap("platform/platform.yaml", "    timeZone:", f"    publicKey: {KEY}\n    timeZone:"),
        [f"access: platform/platform.yaml: spec.billing.publicKey added: '{KEY}'"],
    ),
    "a comment": (swap(ADA, "spec:\n", "# Mine.\nspec:\n"), []),
    "an instance, of which the things tell": (
        swap("tenants/solo-ada/instances/webui.yaml", "gpuSpec: l4-quarter", "gpuSpec: l4-whole"),
        [],
    ),
}


@pytest.mark.parametrize(("change", "lines"), [pytest.param(*case, id=name) for name, case in CASES.items()])
def test_declared_changes_describes_each_kind_of_change_in_a_line(
    change: Callable[[Path], object], lines: list[str] | None, sample: Path
) -> None:
    change_lines = changes(sample, change)
    if lines is None:  # each part of a plan by itself: what it allows isn't behind its quota
        (allowed,) = (line for line in change_lines if "spec.allow removed: " in line)
        assert "exposure Members, Public" in allowed
        assert "imageRegistries registry.example/" in allowed
    else:
        assert change_lines == lines


RANGES = "  plan: starter\n  allowedCIDRs: [{}]\n"
TWO_RANGES = RANGES.format("198.51.100.0/24, 203.0.113.0/24")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        pytest.param(
            swap(ADA, TWO_RANGES, "  plan: starter\n"),
            "198.51.100.0/24, 203.0.113.0/24 (every network may connect, also by SSH)",
            id="all",
        ),
        pytest.param(swap(ADA, TWO_RANGES, RANGES.format("203.0.113.0/24")), "198.51.100.0/24", id="one of two"),
        pytest.param(
            lambda root: (root / ADA).unlink(), "198.51.100.0/24, 203.0.113.0/24", id="those of a removed tenant"
        ),
    ],
)
def test_declared_changes_lists_the_removed_ranges_of_allowed_networks(
    change: Callable[[Path], object], line: str, sample: Path
) -> None:
    edit(sample, ADA, "  plan: starter\n", TWO_RANGES)
    lines = [text for text in changes(sample, change) if text.startswith("access:")]
    assert lines == [f"access: {ADA}: spec.allowedCIDRs removed: {line}"]


def test_declared_changes_lists_dangerous_topics_first(sample: Path) -> None:
    def everything(root: Path) -> None:
        for path, old, new in (
            (QUARTER, "spec:\n", "spec:\n  lifecycle: Deprecated\n"),
            (QUARTER, '"0.21"', '"0.24"'),
            (OWNERSHIP, "        - fin-ann\n", "        - fin-ann\n        - mallory\n"),
            ("platform/plans/starter.yaml", '"300"', '"3000"'),
        ):
            edit(root, path, old, new)

    topics = [line.split(":")[0] for line in changes(sample, everything)]
    assert topics == ["approvals", "prices", "plans", "offers"]
    assert topics == sorted(topics, key=[*TOPICS].index)


def test_declared_changes_quotes_and_escapes_a_description(sample: Path) -> None:
    text = '"a → b [x]: \\e[31m, \\u202e"'
    (line,) = changes(sample, swap(EU, "spec:\n", f"spec:\n  description: {text}\n"))
    assert line == f"clusters: {EU}: spec.description added: 'a → b [x]: \\x1b[31m, \\u202e'"


def test_a_file_that_can_not_be_read_is_left_to_its_problem(sample: Path) -> None:
    assert changes(sample, swap(ADA, "  plan: starter\n", "  plan: [\n")) == []


def test_the_end_of_who_is_believed_is_shown(sample: Path) -> None:
    issuer = f"https://id.northlight.example.{'a' * 50}.{'b' * 50}.evil.dev"
    (line,) = changes(sample, swap(EU, "https://id.northlight.example", issuer))
    assert line == f"access: {EU}: spec.oidc.issuer https://id.northlight.example → {issuer}"


def test_the_end_of_what_somebody_approves_is_shown(sample: Path) -> None:
    path = f"tenants/*/{'a' * 90}/*.yaml"
    rule = f"    - path: {path}\n      approvers:\n        - team: platform\n"
    (line,) = changes(sample, swap(OWNERSHIP, "  paths:\n", f"  paths:\n{rule}"))
    assert line == f"approvals: {OWNERSHIP}: spec.paths[{path}] added: approvers team platform"


def test_declared_changes_shows_full_issuers_of_added_and_removed_clusters(sample: Path) -> None:
    """A whole cluster is one line of its first fields, which can be cut; whom it believes isn't."""
    issuer = f"https://id.northlight.example.{'a' * 60}.{'b' * 60}.evil.dev"

    def new_cluster(root: Path) -> None:
        text = (root / EU).read_text().replace("eu-1", "fra-1").replace("https://id.northlight.example", issuer)
        (root / "clusters/fra-1").mkdir()
        (root / "clusters/fra-1/cluster.yaml").write_text(text)

    file = "clusters/fra-1/cluster.yaml"
    lines = changes(sample, new_cluster)
    (oidc,) = (line for line in lines if line.startswith(f"access: {file}: spec.oidc added: "))
    assert f"issuer {issuer}, clientID allotment" in oidc
    assert [line for line in lines if line.startswith(f"clusters: {file}: added: ")]
    gone = changes(sample, lambda root: (root / file).unlink())
    assert [line for line in gone if line.startswith(f"access: {file}: spec.oidc removed: issuer {issuer}")]


def test_declared_changes_lists_the_prices_of_a_new_offer_on_own_lines(sample: Path) -> None:
    file = "platform/specs/l4-other.yaml"
    text = (sample / QUARTER).read_text().replace("name: l4-quarter", "name: l4-other")
    lines = changes(sample, lambda root: (root / file).write_text(text))
    assert [line for line in lines if line.startswith(f"prices: {file}: spec.prices[")] == lines[:-1]
    assert len(lines) > 1
    assert lines[-1].startswith(f"offers: {file}: added: ")


def test_a_new_add_on_is_told_once_field_by_field(sample: Path) -> None:
    file = "platform/add-ons/own.yaml"
    text = """apiVersion: allotment.dev/v1alpha1
kind: AddOn
metadata: {name: own}
spec:
  chart: {repoURL: "https://charts.own.dev", name: own, version: 1.0.0}
  namespace: own-system
  wave: 2
"""
    assert changes(sample, lambda root: (root / file).write_text(text)) == [
        f"access: {file}: spec.chart added: repoURL https://charts.own.dev, name own, version 1.0.0",
        f"access: {file}: spec.namespace added: own-system",
        f"platform: {file}: spec.wave added: 2",
    ]


def test_a_new_cluster_adds_no_field_that_its_file_does_not_have(sample: Path) -> None:
    def declare(root: Path) -> None:
        copy(root, "clusters/us-1/cluster.yaml", path)
        edit(root, path, "metadata:\n  name: us-1", "metadata:\n  name: ap-1")

    path = "clusters/ap-1/cluster.yaml"
    added = changes(sample, declare)
    assert any(line.startswith(f"access: {path}: spec.oidc added") for line in added)
    assert [line for line in added if "spec.network" in line] == []
