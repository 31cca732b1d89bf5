"""What a tenant is rendered to: remembered by its blobs, rendered again where its bytes are needed or its units are fewer."""

from __future__ import annotations

from pathlib import Path

import yaml
from tests.pipeline.publish.written import before, checked, of_files

from allotment.adapters.folder import FolderSource
from allotment.pipeline.publish.rendered import Again, Rendered, complete

WEBUI = "eu-1/tenants/solo-ada/compute/webui.rendered.yaml"


def test_bytes_are_needed_of_what_is_published_otherwise(sample: Path) -> None:
    files = checked(FolderSource(sample)).made["solo-ada"]
    was, other = before(files), before(files | {WEBUI: b"kind: x\n"})
    assert of_files(files, was).data == {}
    assert of_files(files, other).data == {WEBUI: files[WEBUI]}
    remembered = {"solo-ada": Rendered(of_files(files, was).blobs, {}, ())}
    assert complete(remembered, was) == []
    assert complete(remembered, other) == ["solo-ada"]
    assert complete({"solo-ada": of_files(files, other)}, other) == []


def test_who_gets_fewer_units_is_rendered_with_those(sample: Path) -> None:
    source = FolderSource(sample)
    found = checked(source)
    files = found.made["solo-ada"]
    was = before(files)
    rendered, stopped = Again(source, found, was, 1).render(["solo-ada"], {("solo-ada", "webui"): 0})
    assert stopped == {}
    one = rendered["solo-ada"]
    assert yaml.safe_load(files[WEBUI].split(b"\n---\n")[0])["spec"]["replicas"] == 1
    assert next(yaml.safe_load_all(one.data[WEBUI]))["spec"]["replicas"] == 0
    assert [claim.rendered for claim in one.claims if claim.instance == "webui"] == [0]
    assert one.blobs.keys() == files.keys()
