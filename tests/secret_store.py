"""Add a secret that an instance of solo-ada uses to a copy of the sample, whose cluster eu-1 has a secret store."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import edit

CLUSTER = "clusters/eu-1/cluster.yaml"
STORE = "  secretStore:\n    name: vault\n"
REFERENCE = "tenants/solo-ada/secrets/huggingface.yaml"
INSTANCE = "tenants/solo-ada/instances/webui.yaml"
RENDERED = "eu-1/tenants/solo-ada/compute/huggingface--secret.rendered.yaml"
DECLARED = """\
apiVersion: allotment.dev/v1alpha1
kind: SecretReference
metadata:
  name: huggingface
spec:
  cluster: eu-1
  keys:
    - name: token
      path: huggingface
      property: token
    - name: org
      path: team/huggingface-org
"""
ENV = """\
  container:
    env:
      - name: HF_TOKEN
        valueFrom:
          secretKeyRef:
            name: huggingface
            key: token
"""


def declare_secret(root: Path, text: str = DECLARED, path: str = REFERENCE) -> None:
    """Declare a SecretReference."""
    (root / path).parent.mkdir(exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


def declare_all(root: Path) -> None:
    """Declare the secret, and the variable of the instance."""
    declare_secret(root)
    edit(root, INSTANCE, "  storages:\n", f"{ENV}  storages:\n")
