"""The resources that a commit declares, also invalid ones: nobody else's command fails because of them."""

from __future__ import annotations

import pytest
from tests.conftest import Allot, edit
from tests.support.published import Place, git

from allotment.adapters.git.commit_source import CommitSource
from allotment.branches.declared_resources import find_cluster, read_declaration_at

SNAPSHOT = "tenants/studio-kite/snapshots/before-upgrade.yaml"


@pytest.mark.parametrize("name", ["Outputs", "a/b", "..", "../members", "a.yaml", "\u202e"])
def test_a_reference_that_is_no_name_leads_to_no_cluster(place: Place, allot: Allot, name: str) -> None:
    edit(place.root, SNAPSHOT, "storage: outputs", f'storage: "{name}"')
    place.merge()
    source = CommitSource(place.root, "HEAD")
    assert find_cluster(source, read_declaration_at(source, SNAPSHOT)) == ""
    git(place.root, "fetch", "-q", "origin")
    assert allot("storage", "list", "--repo", place.root).code == 0
