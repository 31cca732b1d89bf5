"""`make demo`: publishes the sample to a repository of its own, and shows the cloud in the portal as if it had run for weeks."""

from __future__ import annotations

import datetime
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.sample_reports import TROUBLES, SampleReports

PROJECT = Path(__file__).resolve().parent.parent
ALLOT = Path(sys.executable).with_name("allot")
DECLARATION, MANIFEST = "tenants/solo-ada/instances/webui.yaml", "eu-1/tenants/solo-ada/compute/webui.rendered.yaml"
HOST = "127.0.0.1"
IDENTITY = {"NAME": "allotment", "EMAIL": "allotment@localhost"}
# An instance that waits for another reason than a full stock, because the sample has free units.
NODE_LOST = {("studio-kite", "webui-next"): ("Waiting", "NodeLost", "the node eu-1-l4-ts4-2 doesn't respond")}
PAGES = (
    ("a tenant", "tenants/studio-kite/"),
    ("an instance", "tenants/solo-ada/instances/webui.html"),
    ("an invoice", "tenants/studio-kite/invoices/{month}.html"),
    ("the platform", "platform/"),
    ("a new instance", "tenants/solo-ada/new-instance.html"),
)


def allot(folder: Path, *arguments: str) -> None:
    """Run a command in a folder, and show it with its output. If it fails, end with its status."""
    sys.stdout.write(f"\n$ allot {' '.join(arguments)}\n")
    sys.stdout.flush()
    status = subprocess.run([ALLOT, *arguments], cwd=folder, check=False).returncode
    if status:
        sys.exit(status)


def git(folder: Path, *arguments: str, date: datetime.datetime | None = None) -> None:
    """Run Git in a folder without output, with a time for a commit. Raises CalledProcessError if it fails."""
    dates = {} if date is None else dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), date.isoformat())
    names = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in IDENTITY.items()}
    environment = {**os.environ, **names, **dates}
    subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)


def create_cloud(folder: Path, now: datetime.datetime) -> Path:
    """Return a clone of the cloud in a folder, with a bare repository beside it as `origin`.

    The catalog is declared two months before `now`, and the tenants follow, one each day. Both repositories are outside the
    checkout, because Allotment pushes to no repository in a work tree.
    """
    clone = folder / "gpus"
    for root in ("platform", "clusters", "tenants"):
        shutil.copytree(PROJECT / root, clone / root)
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main", "forge.git")
    git(clone, "init", "--quiet", "--initial-branch=main")
    git(clone, "remote", "add", "origin", str(folder / "forge.git"))
    tenants = sorted((clone / "tenants").iterdir())
    for day, path in enumerate([clone / "platform", *tenants]):
        names = ("platform", "clusters") if day == 0 else (f"tenants/{path.name}",)
        date = now - datetime.timedelta(days=60 - day)
        git(clone, "add", "--", *names)
        git(clone, "commit", "--quiet", "--message", f"Add {path.name}", date=date)
    git(clone, "push", "--quiet", "--set-upstream", "origin", "main")
    return clone


def find_port(preferred: int) -> int:
    """Return the preferred port of this machine; if it is in use or 0, a free port."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((HOST, preferred))
        except OSError:
            server.bind((HOST, 0))
            sys.stdout.write(f"\nPort {preferred} is in use, so the portal gets another port; PORT=9000 chooses it.\n")
        port: int = server.getsockname()[1]
        return port


def serve(clone: Path, port: int) -> int:
    """Serve the portal of a clone until a signal ends it. Return its exit status.

    The portal is in a process group of its own, so that only this process gets Ctrl-C from the terminal.
    """
    command = [ALLOT, "portal", "serve", "--listen", f"{HOST}:{port}"]
    with subprocess.Popen(command, cwd=clone, process_group=0) as portal:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda received, _: portal.send_signal(received))
        return portal.wait()


def main() -> None:
    """Show the way from a declaration to manifests and to the portal. At the end, remove the cloud."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    port = find_port(int(sys.argv[2]) if len(sys.argv) > 2 else 8080)
    allot(PROJECT, "validate")
    allot(PROJECT, "render", "--out", str(out))
    with tempfile.TemporaryDirectory(prefix="allotment-demo-") as folder:
        status = show_cloud(Path(folder), out, port)
    sys.exit(status)


def show_cloud(folder: Path, out: Path, port: int) -> int:
    """Create the cloud in a folder, and serve its portal. Return the exit status of the portal."""
    now = datetime.datetime.now(datetime.UTC)
    clone = create_cloud(folder, now)
    allot(clone, "publish", "--to", "../forge.git")
    SampleReports(now, {**TROUBLES, **NODE_LOST}).write(clone, str(folder / "forge.git"))
    declared, manifest = (
        path.read_text(encoding="utf-8") for path in (PROJECT / DECLARATION, PROJECT / out / MANIFEST)
    )
    kinds = [line.removeprefix("kind: ") for line in manifest.splitlines() if line.startswith("kind: ")]
    links = "\n".join(
        f"    {title:<17}http://{HOST}:{port}/{path.format(month=f'{now:%Y-%m}')}" for title, path in PAGES
    )
    sys.stdout.write(
        f"""
One declaration of {len(declared.splitlines())} lines became {len(kinds)} objects of {len(manifest.splitlines())} lines ({", ".join(kinds)}):
    {DECLARATION}
    {out / MANIFEST}

{clone}
    a clone of the cloud, which exists until the portal ends: its origin has the branches rendered/eu-1 and rendered/us-1, as Argo CD would sync them,
    and sample reports of both clusters with weeks of usage. Try in a second terminal:
        allot={PROJECT}/.venv/bin/allot; cd {clone}
        $allot status studio-kite
        $allot cost studio-kite
        $allot instance stop solo-ada/webui && $allot plan
        $allot explain GPUInstance.spec
    A page shows a change after its commit, `git push` and `$allot publish --to ../forge.git`; no cluster runs it. The addresses
    of the sample, below northlight.example and at github.com, do not exist.
    Or write l4-quater for l4-quarter in {DECLARATION}, and run $allot validate.

The portal of this cloud:
{links}
"""
    )
    sys.stdout.flush()
    return serve(clone, port)


if __name__ == "__main__":
    main()
