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
            f"{FILE}:20:13: spec.paths[2].path: 'tenants/*/instances/*.yaml' and 'tenants/acme-robotics/*/*.yaml' match the same"
            " paths and neither is more specific: make one so [ownership]",
        ),
        (
            "name: platform\n",
            "name: ops\n",
            f"{FILE}:7:3: spec.teams: no team is named platform: what no pattern matches is its, so it must exist [ownership]",
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
            f"{FILE}:24:23: spec.fields[0].approvers[0].tenantRole: a tenantRole is of the tenant whose folder the file lies in,"
            " and this is in none: name a team [ownership]",
        ),
        (
            '      forgeTeam: "@northlight-example/platform"\n',
            "",
            f"{FILE}:11:7: spec.teams[1]: team platform has nobody: name logins, or a forgeTeam [ownership]",
        ),
    ],
)
def test_what_makes_no_sense_is_said(sample: Path, allot: Allot, old: str, new: str, line: str) -> None:
    edit(sample, FILE, old, new)
    assert errors(allot("validate", "--repo", sample)) == [line]


def test_without_an_ownership_nothing_is_said(sample: Path, allot: Allot) -> None:
    (sample / FILE).unlink()
    assert errors(allot("validate", "--repo", sample)) == []
