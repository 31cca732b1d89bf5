"""A day of attacks and faults on one cloud, in a random order: each harms whom it may harm, and all others are served."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from random import Random

import pytest

from tests.e2e import abuse, forgeries, oracle
from tests.e2e.abuse import MANY, STOPPED, WITNESS, Attack
from tests.e2e.cloud import Cloud
from tests.support.cloud_objects import deployment
from tests.support.cloud_status import BRANCH, OURS, instance
from tests.support.published import INSTANCE, git
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e

SEED = int(os.environ.get("ABUSE_SEED", "20261124"))
PATH = f"tenants/{WITNESS}/instances/witness.yaml"
OTHER_AGES = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
# Each of these leaves the repositories and the publisher alone, so another attack may happen at the same time.
HAND_EDITS: dict[str, Attack] = {
    "edit by hand": forgeries.edit_by_hand,
    "delete by hand": forgeries.delete_by_hand,
    "scale by hand": forgeries.scale_by_hand,
    "bind by hand": forgeries.bind_by_hand,
    "weaken the platform": forgeries.weaken_platform,
}
ATTACKS: dict[str, Attack] = {
    "forge a status": partial(forgeries.forge_status, times=["2026-11-21T12:00:00Z"], refs=(BRANCH,)),
    "forge a status without a time zone": partial(
        forgeries.forge_status, times=["2026-11-21T12:00:00"], refs=(BRANCH, OURS)
    ),
    "forge a status of another age": partial(forgeries.forge_status, times=OTHER_AGES, refs=(BRANCH, OURS)),
    "forge manifests": forgeries.forge_manifests,
    "forge the published ref": forgeries.forge_published_ref,
    "lock the branch": abuse.lock_branch,
    "lose the published ref": abuse.lose_ref,
    "lose the branch": abuse.lose_branch,
    "kill the publisher": abuse.kill_publisher,
    "stop the publisher": abuse.stop_publisher,
    "damage the clones": abuse.damage_clones,
    "date a merge absurdly": abuse.date_absurdly,
    "delete in steps": abuse.delete_in_steps,
    "delete across tenants": abuse.delete_across_tenants,
    "write hostile files": abuse.write_hostile_files,
    "break a cluster": abuse.break_cluster,
}


@pytest.fixture(scope="module")
def cloud(start_cloud: Callable[..., AbstractContextManager[Cloud]]) -> Iterator[Cloud]:
    """Return a cloud with many stopped instances of a tenant and an instance of the witness."""
    with start_cloud(declared={**MANY, PATH: INSTANCE.format(name="witness", labels="")}) as shared_cloud:
        git(shared_cloud.root, "remote", "add", "origin", shared_cloud.url)
        yield shared_cloud


class Witness:
    """A tenant that stops or starts its instance in each step."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._before = deployment(cloud, WITNESS, "witness")
        self._blob = ""
        self._replicas = 1

    def merge(self) -> None:
        """Merge the next change."""
        self._before = deployment(self._cloud, WITNESS, "witness")
        self._cloud.edit(PATH, *(STOPPED if self._replicas else reversed(STOPPED)))
        self._replicas = 1 - self._replicas
        self._cloud.merge()
        self._blob = git(self._cloud.root, "rev-parse", f"HEAD:{PATH}")

    def is_served(self, seconds: float) -> None:
        """Wait until the Deployment is changed, and is the same object, its pods are there, and the status says so."""
        client = self._cloud.clusters["eu-1"].client

        def changed() -> bool:
            now = deployment(self._cloud, WITNESS, "witness")
            assert now["metadata"]["uid"] == self._before["metadata"]["uid"]
            assert now["metadata"]["generation"] > self._before["metadata"]["generation"]
            assert now["spec"]["replicas"] == self._replicas
            pods = client.list("v1", "Pod", f"t-{WITNESS}", "allotment.dev/instance=witness")
            return [pod["status"].get("phase") for pod in pods] == ["Running"] * self._replicas

        eventually(changed, "the merge to arrive at the cluster", seconds)

        def reported() -> bool:
            status = instance(self._cloud, "witness", WITNESS)
            wanted = self._blob, "Running" if self._replicas else "Stopped"
            assert (status.observed_blob, status.state) == wanted, status
            return True

        eventually(reported, "the change to be reported", seconds)


def drawn(chance: Random) -> list[dict[str, Attack]]:
    """Return the attacks of each step by name: each attack in a step, and each hand edit at the same time as another attack."""
    names = chance.sample(sorted(ATTACKS), len(ATTACKS))
    edits = dict(zip(chance.sample(names, len(HAND_EDITS)), HAND_EDITS, strict=True))
    return [
        {edits[name]: HAND_EDITS[edits[name]], name: ATTACKS[name]} if name in edits else {name: ATTACKS[name]}
        for name in names
    ]


def test_a_day_of_abuse_ends_clean(cloud: Cloud) -> None:
    chance, witness = Random(SEED), Witness(cloud)  # no secret
    for step, attacks in enumerate(drawn(chance)):
        begun, named = time.monotonic(), f"seed {SEED}, step {step}: {' and '.join(attacks)}"
        try:
            with ExitStack() as harm:
                stops = [harm.enter_context(attack(cloud, chance)) for attack in attacks.values()]
                witness.merge()
                if not any(stops):
                    witness.is_served(60)
            witness.is_served(60)
            oracle.check(cloud, every_kind=False)
        except BaseException as error:
            error.add_note(named)
            raise
        print(f"{named}: {time.monotonic() - begun:.1f} s")
    for log in cloud.logs():
        text = log.read_text(encoding="utf-8")
        assert not re.search(r"\bbug\b|Traceback|rewound", text), f"seed {SEED}: {log}"
