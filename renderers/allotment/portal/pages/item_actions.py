"""Describes the changes of a form that add an item to a list of a declaration, or remove it: mounts, secrets, readers and members."""

from __future__ import annotations

import re
from collections.abc import Iterator

from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.tenant_facts import MemberFacts
from allotment.edits.field_assignments import quote_path_name
from allotment.observed.resource_rows import InstanceRowOutput
from allotment.portal.pages.folder_patterns import FOLDER_HINT, build_app_folder_pattern, build_free_folder_pattern
from allotment.portal.pages.form_facts import (
    MAX_NAMES,
    describe_storage,
    describe_use,
    list_access,
    list_secret_keys,
    list_ssh_notes,
)
from allotment.portal.pages.page_action import Action, ActionField, add_item, remove_item
from allotment.portal.pages.tenant_area import InstanceDetail, StorageDetail, TenantArea
from allotment.preparation.start_gates import app_version
from allotment.rules.app_folders import list_arguments
from allotment.rules.unsaved_folders import describe_folder, find_unsaved_folders

_ROLES = tuple((role, role) for role in ("Member", "Admin", "Viewer"))
_VARIABLE = re.compile("[A-Z_][A-Z0-9_]{0,252}")
_VARIABLE_HINT = "a name such as HF_TOKEN, new in the instance: upper-case letters, digits and '_', no digit first, no NVIDIA_ or CUDA_MPS_"


def list_mount_actions(area: TenantArea, instance: InstanceDetail) -> Iterator[Action]:
    """Yield the changes that mount a storage, unmount a storage, and give the instance a secret or the access SSH."""
    row = instance.row
    declared = area.allowance.declarations.of_kind(GPUInstance).get(row.name)
    if declared is None:
        return
    spec, command = declared.model.spec, ("allot", "set", f"instance/{area.name}/{row.name}")
    notes = list_restart_notes(row)
    mountable = _list_mountable(area, instance)
    if mountable:
        text, instruction = add_item(instance.text, ("storages",), "    - name: {storage}\n      mountPath: {folder}")
        action = Action(
            "mount",
            "Mount a storage",
            ("allot", "instance", "mount", f"{area.name}/{row.name}", "{storage}:{folder}", "--pr"),
            text,
            notes,
            (
                ActionField("storage", "Storage", options=tuple((name, text) for name, (text, _) in mountable.items())),
                ActionField(
                    "folder",
                    "Folder in the container",
                    FOLDER_HINT,
                    pattern=build_free_folder_pattern([mount.mount_path for mount in spec.storages]),
                ),
            ),
            instruction=instruction,
            change="Change",
            warning=_warn_about_folder(area, declared.model),
        )
        variants = {
            name: action._replace(barriers=(f"{name} can't be mounted: {barrier}.",))
            for name, (_, barrier) in mountable.items()
            if barrier
        }
        yield action._replace(variants=variants)
    names = [mount.name for mount in spec.storages]
    if mounted := tuple((name, name) for name in names if names.count(name) == 1):
        text, instruction = remove_item(len(names), "storages", "    - name: {storage}")
        action = Action(
            "unmount",
            "Unmount a storage",
            ("allot", "instance", "unmount", f"{area.name}/{row.name}", "{storage}", "--pr"),
            text,
            (*notes, "The files stay on the storage."),
            (ActionField("storage", "Storage", options=mounted),),
            instruction=instruction,
            change="Change",
        )
        lost = {name: tuple(_list_lost_folders(area, declared.model, name)) for name, _ in mounted}
        yield action._replace(
            variants={name: action._replace(notes=(*action.notes, *texts)) for name, texts in lost.items() if texts}
        )
    yield from _list_secret_actions(area, instance, command, notes)
    folder = area.allowance.catalog.clusters.get(row.cluster)
    cluster = folder.get_singleton(Cluster) if folder is not None else None
    if cluster is not None and cluster.model.spec.ssh is not None and "SSH" not in spec.access:
        text, instruction = add_item(instance.text, ("access",), "    - SSH")
        yield Action(
            "ssh",
            "Allow SSH",
            (*command, "access+=SSH", "--pr"),
            text,
            ("Each Admin and Member with an SSH key can open a shell in the instance.", *list_ssh_notes(area)),
            instruction=instruction,
            change="Change",
        )


def list_restart_notes(row: InstanceRowOutput) -> tuple[str, ...]:
    """Return the note that the change of an instance restarts it; empty if the instance doesn't run."""
    return ("The instance restarts. Its own disk is erased, and its storages stay.",) if row.state == "Running" else ()


def list_erased_folders(area: TenantArea, instance: InstanceDetail) -> tuple[str, ...]:
    """Return a sentence for each folder of the app that is on no storage, if the instance runs."""
    declared = area.allowance.declarations.of_kind(GPUInstance).get(instance.row.name)
    if declared is None or declared.model.spec.state != "Running":
        return ()
    return tuple(
        f"{describe_folder(folder)} is on no storage: this erases its files."
        for folder in find_unsaved_folders(area.allowance.catalog, declared.model)
    )


