"""docs/screens: what commands show on a terminal, as pictures: `python -m tests.screens [--check]`, which `make screens` calls.

The sample is merged two hours ago, and its status was seen just now, so ages are the same each time. Ids of commits,
checksums and times are replaced by fixed ones. Pictures have no font of their own: a reader's is taken.
"""

from __future__ import annotations

import datetime
import io
import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from allotment.declared.inventory import compute_blob_id
from allotment.observed.status import Instance, Preparation, Snapshot, Storage, TenantStatus
from tests.conftest import PROJECT, copy_sample
from tests.docs.october import record_october
from tests.support.published import Place

SCREENS = PROJECT / "docs/screens"
WIDTH = 120
TENANT, CLUSTER = "studio-kite", "eu-1"
FACE = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
FONT = "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"
INSTANCE = """\
# yaml-language-server: $schema=../../../schemas/GPUInstance.schema.json
apiVersion: allotment.dev/v1alpha1
kind: GPUInstance
metadata:
  name: notebook
spec:
  cluster: eu-1
  gpuSpec: l4-quarter
  app:
    name: jupyter
    version: "4.5.0"
"""
WHO = {
    f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER") for what, text in (("NAME", "Ada"), ("EMAIL", "ada@x"))
}
COMMIT, CHECKSUM = re.compile(r"\b[0-9a-f]{12}\b"), re.compile(r"(?<=sha256:)[0-9a-f]{64}")
TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
SIZE = re.compile(r"^  size: (\w+)$", re.MULTILINE)


def screens() -> Iterator[tuple[str, str]]:
    """Yield the name and text of each picture."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": folder,
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm-256color",
            "COLUMNS": str(WIDTH),
            "XDG_CACHE_HOME": folder,
            "GIT_CONFIG_SYSTEM": str(PROJECT / "tests/git.config"),
            **WHO,
        }
        merged = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=2, seconds=20)
        os.environ.update({**WHO, "GIT_AUTHOR_DATE": merged.isoformat(), "GIT_COMMITTER_DATE": merged.isoformat()})
        place = _published(here, environment)
        _report(place)
        yield from _read_pictures(place.root, environment)
        yield from _plan_pictures(place.root, environment)
        record_october(place.remote)
        yield "bill.svg", _picture(place.root, environment, {f"allot bill {TENANT} --month 2026-10": 0})


def _read_pictures(root: Path, environment: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the pictures of the commands that show the catalog and the status."""
    yield "status.svg", _picture(root, environment, {f"allot status {TENANT} --cluster {CLUSTER}": 0})
    yield "instance.svg", _picture(root, environment, {f"allot status solo-ada/webui --cluster {CLUSTER}": 0})
    yield "catalog.svg", _picture(root, environment, {f"allot catalog --tenant solo-ada --cluster {CLUSTER}": 0})


