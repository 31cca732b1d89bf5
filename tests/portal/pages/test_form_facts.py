"""`form_facts` gives a form the tenant's own sources with their sizes, and no names of other tenants."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import edit
from tests.portal.pages.page_text import read_facts
from tests.portal.pages.sample_site import build, create_place


def test_the_form_of_a_new_storage_knows_the_tenants_own_sources(tmp_path: Path) -> None:
    build(create_place(tmp_path), tmp_path / "site", tenant="studio-kite")
    sources = read_facts(tmp_path / "site/tenants/studio-kite/new-storage.html")["sources"]
    assert sources["sizes"]["eu-1/storage:outputs"] == 500 << 30
    assert sources["sizes"]["eu-1/snapshot:before-upgrade"] == 500 << 30
    assert [
        text for text in ("snapshot:nope", "storage:northlight/base-models") if re.search(sources["own"], text)
    ] == ["snapshot:nope"]


def test_the_form_of_a_new_instance_knows_the_keys_of_secrets(tmp_path: Path) -> None:
    place = create_place(tmp_path)
    secret = (place.root / "tenants/ml-orbit/secrets/huggingface.yaml").read_text(encoding="utf-8")
    pull = secret.replace("name: huggingface", "name: registry").replace("name: token", "name: .dockerconfigjson")
    pull = pull.replace("  keys:", "  type: ImagePull\n  keys:")
    (place.root / "tenants/ml-orbit/secrets/registry.yaml").write_text(pull, encoding="utf-8")
    more = "    - name: '123'\n      path: huggingface\n"
    (place.root / "tenants/ml-orbit/secrets/huggingface.yaml").write_text(secret + more, encoding="utf-8")
    place.merge()
    build(place, tmp_path / "site", tenant="ml-orbit")
    assert read_facts(tmp_path / "site/tenants/ml-orbit/new-instance.html")["secrets"] == [
        {
            "name": "huggingface:token",
            "cluster": "eu-1",
            "variable": "HUGGINGFACE_TOKEN",
            "reference": "            name: huggingface\n            key: token",
        },
        {
            "name": "huggingface:123",
            "cluster": "eu-1",
            "variable": "HUGGINGFACE_123",
            "reference": '            name: huggingface\n            key: "123"',
        },
    ]


def test_a_storage_that_is_marked_for_deletion_is_named_and_not_offered(tmp_path: Path) -> None:
    place = create_place(tmp_path)
    for path in ("storages/outputs", "snapshots/before-upgrade"):
        edit(place.root, f"tenants/studio-kite/{path}.yaml", "\nspec:", "\nspec:\n  deletionPolicy: Delete")
    place.merge()
    build(place, tmp_path / "site", tenant="studio-kite")
    folder = tmp_path / "site/tenants/studio-kite"
    offered = {each["name"]: each["barrier"] for each in read_facts(folder / "new-instance.html")["storages"]}
    assert [name for name, barrier in offered.items() if barrier == "marked for deletion"] == ["outputs"]
    assert (folder / "index.html").read_text(encoding="utf-8").count("<small>marked for deletion</small>") == 2
    for name, is_marked in (("outputs", True), ("outputs-restored", False)):
        page = (folder / f"storages/{name}.html").read_text(encoding="utf-8")
        assert ("Marked for deletion: the next merge that removes the file deletes its data." in page) == is_marked
    variants = read_facts(folder / "instances/comfy.html")["actions"]["mount"]["variants"]
    assert variants["outputs"]["barriers"] == ["outputs can't be mounted: marked for deletion."]
    page = (folder / "instances/comfy.html").read_text(encoding="utf-8")
    options = re.findall(r'<option value="(?:outputs|base)"[^>]*>([^<]*)', page)
    assert options == [
        "base: 200Gi, Our copy of the platform&#39;s base models.",
        "outputs: 500Gi (marked for deletion)",
    ]


def test_a_tenant_in_which_nobody_can_log_in_reads_the_reason(tmp_path: Path) -> None:
    place = create_place(tmp_path)
    members = place.root / "tenants/studio-kite/members.yaml"
    declared = members.read_text(encoding="utf-8")
    without_groups = re.sub(r"  groups:\n(    .*\n)+", "", declared)
    problems = []
    for text in (declared, re.sub(r" +subject: .*\n", "", without_groups)):
        members.write_text(text, encoding="utf-8")
        place.merge()
        build(place, tmp_path / "site", tenant="studio-kite")
        problems.append(read_facts(tmp_path / "site/tenants/studio-kite/new-instance.html")["versionProblem"])
    assert problems == [
        "No version of this app is possible in your tariff plan.",
        "Nobody could log in to this app: first add a member with a subject.",
    ]
