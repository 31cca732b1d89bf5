"""A private world of this machine for a real node: namespaces and cgroups of its own, which end with its first process.

Nothing in it is a mount, link, rule or setting of the machine: the kernel takes all of it back when the last process ends. What
stays is the folder, and cgroups without processes, which `end` removes. It needs root, and cgroups of version 1.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.controlplane import processes
from tests.support.waiting import eventually

NAMESPACES = ("net", "mount", "uts", "ipc", "pid", "cgroup")
UNSHARED = [*(f"--{name}" for name in NAMESPACES), "--fork", "--kill-child=KILL", "--propagation", "private"]
CONTROLLERS = ("cpu", "memory", "pids")  # by which a kubelet limits pods
COPIED = ("cpuset.cpus", "cpuset.mems")  # a new cgroup has none, and takes no process without
FIRST = "world"  # the log and name of its first process
NOTE = "world.json"  # that process, as the machine counts it, the number in the link's name, and the link's index
MOST = 64  # worlds at once
ADVERTISED = "10.87.255.1"  # the machine's address in each world, at which API servers are found


class Hierarchy(NamedTuple):
    """A hierarchy of cgroups: where it is mounted, and by which option it is mounted once more."""

    place: Path
    option: str


class Network(NamedTuple):
    """The addresses of a world: those of the link that joins it to the machine, and the pods' range."""

    number: int

    @property
    def link(self) -> str:
        """The machine's end of the link; it goes when the world ends."""
        return f"allot{self.number}"

    @property
    def machine(self) -> str:
        """The machine's address on the link, by which the node reaches the API server."""
        return f"10.88.{self.number}.1"

    @property
    def node(self) -> str:
        """The node's address."""
        return f"10.88.{self.number}.2"

    @property
    def pods(self) -> str:
        """The range of the pods' addresses."""
        return f"10.89.{self.number}.0/24"


class Link(NamedTuple):
    """The machine's end of a world's link. A later world may take the same name; the kernel never reuses the index."""

    name: str
    kernel_index: int

    def exists(self) -> bool:
        """Return whether the kernel still has this link."""
        return _link_index(self.name) == self.kernel_index


class World(NamedTuple):
    """A world that has begun: its folder, the process that holds it, as the machine counts it, and its addresses."""

    folder: Path
    first: int
    network: Network

    @property
    def link(self) -> Link:
        """The machine's end of the link. Raises NotStarted where the world ended."""
        index = _link_index(self.network.link)
        if index is None:
            raise processes.NotStarted(f"the link {self.network.link} of {self.folder} does not exist")
        return Link(self.network.link, index)

    def inside(self, command: Sequence[str | Path]) -> list[str]:
        """Return the command that runs another in the world, in its cgroups."""
        joined = " ".join(f"echo $$ > {shlex.quote(str(group / 'cgroup.procs'))};" for group in _groups(self.folder))
        flags = " ".join(f"--{name}" for name in NAMESPACES)
        entered = f"{joined} exec nsenter --target {self.first} {flags} --wdns=/ -- {shlex.join(map(str, command))}"
        return ["sh", "-c", entered]

    def run(self, command: Sequence[str | Path], stdin: str | None = None) -> str:
        """Return what a command prints that runs in the world. Raises NotStarted, with its words, where it fails."""
        done = subprocess.run(
            self.inside(command),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env=processes.environment(self.folder),
        )
        if done.returncode:
            raise processes.NotStarted(
                f"{shlex.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()}"
            )
        return done.stdout


def why_not() -> str | None:
    """Return why no world can begin on this machine; None where one can."""
    if os.geteuid() != 0:
        return "a real node needs root"
    if lacking := [name for name in ("unshare", "nsenter", "ip", "mount") if shutil.which(name) is None]:
        return f"a real node needs {', '.join(lacking)}"
    controllers = {name for hierarchy in _hierarchies() for name in hierarchy.option.removeprefix("none,").split(",")}
    if lacking := [name for name in CONTROLLERS if name not in controllers]:
        return f"a real node needs cgroups of version 1: {', '.join(lacking)}"
    trial = _hierarchies()[0].place / f"allotment-trial-{os.getpid()}"
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        return f"a real node needs cgroups of its own: {error}"
    tried = subprocess.run(["unshare", *UNSHARED, "true"], capture_output=True, text=True, check=False)
    return f"this machine has no namespaces to give: {tried.stderr.strip()}" if tried.returncode else None


def begin(folder: Path, mounted: Sequence[tuple[Path, str]] = ()) -> World:
    """Return a world whose folder is `folder`; `mounted` are folders of the machine and where they are seen inside. Raises
    NotStarted."""
    folder.mkdir(parents=True, exist_ok=True)
    groups = [place for place in _groups(folder) if _make(place)]
    joined = " ".join(f"echo $$ > {shlex.quote(str(place / 'cgroup.procs'))};" for place in groups)
    script = folder / "world.sh"
    script.write_text(_first(folder, mounted), encoding="utf-8")
    ready = folder / "ready"
    ready.unlink(missing_ok=True)
    unshared = shlex.join(["unshare", *UNSHARED, "sh", "-e", str(script)])
    started = processes.start(folder, FIRST, ["sh", "-c", f"{joined} exec {unshared}"])
    started.wait_until(ready.exists, 20)
    first = next(process.pid for process in processes.running(folder) if process.ppid() == started.process.pid)
    world = World(folder, first, _joined(first))
    _give_addresses(world)
    (folder / NOTE).write_text(json.dumps([first, world.network.number, world.link.kernel_index]), encoding="ascii")
    return world


