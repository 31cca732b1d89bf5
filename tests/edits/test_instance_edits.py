"""Instances are restarted and deleted: the exact files of the change."""

from __future__ import annotations

import pytest
from tests.conftest import PROJECT

from allotment.adapters.folder_source import FolderSource
from allotment.edits.instance_edits import (
    RESTART_NOTE,
    delete_instances,
    hold_instances,
    mount_storage,
    release_instances,
    restart_instances,
    set_states,
    unmount_storage,
)
from allotment.problems import OperationRefused
from allotment.services.changes.declared_files import open_declarations

DECLARATIONS = open_declarations(FolderSource(PROJECT))
WEBUI, PATH = ("solo-ada", "webui"), "tenants/solo-ada/instances/webui.yaml"


def test_a_restart_raises_the_number_by_one() -> None:
    before = (PROJECT / PATH).read_bytes()
    change_set = restart_instances(DECLARATIONS, [WEBUI, WEBUI])
    assert (change_set.title, change_set.resources) == ("Restart solo-ada/webui", ("GPUInstance solo-ada/webui",))
    after = before.replace(b"  storages:\n", b"  restarts: 1\n  storages:\n")
    assert change_set.files == {PATH: after}
    newer = DECLARATIONS._replace(read=lambda path: after if path == PATH else DECLARATIONS.read(path))
    assert restart_instances(newer, [WEBUI]).files == {PATH: after.replace(b"restarts: 1", b"restarts: 2")}


def test_a_stopped_instance_is_not_restarted_and_neither_are_the_others() -> None:
    stopped = (PROJECT / PATH).read_bytes().replace(b"spec:\n", b"spec:\n  state: Stopped\n")
    declarations = DECLARATIONS._replace(read=lambda path: stopped if path == PATH else DECLARATIONS.read(path))
    with pytest.raises(OperationRefused) as error:
        restart_instances(declarations, [("ml-orbit", "chat"), WEBUI])
    assert str(error.value) == (
        "solo-ada/webui is Stopped, so there is nothing to restart: `allot instance start solo-ada/webui` starts it"
    )


def test_a_deletion_removes_the_files() -> None:
    change_set = delete_instances(DECLARATIONS, [("ml-orbit", "chat"), WEBUI])
    assert change_set.title == "Delete 2 instances"
    assert change_set.files == {"tenants/ml-orbit/instances/chat.yaml": None, PATH: None}
    with pytest.raises(OperationRefused, match="solo-ada has no GPUInstance named 'nope'"):
        delete_instances(DECLARATIONS, [("solo-ada", "nope")])


def test_a_hold_is_declared_and_released() -> None:
    before = (PROJECT / PATH).read_bytes()
    change_set = hold_instances(DECLARATIONS, [WEBUI], "It sends spam: ask.")
    assert (change_set.title, change_set.resources) == ("Hold solo-ada/webui", ("GPUInstance solo-ada/webui",))
    held = change_set.files[PATH]
    assert held is not None
    assert b'  hold:\n    reason: "It sends spam: ask."\n' in held
    newer = DECLARATIONS._replace(read=lambda path: held if path == PATH else DECLARATIONS.read(path))
    assert release_instances(newer, [WEBUI]).files == {PATH: before}
    assert "is on hold and does not start" in set_states(newer, [WEBUI], "Running").notes[-1]
    with pytest.raises(OperationRefused, match="solo-ada/webui is not on hold"):
        release_instances(DECLARATIONS, [WEBUI])


def test_a_reason_is_printed_without_control_characters() -> None:
    data = (PROJECT / PATH).read_bytes().replace(b"spec:\n", b'spec:\n  hold:\n    reason: "a\\u009b31m"\n')
    declarations = DECLARATIONS._replace(read=lambda path: data if path == PATH else DECLARATIONS.read(path))
    assert "\x9b" not in set_states(declarations, [WEBUI], "Running").notes[-1]


def test_a_storage_is_mounted_and_unmounted() -> None:
    before = (PROJECT / PATH).read_bytes()
    change_set = mount_storage(DECLARATIONS, WEBUI, "styles:/styles:ro")
    assert (change_set.title, change_set.notes) == ("Mount styles in solo-ada/webui", (RESTART_NOTE,))
    mounted = change_set.files[PATH]
    assert mounted is not None
    assert mounted.endswith(b"    - name: styles\n      mountPath: /styles\n      readOnly: true\n")
    newer = DECLARATIONS._replace(read=lambda path: mounted if path == PATH else DECLARATIONS.read(path))
    assert unmount_storage(newer, WEBUI, "styles").files == {PATH: before}
    with pytest.raises(OperationRefused, match="has 'styles' already"):
        mount_storage(newer, WEBUI, "styles:/more")
    with pytest.raises(OperationRefused) as refused:
        mount_storage(newer, WEBUI, "models:/styles")
    assert str(refused.value) == (
        "solo-ada/webui mounts styles at /styles: choose another path, or first run"
        " `allot instance unmount solo-ada/webui styles`"
    )
