"""A changed field of a declaration, its topic, and its position in a plan.

The changes of access come in the order of `ACCESS_GROUPS`: people first, then the identity, then everything that opens to
everybody, then the rest.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from allotment.diff.field_diff import FieldChange
from allotment.output_part import Part

Topic = Literal[
    "access",
    "approvals",
    "addresses",
    "prices",
    "plans",
    "tenants",
    "capacity",
    "clusters",
    "apps",
    "offers",
    "platform",
]
TOPICS: tuple[Topic, ...] = get_args(Topic)
NEVER_TRUNCATED: tuple[Topic, ...] = ("access", "approvals")
AccessGroup = Literal[
    "Admin", "member", "identity setting", "Public URL", "wider exposure", "other change", "Members URL"
]
ACCESS_GROUPS: tuple[AccessGroup, ...] = get_args(AccessGroup)
PUBLIC = "Public"
OPEN_TO_EVERYBODY = "open to everybody without login"
OPEN_TO_EVERY_NETWORK = "every network may connect, also by SSH"
_URL = "https://"
_PEOPLE = ("spec.groups[", "spec.users[")
_ADMIN = re.compile(r"Admin|(?:name '[^']*', )?role Admin\b.*")  # a group with a space in its name shows the name
_WIDER_EXPOSURE = re.compile(r".*\]\.exposure Public|spec\.portal.*\bpublicPages Public\b.*")
_IDENTITY = ("spec.billing.publicKey", "spec.oidc", "spec.portal", "spec.publisher", "spec.reporter", "spec.ssh")


class DeclaredChange(Part, frozen=True):
    """A changed field of a declaration, with its value before and after the change; null if the field has no value.

    If `field` is empty, the whole file is added or removed. If the change is about an address, `field` is the URL, and
    the values are its exposures: Members or Public. If an instance has no address, `field` is `address`, and both
    values are null.
    """

    topic: Topic
    path: str
    field: str
    before: str | None
    after: str | None
    note: str

    @property
    def text(self) -> str:
        """Return the change as text without its file."""
        if self.field and self.before is None and self.after is None:
            return self.note
        text = str(FieldChange(self.field, self.before, self.after))
        return f"{text} ({self.note})" if self.note else text

    @property
    def access_group(self) -> AccessGroup:
        """Return the group of a change of access. A loss of access by a person is an `other change`."""
        if self.field.startswith(_PEOPLE) and self.after is not None:
            return "Admin" if _ADMIN.fullmatch(self.after) else "member"
        if self.field.startswith(_URL) and self.after == PUBLIC:
            return "Public URL"
        if self.note == OPEN_TO_EVERY_NETWORK or _WIDER_EXPOSURE.fullmatch(f"{self.field} {self.after}"):
            return "wider exposure"
        if self.field.startswith(_IDENTITY):
            return "identity setting"
        is_members_url = self.field.startswith(_URL) and (self.before, self.after) == (None, "Members")
        return "Members URL" if is_members_url else "other change"

    @property
    def opens_to_others(self) -> bool:
        """Whether the change opens a resource to other people than the members of its tenant."""
        is_shared = self.field.startswith("spec.sharedWith") and self.after is not None
        return self.topic == "access" and (is_shared or self.access_group in ("Public URL", "wider exposure"))

    @property
    def subject(self) -> str:
        """Return the file, followed by the person or field that changes. The changes of a person have the same subject."""
        is_person = self.field.startswith(_PEOPLE)
        return f"{self.path} {self.field.partition(']')[0] if is_person else self.field}"


def sort_key(change: DeclaredChange) -> tuple[int, int, str, str, bool]:
    """Return the sort key of a change: the most dangerous topic and group first, and removals before additions."""
    group = ACCESS_GROUPS.index(change.access_group) if change.topic == "access" else 0
    return TOPICS.index(change.topic), group, change.path, change.field, change.before is None