def _list_mountable(area: TenantArea, instance: InstanceDetail) -> dict[str, tuple[str, str]]:
    """Return the text and the reason against each storage that the instance could mount, the possible storages first.

    The reason is empty for a possible storage, and otherwise a part of the text.
    """
    row, access, mountable = instance.row, list_access(area), dict[str, tuple[str, str]]()
    for storage in area.storages[:MAX_NAMES]:
        name, kind = storage.row.name, access.get(storage.row.storage_spec or "", "")
        if not storage.text or storage.row.cluster != row.cluster or name in row.storages or kind == "Bucket":
            continue
        has_use = row.state == "Running" or storage.row.is_marked_for_deletion
        use = describe_use(area, storage.row, kind) if has_use else ""
        is_single = kind == "ReadWriteOnce" and row.replicas > 1
        barrier = use or (f"it is for one replica, and the instance has {row.replicas}" if is_single else "")
        label = describe_storage(area, storage.row)
        mountable[name] = f"{label} ({barrier})" if barrier else label, barrier
    return dict(sorted(mountable.items(), key=lambda item: bool(item[1][1])))


def _warn_about_folder(area: TenantArea, instance: GPUInstance) -> tuple[str, str, str] | None:
    """Return the warning of the rule app-folder about a mount: its field, the pattern of a right folder, and the text."""
    version, spec = app_version(area.allowance.catalog, instance), instance.spec
    if version is None or spec.app is None or not version.folders:
        return None
    folders = [folder.path for folder in version.folders]
    text = (
        f"{{folder}} is not a folder of app {spec.app.name} {spec.app.version}, which has {', '.join(folders)}: mount the storage"
        " there, or name this path in container.args or container.env."
    )
    return "folder", build_app_folder_pattern(folders, list_arguments(spec)), text


def _list_lost_folders(area: TenantArea, instance: GPUInstance, storage: str) -> Iterator[str]:
    """Yield the effect on each folder of the app that is on no storage after `storage` is unmounted."""
    spec = instance.spec
    storages = [mount for mount in spec.storages if mount.name != storage]
    changed = instance.model_copy(update={"spec": spec.model_copy(update={"storages": storages})})
    unsaved = find_unsaved_folders(area.allowance.catalog, instance)
    for folder in find_unsaved_folders(area.allowance.catalog, changed):
        if folder not in unsaved:
            yield f"{describe_folder(folder)} is then on no storage: each stop or restart erases new files there."


def _list_secret_actions(
    area: TenantArea, instance: InstanceDetail, command: tuple[str, ...], notes: tuple[str, ...]
) -> Iterator[Action]:
    """Yield the change that gives the instance a key of a secret as an environment variable."""
    keys = [key for key in list_secret_keys(area) if key["cluster"] == instance.row.cluster]
    declared = area.allowance.declarations.of_kind(GPUInstance)[instance.row.name].model.spec.container
    variables = declared.env if declared is not None else ()
    used = "".join(f"(?!{each.name}$)" for each in variables if _VARIABLE.fullmatch(each.name))
    variants = {}
    for key in keys:
        item = f"      - name: {{variable}}\n        valueFrom:\n          secretKeyRef:\n{key['reference']}"
        text, instruction = add_item(instance.text, ("container", "env"), item)
        reference = ", ".join(line.strip() for line in key["reference"].splitlines())
        word = f'container.env+={{name: "{{variable}}", valueFrom: {{secretKeyRef: {{{reference}}}}}}}'
        variants[key["name"]] = Action("", "", (*command, word, "--pr"), text, notes, instruction=instruction)
    if variants:
        first = next(iter(variants.values()))
        yield first._replace(
            name="env",
            title="Give it a secret",
            fields=(
                ActionField("secret", "Secret and its key", options=tuple((name, name) for name in variants)),
                ActionField(
                    "variable",
                    "Environment variable",
                    _VARIABLE_HINT,
                    pattern=f"(?!NVIDIA_|CUDA_MPS_){used}{_VARIABLE.pattern}",
                ),
            ),
            variants=variants,
            change="Change",
        )


def list_reader_actions(area: TenantArea, storage: StorageDetail) -> Iterator[Action]:
    """Yield the change that ends the sharing of a storage with another tenant."""
    declared = area.allowance.declarations.of_kind(GPUStorage).get(storage.row.name)
    readers = declared.model.spec.shared_with if declared is not None else []
    if not readers:
        return
    options = tuple((each.tenant, each.tenant) if each.tenant else ("All", "All tenants") for each in readers)
    text, instruction = remove_item(len(readers), "sharedWith", "    - tenant: {reader}")
    action = Action(
        "unshare",
        "Stop sharing it with a tenant",
        ("allot", "set", f"storage/{area.name}/{storage.row.name}", "sharedWith.{reader}-", "--pr"),
        text,
        ("The tenant can't copy it any more. Its earlier copies stay.",),
        (ActionField("reader", "Tenant", options=options),),
        instruction=instruction,
        change="Change",
    )
    yield action._replace(variants={"All": action._replace(text=text.replace("- tenant:", "- tenants:"))})


