"""Reads the permission to connect to an instance by SSH, which `manifests/tenant/ssh_access.py` renders."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, NamedTuple

from allotment.access.pods.pod_choice import PodOwner
from allotment.adapters.cluster.api import ApiServer
from allotment.adapters.http_responses import ApiError, ApiUnavailable
from allotment.manifests import names
from allotment.manifests.tenant.ssh_access import ADDRESSES, INSTANCES, KEYS

READ_SECONDS = 10
_NAME = "[a-z](?:-?[a-z0-9])*"
_USER = re.compile(f"({_NAME})--({_NAME})")
_MAX_USER_LENGTH = 100


class SshPermission(NamedTuple):
    """The people with SSH access to an instance.

    `people` has the name of each person by the type and text of the person's public key. `ranges` are the networks from
    which people may connect; empty for all networks.
    """

    owner: PodOwner
    people: Mapping[str, str]
    ranges: tuple[str, ...]

    def find_person(self, key: str, address: str) -> str | None:
        """Return the owner of a public key, as in a line of `authorized_keys`; None if the key or the address has no access."""
        return self.people.get(" ".join(key.split()[:2])) if self.admits_address(address) else None

    def admits_address(self, address: str) -> bool:
        """Return whether people may connect from an address."""
        if not self.ranges:
            return True
        try:
            client = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if isinstance(client, IPv6Address) and client.ipv4_mapped is not None:
            client = client.ipv4_mapped
        return any(client in ip_network(each) for each in self.ranges)


def parse_user(user: str, cluster: str) -> PodOwner | None:
    """Return the instance that a user name `INSTANCE--TENANT` names; None if it names none."""
    match = _USER.fullmatch(user) if len(user) <= _MAX_USER_LENGTH else None
    return PodOwner("instance", match[2], match[1], cluster) if match is not None else None


def read_permission(api: ApiServer, owner: PodOwner) -> SshPermission | None:
    """Return the people with SSH access to an instance; None if nobody has access.

    Raises ApiError if the API server refuses the gateway, and ApiUnavailable.
    """
    path = f"/api/v1/namespaces/{owner.namespace}/configmaps/{names.SSH_GATEWAY}"
    try:
        data = _parse_data(api.read(path, {}, "application/json", READ_SECONDS))
    except ApiError as error:
        # Without a RoleBinding in the namespace, the gateway may not read the ConfigMap either.
        if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
            return None
        raise
    if owner.name not in data.get(INSTANCES, "").splitlines():
        return None
    lines = [line.split(" ") for line in data.get(KEYS, "").splitlines()]
    # A line of another form gives nobody access, and takes it from nobody else.
    people = {f"{fields[0]} {fields[1]}": fields[2] for fields in lines if len(fields) == 3}
    return SshPermission(owner, people, _parse_ranges(data.get(ADDRESSES)))


def _parse_ranges(text: str | None) -> tuple[str, ...]:
    """Return the networks in a text. Raises ApiUnavailable if it has anything else, or if it is empty."""
    ranges = tuple(text.splitlines()) if text is not None else ()
    try:
        for each in ranges:
            ip_network(each)
    except ValueError:
        ranges = ()
    if text is not None and not ranges:
        raise ApiUnavailable("the API server sent address ranges that are not readable")
    return ranges


def _parse_data(body: bytes) -> Mapping[str, str]:
    try:
        data: Any = json.loads(body)["data"]
    except (ValueError, LookupError, TypeError, RecursionError):
        data = None
    if not isinstance(data, dict) or not all(isinstance(value, str) for value in data.values()):
        raise ApiUnavailable("the API server sent a ConfigMap that is not readable")
    return data
