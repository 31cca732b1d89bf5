"""People at a forge: a login, which somebody else may take once it is free, and an id, which stays one person's."""

from __future__ import annotations

import string
from typing import NamedTuple

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def normalize_login(login: str) -> str:
    """Return what two logins have in common that a forge takes for the same. By Unicode's rules the Kelvin sign is
    a k, too: not for a forge, where somebody else may have that name."""
    return login.translate(_LOWER)


class Account(NamedTuple):
    """A person: the login, and the forge's id, 0 where it isn't known. Written as `ada-k`, or `ada-k#4711`."""

    login: str
    id: int = 0

    def __str__(self) -> str:
        return f"{self.login}#{self.id}" if self.id else self.login

    def is_same_person(self, other: Account) -> bool:
        """Return whether a declared account is one that the forge named: by the id, where one is declared."""
        return self.id == other.id if self.id else normalize_login(self.login) == normalize_login(other.login)


def parse_account(text: str) -> Account:
    """Return the account that a text writes."""
    login, _, number = text.partition("#")
    return Account(login, int(number) if number.isascii() and number.isdigit() else 0)
