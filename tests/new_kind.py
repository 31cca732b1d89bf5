"""Writes a declared kind that becomes a ConfigMap: `python -m tests.new_kind NAME [--scope platform|cluster|tenant]`.

It makes the edits of "A new kind" in CONTRIBUTING.md in the current folder, which is a checkout of Allotment. The new kind
has the example field `message`, a declaration in the sample, a bad file and a test.
"""

from __future__ import annotations

import argparse
import keyword
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template

PROGRAM = "renderers/allotment"
FOLDERS = {"platform": "platform", "cluster": "clusters/{cluster}", "tenant": "tenants/{tenant}"}
HEADER = """\
# yaml-language-server: $$schema=${up}schemas/$name.schema.json
"""
DECLARATION = """\
apiVersion: allotment.dev/v1alpha1
kind: $name
metadata:
  name: example
spec:
"""
MODEL = '''\
"""$name: a message in a ConfigMap."""

from typing import Literal

from pydantic import Field

from allotment.declared.kinds.declaration import Declaration, Spec
from allotment.declared.references import ClusterReference
from allotment.declared.values import Text


class ${name}Spec(Spec):
    """The message."""

$cluster_field
    message: Text = Field(description="The text in the ConfigMap.")


class $name(Declaration):
    """A message, which becomes a ConfigMap."""

    kind: Literal["$name"]
    spec: ${name}Spec
'''
MANIFEST = '''\
"""Render a $name as a ConfigMap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.$module import $name
from allotment.manifests import names
from allotment.preparation.runtime_state import RuntimeState


def render($parameters) -> list[dict[str, Any]]:
    """Return the ConfigMap with the message."""
    name = declared.model.name
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"{name}$suffix",
                "namespace": $namespace,
                "labels": names.labels($labels),
                "annotations": {names.BLOB: declared.blob},
            },
            "data": {"message": declared.model.spec.message},
        }
    ]
'''
PATTERN = """\
---
apiVersion: v1
kind: ConfigMap  # $name
metadata:
  name: <$word>$suffix
  namespace: t-<tenant>
  labels: {app.kubernetes.io/managed-by: allotment, allotment.dev/tenant: <tenant>, allotment.dev/$word: <$word>}
  annotations: {allotment.dev/declared-blob: <a-blob>}
data: {message: <a-text>}
"""
TEST = '''\
"""A $name becomes a ConfigMap."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Allot
from tests.support.rendered_tree import misfits, rendered

from allotment.manifests.yaml_text import load


def test_the_message_is_in_a_config_map(sample: Path, allot: Allot, tmp_path: Path) -> None:
    (manifest,) = load(rendered(allot, sample, tmp_path / "out")["$rendered"])
    assert misfits(manifest) == []
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("ConfigMap", "example$suffix")
    assert manifest["data"] == {"message": "Maintenance on Sunday."}
'''
PLATFORM_PARAMETERS = (
    "_catalog: Catalog, _cluster: ScopeDeclarations, declared: DeclarationFile[{}],"
    " _placeholders: Mapping[tuple[str, str], int],"
)
TENANT_PARAMETERS = (
    "_catalog: Catalog, _cluster: ScopeDeclarations, tenant: ScopeDeclarations, _runtime_state: RuntimeState,"
    " declared: DeclarationFile[{}],"
)
NEXT = """
Next:
  make golden        # writes the schema, the reference and the golden files: review them
  make check test    # passes as long as the kind has only its example field
Then replace the example field and the ConfigMap."""


