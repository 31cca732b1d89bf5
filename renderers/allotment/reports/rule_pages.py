"""Describe each rule, by the ID in brackets after a problem: the manual pages of `allot explain rule`."""

from __future__ import annotations

import inspect
from types import ModuleType

from allotment.problems import OperationRefused, quote_value

# Rules of reading a file. For rules across files and commits, the docstring of the rule's module is the page.
FILE_RULES = {
    "address": "A preparation fetches from hosts of the internet only: not from a private or local address, or a name inside a cluster.",
    "anchor": "A value stands where it is meant: YAML's anchors and aliases are not read. Write the value out.",
    "api-version": "apiVersion is allotment.dev/v1alpha1.",
    "app-container": "With an app, the container may set only args, which replace those of the app, and env, by name.",
    "brake": "A merge deletes less than spec.brake of the platform allows within 24 hours. A tenant that deletes more of its own"
    " keeps its last published manifests; a deletion across tenants stops the publish. A person approves it by its checksum.",
    "branch": "A branch is named as Git takes it, and is none of those that the program writes: rendered/, status/, recover/.",
    "checksum": "A checksum is 64 hexadecimal digits, as sha256sum prints them.",
    "cidr": "A network is written as its first address and a prefix, such as 203.0.113.0/24.",
    "cluster": "A tenant is published where every cluster that it declares something in is valid. While a cluster's declarations"
    " have an error, that cluster and its tenants stay as they were published.",
    "date": 'A date is quoted, such as "2026-01-31". It begins at midnight in the platform\'s billing time zone.',
    "depth": "Mappings and lists lie at most 32 deep in one another, and those of a chart's values at most 16.",
    "digest": "A digest is sha256: and 64 hexadecimal digits, and stands only where Argo CD pulls by it: with a chart of a registry.",
    "directive": "A file has no YAML directive (a line that begins with %).",
    "document": "A file is one document, a mapping: apiVersion, kind, metadata, spec.",
    "dra-shape": "MIG partitions are named where a device class is theirs, and nowhere else.",
    "duplicate": "Entries of a list differ in the field that they are known by: name, version, mountPath, from.",
    "duplicate-key": "A key stands once in a mapping.",
    "duration": "A duration is hours, minutes, seconds, such as 72h, 1h30m or 90s.",
    "encoding": "A file is UTF-8, and has no character that changes how others are shown or where a line ends. CRLF is read; `allot fmt`"
    " writes line feeds.",
    "enum": "The field takes one of the values that `allot explain` lists for it, as they are written there.",
    "env": "Names of environment variables: letters, digits and '_', not NVIDIA_… or CUDA_MPS_…, which control GPU sharing.",
    "exposure": "Only a port that speaks HTTP can be reached from outside of the namespace.",
    "host": "A domain is written in lower case, and leaves room for the label of an instance before it.",
    "image": "An image has a registry's name and a digest, name:tag@sha256:…, so that it is the same tomorrow.",
    "internal-error": "Allotment failed on a tenant by a bug of its own. That tenant keeps its last published manifests, all others"
    " are published. Report the bug with the trace that the log, or the file that the command names, holds.",
    "isolation": "Rendered objects lie in the namespace of their owner, and have only permitted kinds and fields. A violation is"
    " a bug in Allotment, or a declaration that exploits a bug: Allotment publishes nothing of it.",
    "key": "A key is plain text, and stands before the colon.",
    "kind": "kind is the kind of the file's folder.",
    "label": "A label's key and value are letters, digits, '-', '_' and '.', at most 63; at most 20 labels.",
    "layout": "A file lies where its kind does, and ends in .yaml; only a README.md may lie beside. No links, no submodules.",
    "length": "The text or list has a length that `allot explain` says for its field.",
    "merge-key": "YAML's merge key (<<) isn't read. Write the fields out.",
    "money": 'An amount is a quoted decimal with at most six places, such as "0.24": never a float.',
    "name": "A name is a-z, 0-9 and single '-', a letter first, no '-' last, and as long as its field says."
    " A tenant may not be named allotment: the platform's own objects in Argo CD have that name.",
    "null": "A field that is there has a value. Leave the field out to have its default.",
    "number": "A number has 18 digits at most.",
    "one-of": "Exactly one of some fields is set: the field selects the variant.",
    "path": "A path is of letters, digits, '.', '_', '-', '@' and '+'; no '..', and no folder of the system.",
    "pattern": "The text has the form that its field asks for.",
    "pool-nodes": "A node is of one pool, and its pool's sharing chooses its device plugin's configuration.",
    "pool-shape": "Nodes that Karpenter buys share GPUs by the device plugin, since it counts no devices of DRA; a static pool has no"
    " generation, since nobody replaces its nodes by that.",
    "prefix": "A prefix of keys, such as models/sdxl/, has no control characters.",
    "quantity": "Sizes are whole Mi, Gi or Ti (16Gi); cpu is cores (8) or millicores (500m).",
    "range": "The number lies in the range that `allot explain` says for its field.",
    "region": "A region is the name that the store gives it, such as eu-central-1.",
    "required": "The field, or the file, has to be there.",
    "reserved": "The name or text has a meaning for Kubernetes, Argo CD or the GPU driver, so nobody may declare it.",
    "scalar": "Quote values that some YAML parsers read differently: no, on, 1:30, 012, 1.10, 1_000, dates. This applies to keys too.",
    "secret": "Nothing that looks like a password or key stands in a declaration, where everybody reads it and Git keeps it.",
    "share": "Checking and rendering a tenant stays within its time budget. Split a tenant that exceeds it.",
    "shrink": "A storage grows and never shrinks.",
    "spec-shape": "A GPUSpec that shares a GPU by time-slicing or MPS is of one GPU, and says whether tenants share it.",
    "ssh-key": "A key is one line as in id_ed25519.pub, without options before it.",
    "syntax": "The file is YAML: the message says where it isn't.",
    "tab": "Lines are indented by spaces.",
    "tag": "Values have no explicit tag (!!str, !custom).",
    "tenancy": "Time-slicing isolates neither memory nor faults, and MPS no faults, so a GPUSpec with tenancy Single is held for one"
    " tenant, in pools of that tenant alone.",
    "time-zone": "A time zone has a name of the IANA database, such as Europe/Berlin: an offset would be wrong for half the year.",
    "type": "The field takes text, a whole number, true or false, a list, or a mapping; text that looks like another is quoted.",
    "unknown-field": "The field isn't known here. A misspelt field would do nothing, so it is an error.",
    "url": "An address is written with its scheme, as its field says, without login and fragment.",
    "value": "The field does not accept the value.",
    "version": "The version of an add-on is pinned: an exact version of a chart, or a full commit ID. Ranges, `latest`,"
    " branches and tags move.",
}


def rule_page(rule: str) -> str:
    """Return the page of a rule. Raises OperationRefused for an unknown ID, with the closest known ID."""
    pages = rule_pages()
    if rule not in pages:
        from allotment.declared.reading import suggest_name

        raise OperationRefused(f"no rule is named {quote_value(rule)}{suggest_name(rule, pages)}")
    return pages[rule]


def _module_page(module: ModuleType | None) -> str:
    return inspect.cleandoc(getattr(module, "__doc__", None) or "")


def rule_pages() -> dict[str, str]:
    """Return the pages of all rules by ID, sorted."""
    from allotment import rules

    tables = (rules.PLATFORM_RULES, rules.TENANT_RULES, rules.SHARED_RULES, rules.CHANGE_RULES)
    across = {rule: _module_page(inspect.getmodule(check)) for table in tables for rule, check in table.items()}
    across |= {
        module.RULE: _module_page(module)
        for module in vars(rules).values()
        if isinstance(module, ModuleType) and hasattr(module, "RULE")
    }
    return dict(sorted({**FILE_RULES, **across}.items()))
