"""What an Ownership may declare, and what a change says that nobody approved whose it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import Allot, edit, errors

FILE = "platform/ownership.yaml"


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "    - path: tenants/*/members.yaml",
            "    - path: tenants/acme-robotics/*/*.yaml\n      approvers:\n        - tenantRole: Admin\n    - path: tenants/*/instances/*.yaml",
            f"{FILE}:20:13: spec.paths[2].path: 'tenants/*/instances/*.yaml' and 'tenants/acme-robotics/*/*.yaml' match the same "
            "paths, and neither is more specific: make one pattern more specific [ownership]",
        ),
        (
            "name: platform\n",
            "name: ops\n",
            f"{FILE}:7:3: spec.teams: no team is named platform: it approves the files that no pattern matches, so declare it [ownership]",
        ),
        (
            "        - team: finance\n    - kind: StorageSpec",
            "        - team: finanze\n    - kind: StorageSpec",
            f"{FILE}:24:17: spec.fields[0].approvers[0].team: no team is named 'finanze'; did you mean 'finance'? [ownership]",
        ),
        (
            "kind: StorageSpec",
            "kind: StorageSpek",
            f"{FILE}:25:13: spec.fields[1].kind: no kind is named 'StorageSpek'; did you mean 'StorageSpec'? [ownership]",
        ),
        (
            "field: spec.prices",
            "field: spec.price",
            f"{FILE}:22:14: spec.fields[0].field: GPUSpec has no field 'spec.price'; did you mean 'prices'? [ownership]",
        ),
        (
            "        - team: finance\n    - kind: StorageSpec",
            "        - tenantRole: Admin\n    - kind: StorageSpec",
            f"{FILE}:24:23: spec.fields[0].approvers[0].tenantRole: tenantRole needs a path in the folder of a tenant, and this "
            "path is outside: name a team [ownership]",
        ),
        (
            '      forgeTeam: "@northlight-example/platform"\n',
            "",
            f"{FILE}:11:7: spec.teams[1]: team platform has no members: list logins, or a forgeTeam [ownership]",
        ),
    ],
)
def test_validate_explains_each_inconsistency_of_an_ownership(
    sample: Path, allot: Allot, old: str, new: str, line: str
) -> None:
    edit(sample, FILE, old, new)
    assert errors(allot("validate", "--repo", sample)) == [line]


def test_without_an_ownership_nothing_is_said(sample: Path, allot: Allot) -> None:
    (sample / FILE).unlink()
    assert errors(allot("validate", "--repo", sample)) == []
