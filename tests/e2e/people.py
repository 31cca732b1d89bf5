"""People at Argo CD's dashboard. They log in as its local accounts here: to its enforcer an account's name, a token's `sub` and a
group's name are the same kind of subject."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.controlplane.argocd import NAMESPACE, ArgoCD
from tests.controlplane.web import Answered, call
from tests.support.waiting import eventually

PASSWORD = "correct-horse-battery-9"


class Person:
    """Somebody who is logged in to the dashboard."""

    def __init__(self, argocd: ArgoCD, token: str) -> None:
        self.argocd = argocd
        self.token = token

    def ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """Return what the API answers, or the status by which it refuses."""
        url = f"{self.argocd.url}/api/v1/{path}"
        try:
            return call(url, body, method=method, headers={"Authorization": f"Bearer {self.token}"})
        except Answered as refused:
            return refused.status

    def sees(self) -> list[str]:
        """Return the names of the Applications in the list."""
        return sorted(application["metadata"]["name"] for application in self.ask("applications")["items"] or ())


@contextmanager
def logged_in(argocd: ArgoCD, names: Sequence[str]) -> Iterator[dict[str, Person]]:
    """Return people who are logged in, by their names; their accounts go in the end."""
    client = argocd.cluster.client
    accounts = {f"accounts.{name}": "login" for name in names}
    client.patch("v1", "ConfigMap", "argocd-cm", {"data": accounts}, NAMESPACE)
    secret = client.get("v1", "Secret", "argocd-initial-admin-secret", NAMESPACE)
    mine = base64.b64decode(secret["data"]["password"]).decode()

    def person(name: str) -> Person:
        body = {"name": name, "currentPassword": mine, "newPassword": PASSWORD}
        argocd.api("account/password", body, "PUT")
        session = call(f"{argocd.url}/api/v1/session", {"username": name, "password": PASSWORD})
        return Person(argocd, session["token"])

    try:
        yield {name: eventually(partial(person, name), f"{name} to log in") for name in names}
    finally:
        client.patch("v1", "ConfigMap", "argocd-cm", {"data": dict.fromkeys(accounts)}, NAMESPACE)
