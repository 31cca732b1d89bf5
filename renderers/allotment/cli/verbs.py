"""The verbs and options of other clouds' command lines, each with the equivalent command or line of YAML in Allotment.

`docs/guides/verbs.md` has the same table of verbs. A verb such as `storage resize` has its answer only in this group.
"""

from __future__ import annotations

_SCHEDULE = "not yet: let a scheduled job of your CI run `allot instance stop TENANT/NAME --pr`, and start the instance in the same way"
VERB_HINTS: dict[tuple[str, ...], str] = {
    ("ps", "get", "list", "ls"): (
        "`allot instance list` lists instances; storage, spec, stock, tenant and member have `list` too"
    ),
    ("show", "describe"): "`allot instance show TENANT/NAME` shows an instance, `allot storage show` a storage",
    ("search", "find", "offers"): "`allot stock search --min-memory 40Gi` finds free units, with their prices",
    ("log",): "`allot logs TENANT/NAME` prints the log",
    ("ssh", "scp", "sftp", "rsync", "vscode", "code"): (
        "`allot instance open TENANT/INSTANCE --ssh` prints its SSH command, and `allot exec` opens a shell without SSH"
    ),
    ("shell", "terminal"): "`allot exec TENANT/INSTANCE` opens a shell in its pod",
    ("open", "url", "connect", "port-forward"): "`allot instance open TENANT/INSTANCE` opens its URL in a browser",
    ("top", "metrics", "graphs"): "`allot status TENANT/INSTANCE` prints the link to its graphs",
    ("events",): "`allot history TENANT/NAME` lists the changes of its state",
    ("gpu", "gpus"): "`allot catalog` shows the GPU specs with their prices, `allot stock search` finds free units",
    ("pod", "pods"): "`allot status TENANT` shows the instances of a tenant with the state of their pods",
    ("lint", "check", "verify"): "`allot validate` checks the declarations",
    ("serve", "ui", "web", "dashboard"): "`allot portal serve` serves the portal of this repository",
    ("watch",): "`allot status --watch` looks again every few seconds",
    ("signin", "auth"): "`allot login CLUSTER` logs you in, to call the URLs of a tenant from programs",
    ("logout",): "`allot login CLUSTER --remove` removes your login for programs",
    ("secrets", "credential", "credentials"): (
        "`allot secret list` lists the secrets, `allot secret create TENANT/NAME --cluster CLUSTER --key token` declares a secret"
    ),
    ("key", "keys", "ssh-key", "add-key"): (
        "`allot set Members/TENANT 'users.USER.sshKeys+=ssh-ed25519 KEY'` adds an SSH key to a member, `allot member add` has"
        " --ssh-key"
    ),
    ("token",): "`allot login CLUSTER --print-token` prints an ID token, to call the URLs of a tenant from programs",
    ("whoami",): (
        "Allotment has no accounts: log in at the forge, in the browser at the URL of an instance or of Argo CD, and for"
        " programs by `allot login CLUSTER`"
    ),
    ("new", "create", "add", "launch"): (
        "`allot instance create TENANT/NAME --cluster CLUSTER --gpu-spec GPU_SPEC --app APP` creates an instance, and the storages"
        " that it mounts; on a terminal, it asks for missing options"
    ),
    ("apply", "deploy", "push"): (
        "open a pull request: `allot plan` shows its effect, and the merge is published by `allot publish` or `allot run`"
    ),
    ("start", "resume"): "`allot instance start TENANT/NAME` starts an instance",
    (
        "stop",
        "pause",
        "kill",
    ): "`allot instance stop TENANT/NAME` stops an instance; its disk is erased, its storages stay",
    ("restart", "reboot"): (
        "`allot instance restart TENANT/NAME` restarts an instance; its disk is erased, its storages stay"
    ),
    ("resize",): "`allot set instance/TENANT/NAME gpuSpec=GPU_SPEC` moves an instance to another unit",
    ("scale",): "`allot set instance/TENANT/NAME replicas=COUNT` changes the number of replicas",
    (
        "suspend",
    ): "`allot tenant suspend TENANT` stops all instances of a tenant, `allot tenant resume TENANT` starts them",
    ("retire",): (
        "`allot tenant retire TENANT` is the first of the two steps that delete a tenant, `allot spec retire NAME` ends the sale"
        " of a GPU spec"
    ),
    ("deprecate",): "`allot spec deprecate NAME` warns the users of a GPU spec",
    ("reserve",): "`allot stock add CLUSTER/NAME --spec NAME --count 1 --tenant TENANT` reserves units for a tenant",
    ("invite",): "`allot member add TENANT USER --role Member` adds a person to a tenant",
    ("mount", "attach"): "`allot instance mount TENANT/NAME STORAGE:/data` mounts a storage",
    ("unmount", "detach"): "`allot instance unmount TENANT/NAME STORAGE` unmounts a storage; its files stay",
    ("user", "users", "members"): "`allot member list TENANT` lists the members of a tenant",
    ("grow", "extend", "storage resize"): "`allot storage grow TENANT/NAME 200Gi` grows a storage",
    (
        "share",
    ): "`allot set storage/TENANT/NAME 'sharedWith+={tenant: OTHER_TENANT}'` lets another tenant copy a storage",
    (
        "unshare",
    ): "`allot set storage/TENANT/NAME sharedWith.OTHER_TENANT-` ends the sharing of a storage with a tenant",
    ("snapshots",): "`allot status TENANT` shows the snapshots of a tenant, with its instances and storages",
    ("snapshot",): "`allot storage snapshot TENANT/STORAGE NEW` creates a snapshot",
    ("undelete", "undo", "keep"): (
        "`allot set storage/TENANT/NAME deletionPolicy-` keeps a storage after the first of its two merges; after the second merge,"
        " revert that merge before the deadline in its plan"
    ),
    ("restore", "clone"): (
        "`allot storage clone TENANT/STORAGE NEW` copies a storage; with `--snapshot NAME`, it restores a snapshot"
    ),
    ("copy",): (
        "`allot storage clone TENANT/STORAGE NEW` copies a storage, `allot storage cp FILE TENANT/STORAGE:/` copies a file or folder"
        " to a storage"
    ),
    ("browse", "files"): (
        "`allot set storage/TENANT/NAME accessor.mode=ReadWrite` adds a page that shows and changes the files of a storage,"
        " `allot storage show TENANT/NAME` prints its URL"
    ),
    ("upload", "download", "cp"): (
        "`allot storage cp FILE TENANT/STORAGE:/` copies a file or folder to a storage, and from it in the other order"
    ),
    ("edit", "update"): "`allot set KIND/NAME FIELD=VALUE` sets a field of any declaration, and keeps the comments",
    ("apps", "image", "images", "template", "templates"): (
        "`allot app list` shows the apps, and `allot app add` and `allot app pin` declare images with their digests"
    ),
    ("delete", "rm", "remove", "destroy"): (
        "`allot instance delete TENANT/NAME` deletes an instance."
        " `allot storage delete TENANT/NAME` deletes a storage in two merges, with `--snapshot NAME` a snapshot"
    ),
    ("instances",): "`allot instance list` lists the instances",
    ("storages", "volumes"): "`allot storage list` lists the storages",
    ("tenants",): "`allot tenant list` lists the tenants",
    ("schedule", "cron", "autostop", "autostart", "idle", "timer"): _SCHEDULE,
    ("nodes",): "`allot node list` lists the nodes of each node pool, with their instances",
    ("pools", "node-pool", "nodepool"): (
        "`allot pool list` lists the node pools, `allot stock list` their units; `allot pool add` declares a NodePool"
    ),
    ("cordon", "uncordon", "drain"): (
        "`allot node cordon CLUSTER/NODE --pool POOL --reason TEXT` takes a node out of service, `allot node drain` also moves its instances, and `allot"
        " node uncordon` returns it to service"
    ),
    ("clusters",): (
        "`allot cluster list` lists the clusters; `allot cluster add` declares a cluster, and `allot bootstrap` writes its"
        " configuration of Argo CD"
    ),
    ("plans", "tariffs"): (
        "`allot tariff list` lists the tariff plans, `allot tariff add` declares a tariff plan; `allot plan` shows the effect of a"
        " change"
    ),
    ("backup", "backups"): (
        "not yet for volumes: `allot storage snapshot TENANT/STORAGE NEW` creates a snapshot; `git clone --mirror` backs up the"
        " repository"
    ),
    ("upgrade",): (
        "`allot set instance/TENANT/NAME app.version=VERSION` changes the version of an instance's app; `allot add-on list` shows"
        " the versions that `allot add-on upgrade` changes; for the files of the program, run `allot init` with --upgrade"
    ),
    ("secret set", "secret update", "secret edit"): (
        "no command takes a value: `allot secret show TENANT/NAME` names its place in the secret store, and `allot secret create`"
        " declares a secret"
    ),
    ("instance upgrade", "instance update"): (
        "`allot set instance/TENANT/NAME app.version=VERSION` changes the version of its app"
    ),
    ("rename",): (
        "not yet: create another resource with the new name, and delete the old resource. For an instance, first run `allot instance"
        " stop TENANT/NAME`; for a storage, `allot storage clone TENANT/STORAGE NEW` copies the files"
    ),
    ("app upgrade", "app update"): (
        "`allot set instance/TENANT/NAME app.version=VERSION` changes the version of an instance's app, `allot app pin` adds a version"
        " with another image"
    ),
    ("job", "jobs", "batch", "submit"): (
        "not yet: an instance runs until `allot instance stop TENANT/NAME` releases its units; `allot storage create` with --source"
        " image:IMAGE@DIGEST runs a program once, without a GPU, to fill a storage"
    ),
    ("train", "training", "finetune", "fine-tune"): (
        "`allot app list` shows the apps, such as lora-trainer, and `allot instance create TENANT/NAME --cluster CLUSTER"
        " --gpu-spec GPU_SPEC --app APP` starts an instance; nothing stops it at the end of the training yet"
    ),
    ("queue", "queues"): (
        "not yet: `allot stock search` finds free units; an instance that has none waits for them, and `allot wait TENANT/NAME`"
        " waits until it runs"
    ),
    ("bucket", "buckets"): (
        "`allot storage create TENANT/NAME --cluster CLUSTER --size 50Gi --bucket` creates a bucket, `allot storage list` lists"
        " storages and buckets"
    ),
    ("label", "tag"): "`allot set instance/TENANT/NAME metadata.labels.team=design` sets a label",
    ("move", "migrate"): (
        "not yet: the cluster of a resource is immutable; `allot instance create TENANT/NAME --cluster CLUSTER --gpu-spec GPU_SPEC"
        " --app APP` creates another instance"
    ),
    (
        "approve",
        "merge",
        "reject",
    ): "merge or close the pull request at the forge; `allot plan --author LOGIN` checks its author",
    ("invoice", "invoices", "billing"): "`allot bill --month 2026-10` computes the invoices of a month",
    ("costs", "price", "prices", "budget"): (
        "`allot catalog` shows prices, `allot plan` the cost of a change, `allot cost` the month of each tenant"
    ),
    ("request budget",): (
        "the tariff plan sets the budget: `allot tariff list` lists the tariff plans, `allot set Tenant/TENANT plan=PLAN --pr` asks"
        " for another tariff plan"
    ),
    (
        "quota",
        "limit",
        "limits",
    ): "`allot catalog --tenant TENANT` shows its quota and the units that fit it, `allot request quota TENANT instances=30 --reason TEXT --pr` asks for more",
    ("diff",): "`allot plan --diffs` shows the effect of a change on every file",
}
HINTS_BY_VERB = {verb: answer for verbs, answer in VERB_HINTS.items() for verb in verbs}
_TIME_OPTIONS = ("--at", "--after", "--until", "--for", "--schedule", "--cron", "--ttl", "--idle")
# The options of other command lines, by the command of Allotment that lacks them.
OPTION_HINTS = {
    **{("instance", option): _SCHEDULE for option in _TIME_OPTIONS},
    **{
        (
            "storage",
            option,
        ): "not yet: let a scheduled job of your CI run `allot storage snapshot TENANT/STORAGE NEW --pr`"
        for option in ("--schedule", "--cron")
    },
    **{
        ("secret", option): "no value is an argument: the command prints how to write it to the secret store"
        for option in ("--value", "--from-literal", "--from-file")
    },
}
