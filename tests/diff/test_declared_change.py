"""The order of the changes of access: people, identity, wider exposure, and addresses with the usual login last."""

from __future__ import annotations

import random

import pytest

from allotment.diff.declared_change import (
    ACCESS_GROUPS,
    OPEN_TO_EVERY_NETWORK,
    OPEN_TO_EVERYBODY,
    AccessGroup,
    DeclaredChange,
    sort_key,
)

URL = "https://web--acme.eu-1.example/"
PORT = "spec.versions[1.0].container.ports[http].exposure"

# The group, the field, its value before and after, and the note.
CASES: dict[str, tuple[AccessGroup, str, str | None, str | None, str]] = {
    "a new Admin": ("Admin", "spec.users[eve]", None, "role Admin, login eve-k", ""),
    "a new group of Admins": ("Admin", "spec.groups[gpu-admins]", None, "role Admin", ""),
    "a group with a space in its name": ("Admin", "spec.groups[gpu admins]", None, "name 'gpu admins', role Admin", ""),
    "a Viewer becomes Admin": ("Admin", "spec.users[eve].role", "Viewer", "Admin", ""),
    "an Admin becomes Viewer": ("member", "spec.users[eve].role", "Admin", "Viewer", ""),
    "a new Member": ("member", "spec.users[eve]", None, "role Member, login eve-k", ""),
    "the comment of a key names a role": ("member", "spec.users[eve].sshKeys", None, "'ssh-ed25519 A role Admin'", ""),
    "an Admin leaves": ("other change", "spec.users[eve]", "role Admin, login eve-k", None, ""),
    "an issuer": ("identity setting", "spec.oidc.issuer", "https://a.example", "https://b.example", ""),
    "a key of the publisher": ("identity setting", "spec.publisher.publicKey", "a", "b", ""),
    "a group of the platform": ("identity setting", "spec.portal.groups", None, "gpu-admins", ""),
    "a catalog without login": ("wider exposure", "spec.portal.publicPages", "Login", "Public", ""),
    "a new portal without login": ("wider exposure", "spec.portal", None, "cluster eu-1, publicPages Public", ""),
    "an App's port without login": ("wider exposure", PORT, "Members", "Public", OPEN_TO_EVERYBODY),
    "a tenant without ranges": ("wider exposure", "spec.allowedCIDRs", "203.0.113.0/24", None, OPEN_TO_EVERY_NETWORK),
    "a removed range": ("other change", "spec.allowedCIDRs", "203.0.113.0/24", None, ""),
    "an address loses its login": ("Public URL", URL, "Members", "Public", OPEN_TO_EVERYBODY),
    "a new address without login": ("Public URL", URL, None, "Public", OPEN_TO_EVERYBODY),
    "a new address": ("Members URL", URL, None, "Members", "open to Members of acme after login"),
    "files that members may change": ("other change", f"{URL} mode", "ReadOnly", "ReadWrite", ""),
    "an address with another port": ("other change", f"{URL} port", "80", "22", ""),
    "a tariff plan": ("other change", "spec.allow.exposure", None, "Public", ""),
    "an add-on": ("other change", "spec.chart.version", "1.0.0", "1.0.1", ""),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_each_change_of_access_has_a_group(case: tuple[AccessGroup, str, str | None, str | None, str]) -> None:
    group, *values = case
    assert DeclaredChange("access", "tenants/acme/x.yaml", *values).access_group == group


def test_the_changes_of_access_come_in_the_order_of_their_groups_whatever_their_paths() -> None:
    paths = [f"tenants/t{at:02}/x.yaml" for at in range(len(CASES))]
    random.Random(1).shuffle(paths)
    changes = [
        DeclaredChange("access", path, *values) for path, (_, *values) in zip(paths, CASES.values(), strict=True)
    ]
    ordered = sorted(changes, key=sort_key)
    groups = [change.access_group for change in ordered]
    assert list(dict.fromkeys(groups)) == list(ACCESS_GROUPS)
    assert groups == sorted(groups, key=ACCESS_GROUPS.index)
    members = [change.path for change in ordered if change.access_group == "member"]
    assert members == sorted(members)