def find_world(folder: Path) -> World | None:
    """Return the world of a folder while its first process lives."""
    try:
        first, number, _ = json.loads((folder / NOTE).read_text(encoding="ascii"))
    except FileNotFoundError:
        return None
    alive = any(process.pid == first for process in processes.running(folder))
    return World(folder, first, Network(number)) if alive else None


def end(folder: Path) -> int:
    """End a world, whatever became of it, remove its cgroups, and return how many processes there were. Its folder stays.

    The kernel takes its network back some time after the last process, so its link is waited for.
    """
    ended = processes.stop(folder, 0)
    for place in _groups(folder):
        eventually(partial(_removed, place), f"{place} to be without processes", 20)
    with contextlib.suppress(FileNotFoundError):  # it had none yet
        _, number, index = json.loads((folder / NOTE).read_text(encoding="ascii"))
        link = Link(Network(number).link, index)
        # On a busy machine the kernel was seen to take more than a minute.
        eventually(lambda: not link.exists(), f"the link {link.name} to be gone", 300)
        (folder / NOTE).unlink()
    return ended


def _hierarchies() -> list[Hierarchy]:
    hierarchies = []
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup":
            named = [
                mount_option
                for mount_option in options.split(",")
                if mount_option not in ("rw", "relatime", "nosuid", "nodev", "noexec")
            ]
            option = ",".join(named)
            hierarchies.append(Hierarchy(Path(place), f"none,{option}" if option.startswith("name=") else option))
    return hierarchies


def _groups(folder: Path) -> list[Path]:
    """Return the cgroup of a world in each hierarchy, named after its folder."""
    name = "allotment" + str(folder).replace("/", "-")
    return [hierarchy.place / name for hierarchy in _hierarchies()]


def _make(place: Path) -> bool:
    place.mkdir(exist_ok=True)
    for name in COPIED:
        if (place / name).exists():
            (place / name).write_text((place.parent / name).read_text(encoding="ascii"), encoding="ascii")
    return True


def _removed(place: Path) -> bool:
    """Remove a cgroup and those below it, the deepest first."""
    for root, _, _ in os.walk(place, topdown=False):
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(root)
    return not place.exists()


def _first(folder: Path, mounted: Sequence[tuple[Path, str]]) -> str:
    """Return what a world's first process does: its own mounts, and then nothing but taking in who has lost a parent."""
    lines = ["mount --make-rshared /", "mount -t proc proc /proc", "umount -R -l /sys", "mount -t sysfs sysfs /sys"]
    lines += ["mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup"]
    for hierarchy in _hierarchies():
        place = shlex.quote(f"/sys/fs/cgroup/{hierarchy.place.name}")
        lines += [f"mkdir {place}", f"mount -t cgroup -o {hierarchy.option} cgroup {place}"]
    lines += [f"mount -t tmpfs -o mode=755 tmpfs {place}" for place in ("/run", "/var/lib")]
    for source, place in mounted:
        lines += [f"mkdir -p {shlex.quote(str(source))} {place}", f"mount --bind {shlex.quote(str(source))} {place}"]
    lines += [
        "ip link set lo up",
        "echo 1 > /proc/sys/net/ipv4/ip_forward",
        # A pod learns at once that an address does not exist: the kernel would withhold most of these answers.
        "echo 0 > /proc/sys/net/ipv4/icmp_ratelimit",
        *(f"echo 0 > /proc/sys/net/ipv4/conf/{scope}/send_redirects" for scope in ("all", "default")),
        f"touch {shlex.quote(str(folder / 'ready'))}",
    ]
    # Children are reaped by the kernel while nobody asks for their status.
    return "\n".join([*lines, "trap '' CHLD", "exec sleep infinity", ""])


def _joined(first: int) -> Network:
    """Return the addresses of a world that now has a link to the machine. Raises NotStarted where none is free."""
    for number in range(MOST):
        network = Network(number)
        command = ["ip", "link", "add", network.link, "type", "veth", "peer", "name", "eth0", "netns", str(first)]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return network
    raise processes.NotStarted("no link of a world is free")


def _link_index(name: str) -> int | None:
    """Return the kernel's number of a link; None where there is no link of that name."""
    try:
        return int(Path("/sys/class/net", name, "ifindex").read_text(encoding="ascii"))
    except FileNotFoundError:
        return None


def _give_addresses(world: World) -> None:
    network = world.network
    for words in (
        f"addr add {network.machine}/30 dev {network.link}",
        f"link set {network.link} up",
        f"addr add {ADVERTISED}/32 dev {network.link}",
        f"route add {network.pods} via {network.node}",
    ):
        subprocess.run(["ip", *words.split()], check=True)
    for words in (
        f"addr add {network.node}/30 dev eth0",
        "link set eth0 up",
        f"route add {ADVERTISED} via {network.machine}",
    ):
        world.run(["ip", *words.split()])
