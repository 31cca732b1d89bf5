"""Checks the version of Kubernetes against the versions with which Allotment is tested."""

from __future__ import annotations

import re
from collections.abc import Iterator

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.diagnosis.cluster_snapshot import ClusterSnapshot
from allotment.diagnosis.diagnosis import Diagnosis, error, ok, skipped, warning

TESTED_VERSION = (1, 36)
# Every rendered pod requires user namespaces, which are on by default since 1.33.
OLDEST_VERSION = (1, 33)
_NUMBER = re.compile(r"^[0-9]{1,4}")


def check_version(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of the version of Kubernetes."""
    subject = "Kubernetes"
    major, minor = (_NUMBER.match(snapshot.version.get(part, "")) for part in ("major", "minor"))
    if major is None or minor is None:
        yield skipped(subject, "the API server doesn't report its version")
        return
    version = int(major[0]), int(minor[0])
    current, tested = f"{version[0]}.{version[1]}", f"{TESTED_VERSION[0]}.{TESTED_VERSION[1]}"
    if version < OLDEST_VERSION:
        yield error(
            subject,
            f"the version is {current}: tenants' pods run with hostUsers: false, which is off by default before {OLDEST_VERSION[0]}.{OLDEST_VERSION[1]}",
            f"upgrade to {tested}, the version that Allotment is tested with",
        )
    elif version < TESTED_VERSION:
        yield warning(
            subject, f"the version is {current}, but Allotment is tested with {tested}", f"upgrade to {tested}"
        )
    else:
        yield ok(subject, f"the version is {current}")
