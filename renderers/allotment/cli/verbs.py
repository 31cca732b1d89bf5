"""The verbs of other clouds' command lines, each with the command or the line of YAML that does the same here.

`docs/guides/verbs.md` has the same table.
"""

from __future__ import annotations

_INSTANCE = "tenants/TENANT/instances/NAME.yaml"
_REQUEST = "and open a pull request"

ANSWERS: dict[tuple[str, ...], str] = {
    ("ps", "get", "list", "ls", "show", "describe"): (
        "`allot status` lists everything, `allot status TENANT/NAME` shows one instance, storage or snapshot"
    ),
    ("log", "logs"): "`allot status TENANT/INSTANCE` prints the link to its log",
    ("ssh", "exec", "shell", "terminal"): "`allot status TENANT/INSTANCE` prints the link to a terminal in its pod",
    ("open", "url"): "`allot status TENANT/INSTANCE` prints its URL",
    ("top", "metrics", "graphs"): "`allot status TENANT/INSTANCE` prints the link to its graphs",
    ("events",): "`allot history TENANT/NAME` lists the changes of its state",
    ("login", "logout"): (
        "Allotment has no accounts: log in at the forge, and in the browser at the URL of an instance or of Argo CD"
    ),
    ("new", "create", "add"): (
        f"write {_INSTANCE}, {_REQUEST}; `allot explain GPUInstance` shows its fields and an example"
    ),
    ("apply", "deploy"): (
        "open a pull request: `allot plan` shows its effect, and the merge is published by `allot publish` or `allot run`"
    ),
    ("start", "resume"): f"write `state: Running` below `spec:` in {_INSTANCE}, {_REQUEST}",
    ("stop", "pause"): f"write `state: Stopped` below `spec:` in {_INSTANCE}, {_REQUEST}",
    ("restart", "reboot"): (
        f"write `state: Stopped` below `spec:` in {_INSTANCE}, merge it, and then merge `state: Running`;"
        " both erase the disk of the instance, and keep its storages"
    ),
    ("resize",): f"write another `gpuSpec` below `spec:` in {_INSTANCE}, {_REQUEST}",
    ("scale",): f"write another `replicas` below `spec:` in {_INSTANCE}, {_REQUEST}",
    ("edit", "update"): f"edit the file in tenants/TENANT/, {_REQUEST}",
    ("delete", "rm", "remove", "destroy"): (
        f"delete {_INSTANCE}, {_REQUEST}. A storage or snapshot takes two merges: the first writes"
        " `deletionPolicy: Delete` below its `spec:`, the second deletes its file an hour or more later"
    ),
    ("cost", "price", "prices", "bill"): (
        "`allot catalog` shows prices, `allot plan` the cost of a change, `allot catalog --tenants` the month of each tenant"
    ),
    ("quota",): "`allot catalog --tenant TENANT` shows its quota and the units that fit it",
    ("diff",): "`allot plan --diffs` shows the effect of a change on every file",
}
VERBS = {verb: answer for verbs, answer in ANSWERS.items() for verb in verbs}
