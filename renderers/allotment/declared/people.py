"""Identify people at a forge: by a login, which another person may take over later, or by an ID, which is permanent."""

from __future__ import annotations

import string
from typing import NamedTuple

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def normalize_login(login: str) -> str:
    """Return a login in lower case, for comparison as a forge does it.

    Only ASCII letters change. Unicode's rules also map the Kelvin sign to k, but a forge treats these as different
    logins.
    """
    return login.translate(_LOWER)


class Account(NamedTuple):
    """A person: the login, and the forge's ID, 0 if unknown. Written as `ada-k`, or `ada-k#4711`."""

    login: str
    id: int = 0

    def __str__(self) -> str:
        return f"{self.login}#{self.id}" if self.id else self.login

    def is_same_person(self, other: Account) -> bool:
        """Return whether this declared account is the forge's account `other`: by ID if it has an ID, else by login."""
        return self.id == other.id if self.id else normalize_login(self.login) == normalize_login(other.login)


def parse_account(text: str) -> Account:
    """Return the account in a text."""
    login, _, number = text.partition("#")
    return Account(login, int(number) if number.isascii() and number.isdigit() else 0)
