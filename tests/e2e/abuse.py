"""Faults of a publisher, its remote and its clones, and merges that do harm. Each does harm when it is entered. It asserts the
effect and repairs the harm when it is left. It yields whether nothing is published meanwhile."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from allotment.manifests.names import rendered_branch
from tests.e2e.cloud import Cloud
from tests.support import damage
from tests.support.cloud_objects import deployment
from tests.support.published import INSTANCE, git
from tests.support.waiting import eventually

Attack = Callable[[Cloud, Random], AbstractContextManager[bool]]
Harm = Iterator[bool]

WITNESS = "solo-ada"  # no attack touches this tenant
VICTIMS = (("uni-lab", "group-b"), ("film-house", "preview"), ("ml-orbit", "lab"), ("uni-lab", "group-c"))
TENANTS = ("acme-robotics", "film-house", "ml-orbit", "northlight", "studio-kite", "uni-lab")
PUBLISHED = "refs/allotment/published/eu-1"
STOPPED = ("spec:\n", "spec:\n  state: Stopped\n")
MANY = {
    f"tenants/film-house/instances/many-{letter}.yaml": INSTANCE.format(name=f"many-{letter}", labels="").replace(
        *STOPPED
    )
    for letter in "abcdefghijklmnop"
}
_BOMB = "".join(
    f"{name}: &{name} [{', '.join([f'*{of}'] * 9)}]\n" for of, name in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE: tuple[bytes | Path, ...] = (
    b"kind: []\n",
    b"apiVersion: allotment.dev/v1alpha1\nkind: GPUInstance\nmetadata: 3\n",
    b"apiVersion: allotment.dev/v1alpha1\nkind: GPUInstance\nmetadata:\n  name: hostile\nspec: x\n",
    INSTANCE.format(name="hostile", labels="").encode() + b"  replicas: " + b"9" * 5000 + b"\n",
    b"spec: " + b"[" * 2000 + b"]" * 2000 + b"\n",
    Path("/etc/passwd"),
    b"metadata:\n  name: \xff\xfe\n",
    f"a: &a [x]\n{_BOMB}".encode(),
)


def allot(cloud: Cloud, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the clone of the repository; assert that it finds no bug."""
    command = [sys.executable, "-m", "allotment", *words, "--repo", str(cloud.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 3, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done


def uid(cloud: Cloud, tenant: str, name: str) -> str:
    return str(deployment(cloud, tenant, name)["metadata"]["uid"])


def log_event(cloud: Cloud, name: str, words: str, since: int = 0) -> dict[str, Any]:
    """Return the first event of a name, after so many of it, with these words in any of its fields, once it is logged."""

    def logged() -> dict[str, Any]:
        return next(event for event in cloud.running.events(name)[since:] if words in str(event))

    return eventually(logged, f"{name!r} with {words!r}", 60)


@contextmanager
def lock_branch(cloud: Cloud, chance: Random) -> Harm:
    """Leave the lock of a Git that was killed at the remote."""
    lock, since = cloud.forge / "refs/heads/rendered/eu-1.lock", len(cloud.running.events("nothing published"))
    lock.touch()
    yield True
    log_event(cloud, "nothing published", "refs/heads/rendered/eu-1.lock", since)
    assert cloud.running.get("/readyz")[0] == 503
    lock.unlink()
    cloud.running.get("/webhook", b"")
    eventually(lambda: cloud.running.get("/readyz")[0] == 200, "the publisher to be ready", 60)


@contextmanager
def lose_ref(cloud: Cloud, chance: Random) -> Harm:
    since = len(cloud.running.events("nothing published"))
    git(cloud.root, "push", "-q", cloud.url, f":{PUBLISHED}")
    yield True
    log_event(cloud, "nothing published", f"{PUBLISHED} is gone", since)
    assert f"{PUBLISHED} is gone" in allot(cloud, "doctor").stdout
    adopted = allot(cloud, "publish", "--adopt")
    assert adopted.returncode == 0, adopted.stderr


@contextmanager
def lose_branch(cloud: Cloud, chance: Random) -> Harm:
    """Delete or reset the branch of eu-1 while the publisher does nothing."""
    since, branch = len(cloud.running.events("branch restored")), rendered_branch("eu-1")
    verb = chance.choice(("deleted", "reset"))
    with cloud.publisher_stopped():
        target = git(cloud.forge, "rev-parse", f"{branch}~1")
        git(cloud.forge, "update-ref", *(("-d", branch) if verb == "deleted" else (branch, target)))
        for command in ("doctor", "status"):
            done = allot(cloud, command)
            assert f"somebody {verb} the branch" in " ".join((done.stdout + done.stderr).split()), done
    yield False
    log_event(cloud, "branch restored", "eu-1", since)


@contextmanager
def kill_publisher(cloud: Cloud, chance: Random) -> Harm:
    yield True
    time.sleep(chance.uniform(0, 1.5))  # in any part of the publish
    cloud.restart()


@contextmanager
def stop_publisher(cloud: Cloud, chance: Random) -> Harm:
    """Stop the publisher in any part of a publish, publish a newer commit from elsewhere, and let it continue."""
    yield True
    time.sleep(chance.uniform(0, 1.5))
    cloud.running.process.send_signal(signal.SIGSTOP)
    try:
        cloud.edit("tenants/uni-lab/instances/group-d.yaml", "spec:\n", f"spec:\n  # {chance.random()}\n")
        cloud.merge()
        published = allot(cloud, "publish")
        assert published.returncode == 0, published.stderr
    finally:
        cloud.running.process.send_signal(signal.SIGCONT)
    cloud.running.get("/webhook", b"")
    assert cloud.published()["refs/allotment/source"] == git(cloud.root, "rev-parse", "HEAD")


@contextmanager
def damage_clones(cloud: Cloud, chance: Random) -> Harm:
    """Remove the packs of the publisher's clone and of the reporter's."""
    since, data = len(cloud.running.events("clone replaced")), cloud.running.log.with_suffix("")
    for clone in (data, data / "report"):
        damage.remove_packs(clone)
    yield False
    eventually(lambda: len(cloud.running.events("clone replaced")) == since + 2, "both clones to be replaced", 60)


@contextmanager
def date_absurdly(cloud: Cloud, chance: Random) -> Harm:
    """Let the next merge be of 1970, or of the year 2100."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_COMMITTER_DATE", chance.choice(("@1 +0000", "@4102444800 +1400")))
        yield False


@contextmanager
def delete_in_steps(cloud: Cloud, chance: Random) -> Harm:
    """Remove most of a tenant's many stopped instances, in two steps: the second is too much within a day."""
    paths = chance.sample(sorted(MANY), 12)
    for path in paths[:4]:
        (cloud.root / path).unlink()
    cloud.merged()
    live = {path: uid(cloud, "film-house", Path(path).stem) for path in paths[4:]}
    for path in live:
        (cloud.root / path).unlink()
    yield False
    # 12 of 20; 8 of 16 where a forged ref without history hides the first step: no publisher's key is declared here.
    assert "the brake stops this: " in str(log_event(cloud, "tenant kept", "instances of tenant film-house would be"))
    assert "1 tenant retained: film-house" in allot(cloud, "status").stderr
    assert {path: uid(cloud, "film-house", Path(path).stem) for path in live} == live
    for path in paths:
        cloud.declare(path, MANY[path])
    cloud.merged()


@contextmanager
def delete_across_tenants(cloud: Cloud, chance: Random) -> Harm:
    since = len(cloud.running.events("nothing published"))
    files = {
        path: path.read_text() for tenant in TENANTS for path in (cloud.root / f"tenants/{tenant}/instances").glob("*")
    }
    gone = {path: text for path, text in files.items() if str(path.relative_to(cloud.root)) not in MANY}
    for path in gone:
        path.unlink()
    # Somebody may have deleted one by hand, and Argo CD restores it.
    live = {victim: eventually(partial(uid, cloud, *victim), f"{victim} to be there", 60) for victim in VICTIMS}
    yield True
    log_event(cloud, "nothing published", "the brake stops this: ", since)
    removing = [line.split()[0] for line in allot(cloud, "status").stdout.splitlines() if "Removing" in line]
    assert {f"{tenant}/{name}" for tenant, name in VICTIMS} <= set(removing)
    assert {victim: uid(cloud, *victim) for victim in VICTIMS} == live
    for path, text in gone.items():
        path.write_text(text)
    cloud.merged()


@contextmanager
def write_hostile_files(cloud: Cloud, chance: Random) -> Harm:
    """Write every hostile file, at least one for each tenant but the witness."""
    owners = chance.sample((*TENANTS, *TENANTS), len(HOSTILE))
    places = [cloud.root / f"tenants/{owner}/instances/hostile-{number}.yaml" for number, owner in enumerate(owners)]
    since, trees = len(cloud.running.events("tenant kept")), rendered_trees(cloud, owners)
    for place, content in zip(places, HOSTILE, strict=True):
        place.parent.mkdir(exist_ok=True)
        if isinstance(content, Path):
            place.symlink_to(content)
        else:
            place.write_bytes(content)
    yield False
    for owner, place in zip(owners, places, strict=True):
        assert place.name in str(log_event(cloud, "tenant kept", f"'tenant': '{owner}'", since))
    assert rendered_trees(cloud, owners) == trees
    for place in places:
        place.unlink()
    cloud.merged()


def rendered_trees(cloud: Cloud, tenants: Sequence[str]) -> dict[str, str]:
    """Return the Git tree of each tenant's folder, by branch and tenant."""
    return {
        f"{cluster} {tenant}": git(cloud.forge, "ls-tree", rendered_branch(cluster), f"tenants/{tenant}")
        for cluster in cloud.clusters
        for tenant in tenants
    }


@contextmanager
def break_cluster(cloud: Cloud, chance: Random) -> Harm:
    """Write a fault into the folder of us-1."""
    path = cloud.root / chance.choice(("clusters/us-1/cluster.yaml", "clusters/us-1/stocks/h100-one.yaml"))
    text, tip = path.read_bytes(), cloud.published()[rendered_branch("us-1")]
    path.write_bytes(chance.choice((b"kind: []\n", b"metadata: 3\n", b"spec: [[\n")))
    since = len(cloud.running.events("cluster retained"))
    yield False
    log_event(cloud, "cluster retained", path.relative_to(cloud.root).as_posix(), since)
    assert cloud.published()[rendered_branch("us-1")] == tip
    path.write_bytes(text)
    cloud.merged()
