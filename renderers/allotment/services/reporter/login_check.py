"""Compares the declared login of a cluster with its identity provider."""

from __future__ import annotations

import datetime

from allotment.adapters.cluster.discovery import fetch_discovery_document
from allotment.adapters.declaration_source import Source
from allotment.branches.platform_settings import read_members
from allotment.declared.kinds.cluster import Oidc
from allotment.diagnosis.diagnosis import Diagnosis
from allotment.diagnosis.login import diagnose_login
from allotment.services.check.repository_check import RepositoryCheck


def check_login(
    source: Source, check: RepositoryCheck, cluster: str, oidc: Oidc, now: datetime.datetime
) -> list[Diagnosis]:
    """Return the diagnoses of a cluster's login. `now` is the time by the cluster's clock."""
    # Fetch the document before any slow work, because `now` must still be the current time when the request starts.
    response = fetch_discovery_document(oidc.issuer, now)
    group_tenants = [
        tenant
        for tenant, entry in sorted(check.tally_entries.items())
        if cluster in entry.clusters and (members := read_members(source, tenant)) and members.spec.groups
    ]
    return diagnose_login(oidc, response, group_tenants)