def _plan_pictures(root: Path, environment: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the pictures of a problem and of plans, each of the sample with another change."""
    webui = "tenants/solo-ada/instances/webui.yaml"
    misspell = f"sed -i 's/l4-quarter/l4-quater/' {webui}"
    yield "validate.svg", _picture(root, environment, {misspell: 0, f"allot validate {webui}": 1})
    subprocess.run(["git", "restore", "."], cwd=root, env=environment, check=True)
    notebook = root / "tenants/solo-ada/instances/notebook.yaml"
    notebook.write_text(INSTANCE)
    yield "plan.svg", _picture(root, environment, {"allot plan": 0})
    notebook.unlink()
    yield "verb.svg", _picture(root, environment, {"allot stop": 2, "allot instance stop solo-ada/webui": 0})
    subprocess.run(["git", "restore", "."], cwd=root, env=environment, check=True)
    folder = root / "tenants" / TENANT
    (folder / "instances/webui-next.yaml").unlink()
    snapshot = folder / "snapshots/before-upgrade.yaml"
    snapshot.write_text(snapshot.read_text().replace("spec:", "spec:\n  deletionPolicy: Delete"))
    yield "destruction.svg", _picture(root, environment, {"allot plan --author mio-kite": 0})


def _published(folder: Path, environment: dict[str, str]) -> Place:
    """Return the sample with a remote that it is published to."""
    unused: Any = None
    place = Place(copy_sample(folder / "gpus"), folder / "gpus.git", unused, unused)
    place.begin()
    subprocess.run(["allot", "publish", "--quiet"], cwd=place.root, env=environment, check=True, capture_output=True)
    return place


def _report(place: Place) -> None:
    """Write what the cluster says of two tenants: most of it runs, one waits, one failed."""
    now = datetime.datetime.now(datetime.UTC)

    def ago(**since: int) -> str:
        return (now - datetime.timedelta(seconds=20, **since)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def text(folder: str, name: str) -> bytes:
        return (place.root / f"tenants/{TENANT}/{folder}/{name}.yaml").read_bytes()

    def blob(folder: str, name: str) -> str:
        return compute_blob_id(text(folder, name))

    def size(name: str) -> str:
        match = SIZE.search(text("storages", name).decode())
        assert match is not None
        return match[1]

    full = "no unit of l4-whole is free on eu-1"
    probing = "the container has started, and its probe has not succeeded yet"
    failed = "preparation failed in attempt 1: its source is not available; `allot recover` tries again"
    instances = (
        Instance(
            name="comfy",
            observed_blob=blob("instances", "comfy"),
            state="Running",
            reason="",
            message="",
            since=ago(hours=3),
            gpu_spec="l4-whole",
            units=1,
            replicas=1,
            ready_replicas=1,
            nodes=("l4-2",),
        ),
        Instance(
            name="webui",
            observed_blob=blob("instances", "webui"),
            state="Ready",
            reason="ProbePending",
            message=probing,
            since=ago(minutes=2),
            gpu_spec="l4-quarter",
            units=1,
            replicas=1,
        ),
        Instance(
            name="webui-next",
            observed_blob=blob("instances", "webui-next"),
            state="Waiting",
            reason="NoFreeUnit",
            message=full,
            since=ago(minutes=12),
            gpu_spec="l4-whole",
        ),
    )
    ready = ("base", "comfy-home", "comfy-trial", "outputs", "outputs-restored")
    storages = (
        *(
            Storage(name, blob("storages", name), "Ready", "VolumeBound", since=ago(days=2), capacity=size(name))
            for name in ready
        ),
        Storage(
            "model-cache",
            blob("storages", "model-cache"),
            "Failed",
            "SourceUnavailable",
            failed,
            ago(minutes=40),
            capacity=size("model-cache"),
            prepare=Preparation("u1", 1, "h", "Failed"),
        ),
    )
    snapshot = Snapshot(
        "before-upgrade",
        blob("snapshots", "before-upgrade"),
        "Ready",
        "SnapshotTaken",
        "",
        ago(days=1),
        storage="outputs",
    )
    status = TenantStatus(TENANT, CLUSTER, instances=instances, storages=storages, snapshots=(snapshot,))
    place.report(CLUSTER, status, _running_status(place.root, ago(hours=1)), observed=ago())


def _running_status(root: Path, since: str) -> TenantStatus:
    """Return the status of a tenant with an instance that runs since a time."""
    webui = Instance(
        name="webui",
        observed_blob=compute_blob_id((root / "tenants/solo-ada/instances/webui.yaml").read_bytes()),
        state="Running",
        reason="",
        since=since,
        gpu_spec="l4-quarter",
        units=1,
        replicas=1,
        ready_replicas=1,
        nodes=("l4-ts4-1",),
        pods=1,
        running_pod="webui-7d9c5f6b4-x2x7k",
        url="https://webui--solo-ada.eu-1.gpu.northlight.example/",
    )
    return TenantStatus("solo-ada", CLUSTER, instances=(webui,))


def _picture(root: Path, environment: dict[str, str], commands: dict[str, int]) -> str:
    """Return what commands show on a terminal, as SVG. Each has the exit status that it is expected to end with."""
    outputs = [_run(root, environment, command, status) for command, status in commands.items()]
    console = Console(record=True, width=WIDTH, file=io.StringIO(), color_system="truecolor", force_terminal=True)
    console.print(Text.from_ansi("\n".join(outputs)), soft_wrap=False)
    return (
        FACE.sub("", console.export_svg(title="")).replace("Fira Code, monospace", FONT).replace("arial", FONT) + "\n"
    )


def _run(root: Path, environment: dict[str, str], command: str, expected: int) -> str:
    """Return what a command and its output look like on a terminal. Raises RuntimeError for another exit status."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=root, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    output = _all_of(ours).replace("\r\n", "\n")
    if (status := process.wait()) != expected:
        raise RuntimeError(f"{command} ended with {status}:\n{output}")
    output = TIME.sub("2026-11-21T12:00:00Z", CHECKSUM.sub("4f1d" * 16, COMMIT.sub("4f1d0c2b7a9e", output)))
    return f"\x1b[1m$ {command}\x1b[0m\n{output}".rstrip()


def _all_of(terminal: int) -> str:
    output = b""
    while True:
        try:
            data = os.read(terminal, 65_536)
        except OSError:  # its last writer is gone
            data = b""
        if not data:
            os.close(terminal)
            return output.decode()
        output += data


def main(arguments: list[str]) -> int:
    """Write the pictures, or with --check say which are stale and return 1."""
    check, stale = arguments == ["--check"], 0
    for name, text in screens():
        path = SCREENS / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        print(f"docs/screens/{name}: {'stale: run `make screens`' if check else 'written'}")
        if not check:
            SCREENS.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