def list_member_actions(area: TenantArea) -> Iterator[Action]:
    """Yield the changes of the members."""
    yield Action(
        "add",
        "Add a member",
        fields=(
            ActionField("name", "Name", "a-z, 0-9 and '-', 3 to 32 characters"),
            ActionField("role", "Role", options=_ROLES),
            ActionField(
                "login",
                "Login at the forge",
                "a name such as jo-k, or jo-k#4711 with the user ID",
                pattern=r"[A-Za-z0-9](?:[A-Za-z0-9._\-]{0,38}[A-Za-z0-9_])?(?:#[1-9][0-9]{0,17})?",
                is_optional=True,
            ),
            ActionField(
                "subject",
                "Subject",
                "the claim sub of the ID token, which the identity provider shows: such as 00u1jo, of letters, digits and . _ : | -",
                pattern=r"[A-Za-z0-9][A-Za-z0-9._:\|\-]{0,99}",
                is_optional=True,
            ),
        ),
        form="member",
        change="Members",
        instruction=add_item(area.members_text or "", ("users",), "")[1],
    )
    yield from _list_member_changes(area)
    users = tuple((member.name, member.name) for member in area.members if member.kind == "User")
    if users:
        action = Action(
            "key",
            "Add an SSH key",
            ("allot", "set", f"Members/{area.name}", "users.{user}.sshKeys+={key}", "--pr"),
            "        - {key}",
            fields=(
                ActionField("user", "Member", options=users),
                ActionField(
                    "key",
                    "Public key",
                    "a line such as ssh-ed25519 AAAA… from ~/.ssh/id_ed25519.pub, without blanks in its comment, never the private key",
                    pattern=r"(?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.\-]+ AAAA[A-Za-z0-9+\/=]+(?: [!-~]+)?",
                ),
            ),
            instruction="Or add this item to the list sshKeys of the user {user} in",
            change="Members",
        )
        first = action._replace(
            text=f"      sshKeys:\n{action.text}", instruction="Or add these lines to the user {user} in"
        )
        yield action._replace(
            variants={member.name: first for member in area.members if member.kind == "User" and not member.ssh_keys}
        )


def _list_member_changes(area: TenantArea) -> Iterator[Action]:
    """Yield the changes that remove a member, and that change its role."""
    members = {_name_member(member): member for member in area.members}
    if not members:
        return
    choice = ActionField(
        "member",
        "Member",
        options=tuple((name, f"{name}, {member.role}") for name, member in members.items()),
    )
    admins = [member for member in area.members if member.role == "Admin"]
    role = Action(
        "role",
        "Change the role of a member",
        ("allot", "set", f"Members/{area.name}", "users.{member}.role={role}", "--pr"),
        "      role: {role}",
        fields=(choice, ActionField("role", "New role", options=_ROLES)),
        instruction="Or set this field of the user {member} in",
        change="Members",
    )
    removal = Action(
        "remove",
        "Remove a member",
        ("allot", "member", "remove", area.name, "{member}", "--pr"),
        notes=("Once the clusters have the change, this member can't open the instances of the tenant.",),
        fields=(choice,),
        change="Members",
    )
    yield role._replace(
        variants={
            name: _check_admins(
                role._replace(
                    command=(
                        "allot",
                        "set",
                        f"Members/{area.name}",
                        f"{_list_name(member)}.{quote_path_name(member.name)}.role={{role}}",
                        "--pr",
                    ),
                    instruction=f"Or set this field of the {member.kind.lower()} {member.name} in",
                    warning=(
                        "role",
                        f"(?!{member.role}$).*",
                        f"{member.name} has the role {member.role} already: nothing changes.",
                    ),
                ),
                member,
                admins,
            )
            for name, member in members.items()
        }
    )
    yield removal._replace(
        variants={
            name: _check_admins(_remove_member(area, removal, member), member, admins)
            for name, member in members.items()
        }
    )


def _name_member(member: MemberFacts) -> str:
    return member.name if member.kind == "User" else f"group {member.name}"


def _list_name(member: MemberFacts) -> str:
    return f"{member.kind.lower()}s"


def _remove_member(area: TenantArea, removal: Action, member: MemberFacts) -> Action:
    count = sum(1 for each in area.members if each.kind == member.kind)
    text, instruction = remove_item(count, _list_name(member), f"    - name: {member.name}")
    group = ("--group",) if member.kind == "Group" else ()
    command = ("allot", "member", "remove", area.name, member.name, *group, "--pr")
    return removal._replace(command=command, text=text, instruction=instruction)


def _check_admins(action: Action, member: MemberFacts, admins: list[MemberFacts]) -> Action:
    """Return the change of a member, with a reason against it if the tenant has no other Admin.

    The forge knows no groups, so a note says that the member is the last Admin with a login.
    """
    if admins == [member]:
        barrier = f"{member.name} is the last Admin: first give another member the role Admin."
        return action._replace(barriers=(barrier,))
    if [admin for admin in admins if admin.login] == [member]:
        note = f"Without the Admin {member.name}, no member can approve changes of the members at the forge."
        return action._replace(notes=(*action.notes, note))
    return action
