"""`field_assignments` finds the declaration and the field, and refuses what a field can't be before it edits."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import PROJECT

from allotment.adapters.folder_source import FolderSource
from allotment.edits.field_assignments import parse_declaration_name, quote_path_name, set_fields, split_path
from allotment.problems import OperationRefused
from allotment.services.changes.declared_files import open_declarations

WEBUI = "tenants/solo-ada/instances/webui.yaml"


def assign(target: str, *assignments: str) -> tuple[str, str, str]:
    """Return the title of a change of one file, and the lines that disappear and that are new."""
    declarations = open_declarations(FolderSource(PROJECT))
    change = set_fields(declarations, parse_declaration_name(target), assignments)
    ((path, data),) = change.files.items()
    before, after = (PROJECT / path).read_text(encoding="utf-8").splitlines(), (data or b"").decode().splitlines()
    gone, new = ([line for line in a if line not in b] for a, b in ((before, after), (after, before)))
    return change.title, "\n".join(gone), "\n".join(new)


@pytest.mark.parametrize(
    ("target", "assignment", "gone", "new"),
    [
        ("instance/solo-ada/webui", "gpuSpec=l4-half", "  gpuSpec: l4-quarter", "  gpuSpec: l4-half"),
        ("GPUInstance/solo-ada/webui", "spec.replicas=2", "", "  replicas: 2"),
        ("gpuinstance/solo-ada/webui", "metadata.labels.team=007", "", '  labels:\n    team: "007"'),
        ("instance/solo-ada/webui", "displayName=a: b", "", '  displayName: "a: b"'),
        ("storage/studio-kite/outputs", "size=600Gi", "  size: 500Gi", "  size: 600Gi"),
        ("Tenant/solo-ada", "displayName-", "  displayName: Ada", ""),
        ("Stock/eu-1/l4-quarter", "count=41", "  count: 40", "  count: 41"),
        ("spec/l4-quarter", "lifecycle=Deprecated", "", "  lifecycle: Deprecated"),
        ("Platform", "billing.unknown=Billed", "", "    unknown: Billed"),
    ],
)
def test_a_field_is_set_by_its_path(target: str, assignment: str, gone: str, new: str) -> None:
    assert assign(target, assignment)[1:] == (gone, new)


def test_an_item_is_added_by_yaml_and_removed_by_its_name() -> None:
    _, gone, new = assign("instance/solo-ada/webui", "storages+={name: more, mountPath: /more, readOnly: true}")
    assert (gone, new) == ("", "    - name: more\n      mountPath: /more\n      readOnly: true")
    title, gone, new = assign("instance/solo-ada/webui", "storages.models-")
    assert "    - name: models" in gone
    assert new == ""
    assert title == "Set spec.storages.models of GPUInstance solo-ada/webui"


@pytest.mark.parametrize(
    ("target", "assignment", "message"),
    [
        ("pod/x", "a=b", "no kind is named 'pod'; known: "),
        ("instance/webui", "a=b", "'instance/webui' names no GPUInstance: write GPUInstance/TENANT/NAME"),
        ("Tenant/a/b", "a=b", "'Tenant/a/b' names no Tenant: write Tenant/TENANT"),
        ("instance/solo-ad/webui", "state=Stopped", "no tenant is named 'solo-ad'; did you mean 'solo-ada'?"),
        ("instance/solo-ada/webu", "state=Stopped", "solo-ada has no GPUInstance named 'webu'; did you mean 'webui'?"),
        ("instance/solo-ada/../x", "state=Stopped", "'instance/solo-ada/../x' names no GPUInstance"),
        ("instance/solo-ada/webui", "state=stopped", "spec.state can't be 'stopped': write Running, Stopped"),
        ("instance/solo-ada/webui", "stat=Stopped", "spec has no field 'stat'; did you mean 'state'?"),
        ("instance/solo-ada/webui", "version=1", "spec has no field 'version'; did you mean app.version?"),
        ("storage/solo-ada/webui", "size=1Ti", "solo-ada has no GPUStorage named 'webui'; a GPUInstance has this name"),
        ("instance/solo-ada/webui", "state", "'state' sets no field: write FIELD=VALUE, "),
        ("instance/solo-ada/webui", "state+=x", "spec.state is not a list: write state=VALUE"),
        ("instance/solo-ada/webui", "storages=models", "spec.storages can't be 'models': write a list or a mapping"),
        (
            "instance/solo-ada/webui",
            "storages+=styles:/styles",
            "spec.storages can't be 'styles:/styles': write a list or a mapping in YAML, such as {name: models}; `allot instance mount",
        ),
        ("instance/solo-ada/webui", "app={name: [", "spec.app can't be '{name: [': write a list or a mapping"),
        ("instance/solo-ada/webui", "metadata.name=other", "metadata.name can't be set"),
        ("instance/solo-ada/webui", "replicas-", "spec has no 'replicas'"),
    ],
)
def test_a_wrong_name_field_or_value_is_refused(target: str, assignment: str, message: str) -> None:
    with pytest.raises(OperationRefused, match=f"^{re.escape(message)}"):
        assign(target, assignment)


def test_a_label_with_dots_and_a_repeated_argument() -> None:
    _, gone, new = assign("instance/solo-ada/webui", "metadata.labels.my.team=x")
    assert (gone, new) == ("", "  labels:\n    my.team: x")
    _, _, new = assign("instance/solo-ada/webui", "container.args+=-v", "container.args+=a", "container.args+=-v")
    assert new.splitlines()[-3:] == ['      - "-v"', "      - a", '      - "-v"']


@given(
    st.lists(
        st.text(st.characters(codec="ascii", exclude_characters='"', categories=["L", "N", "P", "Zs"])), min_size=1
    )
)
def test_a_quoted_name_may_contain_dots(names: list[str]) -> None:
    assert split_path(".".join(map(quote_path_name, names))) == tuple(names)


def test_an_item_with_dots_in_its_name_is_named_in_quotes() -> None:
    with pytest.raises(OperationRefused, match=r"^spec\.groups has no 'my\.team'$"):
        assign("Members/ml-orbit", 'groups."my.team".role=Viewer')