class Checkout:
    """The files to write, by path. A missing anchor ends the program before any file is written."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def create(self, path: str, template: str, words: dict[str, str]) -> None:
        """Add a file. Exits if it exists."""
        if Path(path).exists():
            sys.exit(f"{path} exists already: choose another name")
        self.texts[path] = Template(template).substitute(words)

    def insert(self, path: str, anchor: str, text: str) -> re.Match[str]:
        """Insert a text after the last match of a regular expression, and return the match."""
        content = self.texts.get(path) or (Path(path).read_text("utf-8") if Path(path).exists() else "")
        matches = list(re.finditer(anchor, content, re.MULTILINE))
        if not matches:
            sys.exit(f"{path} has no match of {anchor!r}, after which the new kind belongs: run this in a checkout")
        at = matches[-1].end()
        self.texts[path] = content[:at] + text + content[at:]
        return matches[-1]

    def write(self) -> None:
        """Write all files, sort the imports, and print the paths."""
        for path, text in self.texts.items():
            print("changed" if Path(path).exists() else "wrote  ", path)
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text, "utf-8")
        modules = [path for path in self.texts if path.endswith(".py")]
        for command in (("check", "--fix", "--select", "I,F401"), ("format",)):
            subprocess.run([sys.executable, "-m", "ruff", *command, "--quiet", *modules], check=True)


def write_kind(name: str, scope: str) -> Checkout:
    """Return the files of a new kind."""
    parts = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z0-9]*", name)
    word, module = "-".join(parts).lower(), "_".join(parts).lower()
    if keyword.iskeyword(module):
        sys.exit(f"{name} has the name of a keyword: choose another name")
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    is_tenant = scope == "tenant"
    part, suffix = "tenant" if is_tenant else "cluster", f"--{word}"
    sample = f"{FOLDERS[scope].format(cluster='eu-1', tenant='solo-ada')}/{plural}/example.yaml"
    words = {
        "name": name,
        "module": module,
        "word": word,
        "suffix": suffix,
        "up": "../" * sample.count("/"),
        "cluster_field": '    cluster: ClusterReference = Field(description="The Cluster of the ConfigMap.")'
        if is_tenant
        else "",
        "parameters": (TENANT_PARAMETERS if is_tenant else PLATFORM_PARAMETERS).format(name),
        "namespace": "names.namespace(tenant.name)" if is_tenant else "names.STOCK_NAMESPACE",
        "labels": f"tenant=tenant.name, {module}=name" if is_tenant else f"{module}=name",
        "rendered": f"eu-1/{'tenants/solo-ada/compute' if is_tenant else 'platform/cluster'}/example{suffix}.rendered.yaml",
    }
    fields = DECLARATION + ("  cluster: eu-1\n" if is_tenant else "")
    checkout = Checkout()
    checkout.create(f"{PROGRAM}/declared/kinds/{module}.py", MODEL, words)
    row = f'\n        Kind("{name}", "{module}", "{FOLDERS[scope]}/{plural}/{{name}}.yaml"),'
    root = FOLDERS[scope].split("/")[0]
    earlier = checkout.insert(
        f"{PROGRAM}/declared/kinds/__init__.py", rf'^        Kind\("(\w+)", "\w+", "{root}/.*\),$', row
    )
    checkout.create(f"{PROGRAM}/manifests/{part}/{module}.py", MANIFEST, words)
    _register_manifest(checkout, name, module, part, suffix)
    if is_tenant:
        _register_resource(checkout, name, word, plural)
        checkout.insert(f"{PROGRAM}/isolation/allowed/tenant.yaml", r"\Z", Template(PATTERN).substitute(words))
    page = f'\n      "reference/kinds/{name}.md",'
    checkout.insert("zensical.toml", rf'^      "reference/kinds/{earlier[1]}\.md",$', page)
    checkout.create(sample, f"{HEADER}{fields}  message: Maintenance on Sunday.\n", words)
    checkout.create(f"tests/declared/bad/{name}-message.yaml", f"{fields}  message: [no text]\n", words)
    checkout.create(f"tests/manifests/{part}/test_{module}.py", TEST, words)
    return checkout


def _register_manifest(checkout: Checkout, name: str, module: str, part: str, suffix: str) -> None:
    """Add the row to the layout, with the imports that it needs; ruff sorts them."""
    path, constant = f"{PROGRAM}/manifests/layout.py", module.upper()
    import_line = r"^from allotment\.declared\.kinds\.\w+ import \w+$"
    checkout.insert(path, import_line, f"\nfrom allotment.declared.kinds.{module} import {name}")
    checkout.insert(path, rf"^from allotment\.manifests\.{part} import \($", f"\n    {module},")
    target = f'"platform/cluster", "{suffix}"'
    if part == "tenant":
        checkout.insert(path, import_line, f"\nfrom allotment.declared.tenant_resources import {constant}")
        target = f"{constant}.tree_part, {constant}.suffix"
    row = f"    {name}: KindRendering({module}.render, {target}),\n"
    checkout.insert(path, rf"^{part.upper()}_MANIFESTS: .* = \{{\n[^}}]*", row)


def _register_resource(checkout: Checkout, name: str, word: str, plural: str) -> None:
    """Add the row of a tenant's kind, and its name in RESOURCE_KINDS."""
    path, constant = f"{PROGRAM}/declared/tenant_resources.py", word.replace("-", "_").upper()
    values = f'"{word}", "{plural}", KINDS["{name}"], "compute", suffix="--{word}", reported=False'
    checkout.insert(path, r"^[A-Z_]+ = ResourceKind\([^()]*\)$", f"\n{constant} = ResourceKind({values})")
    checkout.insert(path, r"^RESOURCE_KINDS = [^}]* in \([^)]*\w", f", {constant}")


def main(words: Sequence[str] | None = None) -> None:
    """Write the kind that the arguments name. `words` replaces the arguments of the process."""
    parser = argparse.ArgumentParser(prog="python -m tests.new_kind", description="Write a new declared kind.")
    parser.add_argument("name", metavar="NAME", help="the name of the kind in CamelCase, such as QuotaClass")
    parser.add_argument("--scope", choices=list(FOLDERS), default="platform", help="the owner of its declarations")
    arguments = parser.parse_args(words)
    if not re.fullmatch(r"(?:[A-Z]+[a-z][a-z0-9]*)+", arguments.name):
        parser.error(f"the name {arguments.name!r} is not in CamelCase: write a name such as QuotaClass")
    write_kind(arguments.name, arguments.scope).write()
    print(NEXT)


if __name__ == "__main__":
    main()
