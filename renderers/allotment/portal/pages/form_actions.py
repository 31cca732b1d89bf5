"""Describes the changes of a resource that a form offers: the fields, the command, and the lines of the declaration."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from allotment.capacity.pricing import format_money
from allotment.declared.layout import DEFAULT_MAX_NAME_LENGTH, Scope, path_of
from allotment.portal.pages.site_facts import SiteFacts
from allotment.portal.pages.tenant_area import InstanceDetail, StorageDetail, TenantArea

_FIELD = re.compile(r"\{(\w+)\}")
_NAME = "[a-z](?:-?[a-z0-9])*"
SECRET_KIND = "SecretReference"  # noqa: S105  # a kind, not a secret


class ActionField(NamedTuple):
    """A field of a form. With `options`, a person chooses one of these pairs of value and text.

    `pattern` is a regular expression for the whole value; empty if every text is valid.
    """

    name: str
    label: str
    hint: str = ""
    value: str = ""
    options: tuple[tuple[str, str], ...] | None = None
    pattern: str = ""


class Action(NamedTuple):
    """A change. `{field}` in a text stands for the value of a field.

    `command` has the words of the command. `text` has the lines of the declaration to set, or the new file; it is empty if a file is
    removed. `new_path` is the path of a new file; empty for an existing file. `names` are the names that a new resource can't
    have. `form` is the name of the part of the script that knows more about the action; empty for other actions.
    """

    name: str
    title: str
    command: tuple[str, ...] = ()
    text: str = ""
    notes: tuple[str, ...] = ()
    fields: tuple[ActionField, ...] = ()
    new_path: str = ""
    names: Sequence[str] = ()
    form: str = ""

    @property
    def example(self) -> str:
        """The command for people without scripts, with the names of fields in upper case."""
        return shlex.join(_FIELD.sub(lambda match: match[1].upper(), word) for word in self.command)

    def describe(self) -> dict[str, Any]:
        """Return the facts for the script."""
        return {
            "command": self.command,
            "text": self.text,
            "notes": self.notes,
            "path": self.new_path,
            "names": self.names,
            "longest": DEFAULT_MAX_NAME_LENGTH,
            "form": self.form,
        }


def list_instance_actions(area: TenantArea, instance: InstanceDetail) -> Iterator[Action]:
    """Yield the changes of a declared instance."""
    row = instance.row
    target = f"{area.name}/{row.name}"
    is_stopped = row.state == "Stopped"
    yield Action("state", "Start the instance" if is_stopped else "Stop the instance", form="state")
    if not is_stopped:
        yield Action(
            "restart",
            "Restart the instance",
            ("allot", "instance", "restart", target, "--pr"),
            f"spec:\n  restarts: {_find_number(instance.text, 'restarts') + 1}",
            ("Its own disk is erased, and its storages stay.",),
        )
    yield Action(
        "resize",
        "Change the GPU spec or the number of replicas",
        fields=(
            ActionField("gpuSpec", "GPU spec", options=()),
            ActionField("replicas", "Replicas", "independent copies, 1 to 100"),
        ),
        form="resize",
    )
    yield Action(
        "delete",
        "Delete the instance",
        ("allot", "instance", "delete", target, "--pr"),
        notes=(f"Its file {row.path} is removed. Its own disk is erased, and its storages stay.",),
    )


def list_storage_actions(
    site: SiteFacts, area: TenantArea, storage: StorageDetail, new_storage: str, new_snapshot: str
) -> Iterator[Action]:
    """Yield the changes of a declared storage.

    `new_storage` and `new_snapshot` are the first lines of the file of a new storage and of a new snapshot.
    """
    row = storage.row
    target, tenant = f"{area.name}/{row.name}", Scope("tenant", area.name)
    size = ActionField("size", "New size", f"more than {row.size}")
    yield Action("grow", "Grow the storage", fields=(size,), form="grow")
    yield Action(
        "snapshot",
        "Take a snapshot",
        ("allot", "storage", "snapshot", target, "{name}", "--pr"),
        f"{new_snapshot}  name: {{name}}\nspec:\n  storage: {row.name}\n",
        ("The cluster takes the snapshot after the merge. It costs money while it exists: the plan shows how much.",),
        (ActionField("name", "Name of the snapshot"),),
        new_path=path_of("GPUStorageSnapshot", tenant, "{name}"),
        names=[snapshot.name for snapshot in area.snapshots],
    )
    yield Action(
        "clone",
        "Copy it into a new storage",
        ("allot", "storage", "clone", target, "{name}", "--pr"),
        f"{new_storage}  name: {{name}}\nspec:\n  cluster: {row.cluster}\n  storageSpec: {row.storage_spec}\n  size: {row.size}\n"
        f"  prepare:\n    source:\n      storage:\n        name: {row.name}\n",
        (_describe_copy(site, storage),),
        (ActionField("name", "Name of the copy"),),
        new_path=path_of("GPUStorage", tenant, "{name}"),
        names=area.storage_names,
    )
    yield Action(
        "share",
        "Let another tenant copy it",
        ("allot", "set", f"storage/{target}", "sharedWith+={tenant: {other}}", "--pr"),
        "spec:\n  sharedWith:\n    - tenant: {other}",
        ("The other tenant can fill a storage of its own with the content. It can't change this storage.",),
        (ActionField("other", "Name of the other tenant", "the name of its folder below tenants/", pattern=_NAME),),
    )
    is_marked = "deletionPolicy: Delete" in storage.text
    mounts = storage.row.mounted_by
    uses = f"First remove it from {', '.join(mounts[:5])}: the deletion is refused while an instance names it."
    step = (
        f"This second merge removes the file {row.path}, and then the data is deleted."
        if is_marked
        else "This first of two merges deletes nothing. After it, repeat this step: the second merge deletes the data."
    )
    yield Action(
        "delete",
        "Delete the storage and its data",
        ("allot", "storage", "delete", target, "--pr"),
        "" if is_marked else "spec:\n  deletionPolicy: Delete",
        (uses, step) if mounts else (step,),
    )


def list_member_actions(area: TenantArea) -> Iterator[Action]:
    """Yield the changes of the members."""
    roles = tuple((role, role) for role in ("Member", "Admin", "Viewer"))
    yield Action(
        "add",
        "Add a member",
        fields=(
            ActionField("name", "Name", "a-z, 0-9 and '-', 3 to 32 characters"),
            ActionField("role", "Role", options=roles),
            ActionField("login", "Login at the forge", "such as jo-k, or jo-k#4711 with the user ID"),
            ActionField("subject", "Subject", "the claim sub of the ID token, which the identity provider shows"),
        ),
        form="member",
    )
    users = tuple((member.name, member.name) for member in area.members if member.kind == "User")
    if users:
        yield Action(
            "key",
            "Add an SSH key",
            ("allot", "set", f"Members/{area.name}", "users.{user}.sshKeys+={key}", "--pr"),
            "spec:\n  users:\n    - name: {user}\n      sshKeys:\n        - {key}",
            ("Keep the earlier keys and the other lines of this user.",),
            (
                ActionField("user", "Member", options=users),
                ActionField(
                    "key",
                    "Public key",
                    "a line such as ssh-ed25519 AAAA… from ~/.ssh/id_ed25519.pub, never the private key",
                    pattern=r"(?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.\-]+ AAAA[A-Za-z0-9+\/=]+(?: .*)?",
                ),
            ),
        )


def list_secret_actions(site: SiteFacts, area: TenantArea, new_secret: str) -> Iterator[Action]:
    """Yield the declaration of a secret. `new_secret` are the first lines of its file."""
    clusters = tuple((cluster.name, cluster.title) for cluster in site.clusters if cluster.lifecycle != "Retired")
    yield Action(
        "secret",
        "Declare a secret",
        ("allot", "secret", "create", f"{area.name}/{{name}}", "--cluster", "{cluster}", "--key", "{key}", "--pr"),
        f"{new_secret}  name: {{name}}\nspec:\n  cluster: {{cluster}}\n  keys:\n    - name: {{key}}\n      path: {{name}}\n      property: {{key}}\n",
        ("The value stays in the secret store of the cluster: never write it into a file of the repository.",),
        (
            ActionField("name", "Name", "a-z, 0-9 and '-'"),
            ActionField(
                "key", "Key", "such as token, with letters, digits, '.', '_' and '-'", pattern=r"[A-Za-z0-9._\-]+"
            ),
            ActionField("cluster", "Cluster", options=clusters),
        ),
        new_path=path_of(SECRET_KIND, Scope("tenant", area.name), "{name}"),
    )


def _describe_copy(site: SiteFacts, storage: StorageDetail) -> str:
    cost = (
        f" and costs {format_money(storage.cost_per_month)} {site.currency} a month"
        if storage.cost_per_month is not None
        else ""
    )
    return f"The copy has {storage.row.size}{cost}."


def _find_number(text: str, field: str) -> int:
    """Return the number in a field of the spec; 0 without the field."""
    digits = next(
        (line.split(":", 1)[1].split("#")[0].strip() for line in text.splitlines() if line.startswith(f"  {field}:")),
        "",
    )
    return int(digits) if digits.isdigit() else 0
