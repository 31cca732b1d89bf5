"""Identify people at a forge: by a login, which another person may get later, or by an ID, which never changes."""

from __future__ import annotations

import string
from typing import NamedTuple

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def normalize_login(login: str) -> str:
    """Return a login in lower case, so that logins are compared as a forge compares them.

    Only ASCII letters change. The rules of Unicode also map the Kelvin sign to k, but a forge treats logins with these
    two characters as different.
    """
    return login.translate(_LOWER)


class Account(NamedTuple):
    """A person's login and ID at the forge, written as `ada-k` or `ada-k#4711`. The ID is 0 if it is unknown."""

    login: str
    id: int = 0

    def __str__(self) -> str:
        return f"{self.login}#{self.id}" if self.id else self.login

    def is_same_person(self, other: Account) -> bool:
        """Return whether this declared account is `other`, an account that the forge reports.

        If the declared account has an ID, only the IDs are compared. Otherwise, the logins are compared.
        """
        return self.id == other.id if self.id else normalize_login(self.login) == normalize_login(other.login)


def parse_account(text: str) -> Account:
    """Return the account that is written as `login` or `login#id`."""
    login, _, number = text.partition("#")
    return Account(login, int(number) if number.isascii() and number.isdigit() else 0)
