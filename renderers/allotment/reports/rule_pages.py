"""Describe each rule: the manual pages of `allot explain rule`.

A rule is named by its ID, which appears in brackets after a problem.
"""

from __future__ import annotations

import inspect
from types import ModuleType

from allotment.problems import OperationRefused, quote_value

# Rules that are checked while one file is read. A rule that compares files or commits has its own module, and the
# docstring of the module is the page of the rule.
FILE_RULES = {
    "address": "A preparation fetches only from hosts on the internet, not from a private or local address or from a name inside a cluster.",
    "anchor": "YAML anchors and aliases are not supported. Repeat the value instead.",
    "api-version": "apiVersion must be allotment.dev/v1alpha1.",
    "app-container": "With an app, the container may set only args and env. args replace the app's args; env overrides single variables by name.",
    "brake": "The deletions within 24 hours must stay below the limit in the platform's spec.brake. A tenant that exceeds it"
    " keeps its last published manifests; a deletion across tenants stops the publish. A person can approve it by its checksum.",
    "branch": "A branch name must be valid in Git, and must not begin with rendered/, status/ or recover/, which the program writes.",
    "checksum": "A checksum has 64 hexadecimal digits, as printed by sha256sum.",
    "scope": "A scope that a login requests has visible ASCII characters without quotes and backslashes (RFC 6749).",
    "cidr": "A network is written as its first address and a prefix, such as 203.0.113.0/24. A range in `allowedCIDRs` has a prefix"
    " of at least 8 bits, and of at least 16 for IPv6.",
    "cluster": "A tenant is published only if all clusters in which it declares resources are valid. While a cluster's declarations"
    " have an error, the cluster and its tenants keep their last published manifests.",
    "cordon-days": "A cordon ends after it begins.",
    "date": 'A date is quoted, such as "2026-01-31". It begins at midnight in the platform\'s billing time zone.',
    "depth": "Mappings and lists are nested at most 32 levels deep, in the values of a chart at most 16.",
    "digest": "A digest is sha256: and 64 hexadecimal digits. Only a chart from a registry may have a digest, since Argo CD pulls it by digest.",
    "directive": "YAML directives (lines that begin with %) are not supported.",
    "document": "A file contains a single document, a mapping with apiVersion, kind, metadata and spec.",
    "dra-shape": "MIG partitions are required with a device class for MIG, and not allowed otherwise.",
    "duplicate": "Entries of a list must have unique keys. The key is the field name, version, mountPath or from.",
    "duplicate-key": "A key may occur only once in a mapping.",
    "duration": "A duration is written in hours, minutes and seconds, such as 72h, 1h30m or 90s.",
    "encoding": "A file is UTF-8, without characters that change how text is displayed or where a line ends. CRLF is accepted; `allot fmt`"
    " writes line feeds.",
    "enum": "The field accepts only the values that `allot explain` lists, in the same spelling.",
    "env": "Names of environment variables have letters, digits and '_'. NVIDIA_… and CUDA_MPS_… are reserved, as they control GPU sharing.",
    "exposure": "Only a port with HTTP can be exposed outside its namespace.",
    "callback-host": "The callback host of a cluster is one label below the cluster's domain, without '--', so that it is no host of"
    " an instance.",
    "cli-client": "The client of `allot login` is another client than that of the Gateway, because a public client has no secret.",
    "gateway": "Only a managed Gateway (`managed: true`) has a certificate, replicas, proxyProtocol and accessLog. It needs a certificate,"
    " a namespace of its own, and a listener that is not named http-redirect. Its idle timeout is at least its request timeout. The client's Secret is in the namespace of every Gateway.",
    "host": "A domain is in lower case, and short enough to prepend the label of an instance.",
    "image": "An image must have a registry and a digest, as in registry/name:tag@sha256:…, so that its content never changes.",
    "image-pull": "A SecretReference with the type ImagePull has exactly the key .dockerconfigjson, because Kubernetes reads no other.",
    "image-pull-path": "The path of the platform's pull credential and the prefix of the tenants don't overlap, so that no tenant"
    " can read or write the credential.",
    "internal-error": "Allotment failed on a tenant or a cluster because of a bug in Allotment. It keeps its last published manifests, all others"
    " are published. Report the bug: for a tenant with the trace from the log, or from the file that the command names.",
    "isolation": "Rendered objects are in the namespace of their owner, and have only permitted kinds and fields. A violation is"
    " a bug in Allotment, or a declaration that exploits a bug: Allotment publishes nothing of it.",
    "key": "A key is plain text before a colon.",
    "key-name": "A key of a secret has at most 253 letters, digits, '-', '_' and '.'. The property of a value in the secret store"
    " begins with a letter, a digit or '_'.",
    "kind": "kind must match the folder of the file.",
    "label": "The key and the value of a label have at most 63 letters, digits, '-', '_' and '.'; at most 20 labels are allowed.",
    "layout": "A file is in the folder of its kind, and its name ends in .yaml. README.md is also allowed; links and submodules are not.",
    "length": "The length of the text or list must be in the range that `allot explain` prints for its field.",
    "merge-key": "The YAML merge key (<<) is not supported. Repeat the fields instead.",
    "money": 'An amount is a quoted decimal number with at most six decimal places, such as "0.24".',
    "name": "A name has a-z, 0-9 and single '-'. It begins with a letter and does not end with '-'. `allot explain` prints its maximum length."
    " No tenant may be named allotment: the platform's own objects in Argo CD have that name.",
    "null": "A field must not be empty. Omit the field to use its default.",
    "number": "A number has at most 18 digits.",
    "one-of": "Exactly one of these fields must be set: it selects the variant.",
    "path": "A path has letters, digits, '.', '_', '-', '@' and '+'. It must not contain '..' or be in a system folder.",
    "pattern": "The text must match the format that `allot explain` describes for its field.",
    "pool-nodes": "A node belongs to exactly one pool. The sharing of this pool selects the configuration of the node's device plugin.",
    "pool-shape": "Karpenter nodes share GPUs with the device plugin only, since Karpenter doesn't count DRA devices. A static pool has no"
    " generation, since nothing replaces its nodes when the generation changes.",
    "prefix": "A key prefix, such as models/sdxl/, has no control characters.",
    "quantity": "A size is a whole number of Mi, Gi or Ti, such as 16Gi. cpu is in cores (8) or millicores (500m).",
    "range": "The number must be in the range that `allot explain` prints for its field.",
    "region": "A region has the name that the object store uses, such as eu-central-1.",
    "required": "The field or the file is required.",
    "reserved": "The name or text is reserved for Kubernetes, Argo CD or the GPU driver.",
    "scalar": "Quote values that some YAML parsers read differently: no, on, 1:30, 012, 1.10, 1_000, dates. This applies to keys too.",
    "secret": "A declaration must not contain a password or key: everybody can read it, and Git keeps it forever.",
    "share": "Each tenant has a time budget for validation and rendering. Split a tenant that exceeds it.",
    "shrink": "The size of a storage can only increase.",
    "spec-shape": "A GPUSpec with time-slicing or MPS has exactly one GPU, and states whether tenants share it.",
    "ssh-key": "A public key is a single line as in id_ed25519.pub, without options before the key.",
    "ssh-keys": "Each SSH key belongs to a single person of a tenant, so that a log can name the person.",
    "stock-shape": "Only a stock that is reserved for a tenant has a price for its reservation.",
    "syntax": "The file must be valid YAML. The message names the position of the error.",
    "tab": "Indent with spaces, not tabs.",
    "tag": "Explicit tags (!!str, !custom) are not supported.",
    "tenancy": "Time-slicing isolates neither memory nor faults, and MPS does not isolate faults. So a GPUSpec with tenancy Single serves a single"
    " tenant, in pools reserved for this tenant.",
    "time-zone": "A time zone is a name from the IANA database, such as Europe/Berlin. An offset would be wrong for half of the year.",
    "type": "The value must have the type of its field: text, whole number, boolean, list or mapping. Quote text that looks like another type.",
    "unknown-field": "The field is unknown. A misspelt field would have no effect, so it is an error.",
    "url": "A URL has a scheme that its field allows, and neither user information nor a fragment.",
    "value": "The field does not accept the value.",
    "version": "The version of an add-on must be an exact version of a chart or a full commit ID. Ranges, `latest`,"
    " branches and tags are not allowed, as they change.",
}


def rule_page(rule: str) -> str:
    """Return the page of a rule.

    Raises OperationRefused for an unknown ID. The message of the error suggests the closest known ID.
    """
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
