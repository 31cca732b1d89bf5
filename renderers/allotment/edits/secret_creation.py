"""Declares secrets of tenants: the edit of `allot secret create`. The values stay in the secret store of a cluster."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from allotment.declared.kinds.cluster import Cluster, SecretStore
from allotment.declared.kinds.container import SECRET_VALUES
from allotment.declared.kinds.secret_reference import SecretReference
from allotment.declared.layout import Scope
from allotment.declared.secret_stores import DOCKER_CONFIG_KEY
from allotment.edits.change_set import ChangeSet
from allotment.edits.declarations import Declarations
from allotment.edits.new_declaration import build_declaration, list_option_problems
from allotment.edits.option_tables import SECRET_OPTIONS, list_inputs
from allotment.edits.option_values import OptionParser
from allotment.manifests import names
from allotment.manifests.yaml_text import without_empty
from allotment.problems import quote_value

_KEY = re.compile(r"(?P<name>[^=#]+)(?:=(?P<path>[^=#]+)(?:#(?P<field>[^=#]+))?)?")


class SecretOptions(NamedTuple):
    """The options of a new secret, as texts. An empty text stands for an absent option."""

    cluster: str = ""
    keys: tuple[str, ...] = ()
    image_pull: bool = False
    refresh_interval: str = ""
    display_name: str = ""
    labels: tuple[str, ...] = ()


def create_secret(declarations: Declarations, tenant: str, name: str, options: SecretOptions) -> ChangeSet:
    """Return the change that declares a secret. Its notes have the commands that write the values to the store.

    Raises OperationRefused with a line for each problem: a wrong value, an unknown name, or a missing option.
    """
    path = declarations.create_path(SecretReference, Scope("tenant", tenant), name)
    parser = OptionParser()
    parser.check_texts(options._asdict())
    keys = list(_parse_keys(name, options, parser))
    clusters = declarations.list_scopes("cluster")
    if not options.cluster:
        parser.problems.append(f"add --cluster: {', '.join(clusters)}")
    else:
        parser.check_name("--cluster", options.cluster, clusters, "no cluster is named")
    labels = parser.parse_pairs("--label", options.labels)
    parser.raise_problems()
    fields = {
        "displayName": options.display_name,
        "cluster": options.cluster,
        "type": "ImagePull" if options.image_pull else "",
        "keys": keys,
        "refreshInterval": options.refresh_interval,
    }
    data = build_declaration(path, without_empty(fields), labels)
    parser.problems += list_option_problems(path, data, list_inputs(SECRET_OPTIONS))
    parser.raise_problems()
    notes = tuple(_list_notes(declarations, tenant, name, options, keys))
    return ChangeSet(f"Create secret {tenant}/{name}", {path: data}, (f"SecretReference {tenant}/{name}",), notes)


def _parse_keys(name: str, options: SecretOptions, parser: OptionParser) -> Iterator[dict[str, str]]:
    """Yield the entries of `spec.keys`. A pull credential has one key, by default with the whole value at its name."""
    texts = options.keys or ((f"{DOCKER_CONFIG_KEY}={name}",) if options.image_pull else ())
    if not texts:
        parser.problems.append("add --key: a name of your choice such as token; its value stays in the secret store")
    for text in texts:
        if SECRET_VALUES.search(text):
            parser.problems.append(
                "--key: the text looks like the value of a secret: write the path of the value in the secret store instead."
                " Your shell may have saved the command, so revoke the secret at its provider"
            )
        elif match := _KEY.fullmatch(text):
            place = {"path": match["path"], "property": match["field"]}
            yield {
                "name": match["name"],
                **without_empty(place if match["path"] else {"path": name, "property": match["name"]}),
            }
        else:
            parser.problems.append(
                f"--key: {quote_value(text)} is not in the format NAME[=PATH[#FIELD]], such as token=huggingface#token"
            )


def describe_place(cluster: str, store: SecretStore, place: str, value: str, source: str) -> str:
    """Return where a person writes a value, and the command for it. `value` is its argument, and `source` describes its input."""
    return (
        f"Write the value to {place} in the secret store {store.name} of {cluster}. With Vault,"
        f" `vault kv put -mount=secret {place} {value}` reads it from {source}."
    )


def _list_notes(
    declarations: Declarations, tenant: str, name: str, options: SecretOptions, keys: Iterable[dict[str, Any]]
) -> Iterator[str]:
    cluster = declarations.find(Cluster, Scope("cluster", options.cluster), options.cluster)
    store = cluster.model.spec.secret_store
    if store is None:
        return  # the rules report the missing store
    fields_by_path = defaultdict[str, list[str]](list)
    for key in keys:
        fields_by_path[key["path"]] += [key["property"]] if "property" in key else []
    for path, fields in fields_by_path.items():
        place = f"{names.secret_folder(store.prefix, tenant)}{path}"
        value = f"{fields[0]}=-" if len(fields) == 1 else "@FILE.json"
        content = (
            "a Docker config JSON" if options.image_pull else f"a JSON object with {', '.join(fields) or 'the value'}"
        )
        source = "standard input" if len(fields) == 1 else f"a file with {content}"
        yield describe_place(options.cluster, store, place, value, source)
    if not options.image_pull:
        variable = f"{{name: VARIABLE, valueFrom: {{secretKeyRef: {{name: {name}, key: {next(iter(keys))['name']}}}}}}}"
        yield f"An instance reads a key as a variable: `allot set instance/{tenant}/INSTANCE 'container.env+={variable}'`."
