"""Add a secret that an instance of solo-ada uses to a copy of the sample, whose cluster eu-1 has a secret store."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import edit

CLUSTER = "clusters/eu-1/cluster.yaml"
STORE = "  secretStore:\n    name: vault\n"
REFERENCE = "tenants/solo-ada/secrets/huggingface.yaml"
INSTANCE = "tenants/solo-ada/instances/webui.yaml"
RENDERED = "eu-1/tenants/solo-ada/compute/huggingface--secret.rendered.yaml"
PULL_REFERENCE = "tenants/solo-ada/secrets/registry.yaml"
PULL_RENDERED = "eu-1/tenants/solo-ada/compute/registry--secret.rendered.yaml"
SOURCE_STORAGE = "tenants/uni-lab/storages/papers.yaml"
SOURCE_KEYS = "tenants/uni-lab/secrets/s3-keys.yaml"
NAMESPACE = "eu-1/control/namespaces/s/solo-ada.rendered.yaml"
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
PULL_DECLARED = """\
apiVersion: allotment.dev/v1alpha1
kind: SecretReference
metadata:
  name: registry
spec:
  cluster: eu-1
  type: ImagePull
  keys:
    - name: .dockerconfigjson
      path: registry
"""
PLATFORM_PULL = "    imagePull:\n      path: platform/registry\n      property: config\n"
RESTARTS = "    restartsInstances: true\n"
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


def declare_image_pull(root: Path) -> None:
    """Declare the pull credentials of the tenant and of the platform."""
    declare_secret(root, PULL_DECLARED, PULL_REFERENCE)
    edit(root, CLUSTER, STORE, STORE + PLATFORM_PULL)


def declare_restart(root: Path) -> None:
    """Declare the secret, and that its change restarts the instance."""
    declare_all(root)
    edit(root, INSTANCE, "  container:\n    env:\n", "  onSecretChange: Restart\n  container:\n    env:\n")
    edit(root, CLUSTER, STORE, STORE + RESTARTS)


def declare_source_secret(root: Path) -> None:
    """Declare the secret that the source of a storage of uni-lab reads."""
    keys = "    - name: AWS_ACCESS_KEY_ID\n      path: s3\n    - name: AWS_SECRET_ACCESS_KEY\n      path: s3\n"
    text = f"{DECLARED[: DECLARED.index('    - name')]}{keys}".replace("huggingface", "s3-keys")
    declare_secret(root, text, SOURCE_KEYS)
    region = "        region: eu-central-1\n"
    edit(root, SOURCE_STORAGE, region, f"{region}        secretRef:\n          name: s3-keys\n")
