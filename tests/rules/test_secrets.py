"""The rules of secrets: where a SecretReference may be, and which keys an instance may use."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.conftest import DAY, Allot, edit, errors
from tests.support.secret_store import (
    CLUSTER,
    DECLARED,
    ENV,
    INSTANCE,
    REFERENCE,
    RESTARTS,
    SOURCE_KEYS,
    SOURCE_STORAGE,
    STORE,
    declare_all,
    declare_image_pull,
    declare_restart,
    declare_secret,
    declare_source_secret,
)

ENV_NAME = f"{INSTANCE}:19:19: spec.container.env[0].valueFrom.secretKeyRef.name: "
ENV_KEY = f"{INSTANCE}:20:18: spec.container.env[0].valueFrom.secretKeyRef.key: "


def error_lines(sample: Path, allot: Allot) -> list[str]:
    return errors(allot("validate", "--repo", sample, "--as-of", DAY))


def test_an_instance_uses_a_key_of_its_tenants_secret(sample: Path, allot: Allot) -> None:
    declare_all(sample)
    assert error_lines(sample, allot) == []


def test_a_cluster_without_a_store_has_no_secrets(sample: Path, allot: Allot) -> None:
    edit(sample, CLUSTER, STORE, "")
    (sample / "tenants/ml-orbit/secrets/huggingface.yaml").unlink()
    declare_secret(sample)
    assert error_lines(sample, allot) == [
        f"{REFERENCE}:6:12: spec.cluster: cluster eu-1 has no secret store: the platform team declares spec.secretStore in"
        f" {CLUSTER} [secret-reference]"
    ]


def test_no_secret_has_the_name(sample: Path, allot: Allot) -> None:
    declare_all(sample)
    edit(sample, INSTANCE, "name: huggingface", "name: hugginface")
    assert error_lines(sample, allot) == [
        f"{ENV_NAME}no SecretReference is named 'hugginface' in tenants/solo-ada; did you mean 'huggingface'?; `allot secret create` declares a secret [reference]"
    ]


def test_no_key_has_the_name(sample: Path, allot: Allot) -> None:
    declare_all(sample)
    edit(sample, INSTANCE, "key: token", "key: tokn")
    assert error_lines(sample, allot) == [
        f"{ENV_KEY}SecretReference huggingface has no key 'tokn'; did you mean 'token'? [secret-reference]"
    ]


def test_a_secret_of_another_tenant_has_no_name_here(sample: Path, allot: Allot) -> None:
    declare_all(sample)
    (sample / "tenants/studio-kite/secrets").mkdir()
    shutil.move(sample / REFERENCE, sample / "tenants/studio-kite/secrets/huggingface.yaml")
    assert error_lines(sample, allot) == [
        f"{ENV_NAME}no SecretReference is named 'huggingface' in tenants/solo-ada; `allot secret create` declares a secret [reference]"
    ]


def test_a_secret_is_used_in_its_own_cluster(sample: Path, allot: Allot) -> None:
    declare_all(sample)
    edit(sample, "clusters/us-1/cluster.yaml", "  diskStorage", "  secretStore:\n    name: aws\n  diskStorage")
    edit(sample, REFERENCE, "cluster: eu-1", "cluster: us-1")
    assert error_lines(sample, allot) == [
        f"{ENV_NAME}SecretReference huggingface is in cluster us-1, and the instance is in eu-1: use the same cluster for"
        " both [secret-reference]"
    ]


def test_no_variable_reads_a_pull_credential(sample: Path, allot: Allot) -> None:
    declare_all(sample)
    declare_image_pull(sample)
    edit(sample, INSTANCE, "name: huggingface", "name: registry")
    assert error_lines(sample, allot) == [
        f"{ENV_NAME}SecretReference registry has the type ImagePull, and no variable can read a pull credential: remove the"
        " variable, because all pods of the tenant pull images with the credential [secret-reference]"
    ]


def test_a_change_restarts_an_instance_only_where_the_cluster_says_so(sample: Path, allot: Allot) -> None:
    declare_restart(sample)
    assert error_lines(sample, allot) == []
    edit(sample, CLUSTER, RESTARTS, "")
    assert error_lines(sample, allot) == [
        f"{INSTANCE}:14:19: spec.onSecretChange: cluster eu-1 restarts no instances: the platform team declares"
        f" spec.secretStore.restartsInstances in {CLUSTER}; until then, write Keep, or stop the instance and start it again"
        " after a change [secret-reference]"
    ]


def test_an_instance_without_a_secret_has_nothing_to_restart_for(sample: Path, allot: Allot) -> None:
    declare_restart(sample)
    edit(sample, INSTANCE, ENV, "")
    assert error_lines(sample, allot) == [
        f"{INSTANCE}:14:19: spec.onSecretChange: no variable of the instance reads a SecretReference, so no change can restart"
        " it: remove the field [secret-reference]"
    ]


def test_a_tenant_reads_at_most_a_hundred_keys(sample: Path, allot: Allot) -> None:
    for number, count in enumerate((50, 50, 1)):
        keys = "".join(f"    - name: k{key}\n      path: p{key}\n" for key in range(count))
        text = f"{DECLARED[: DECLARED.index('    - name')]}{keys}".replace("huggingface", f"secret{number}")
        declare_secret(sample, text, f"tenants/solo-ada/secrets/secret{number}.yaml")
    assert error_lines(sample, allot) == [
        "tenants/solo-ada/secrets/secret2.yaml:7:3: spec.keys: with this file, the tenant declares 101 keys in cluster eu-1,"
        " and at most 100 are allowed: remove keys that no instance uses [secret-reference]"
    ]


def test_a_tenant_whose_name_is_a_segment_of_vaults_paths_reads_nothing(sample: Path, allot: Allot) -> None:
    shutil.copytree(sample / "tenants/solo-ada", sample / "tenants/data")
    shutil.rmtree(sample / "tenants/data/instances")
    for name in ("tenant", "members"):
        edit(sample, f"tenants/data/{name}.yaml", "name: solo-ada", "name: data")
    declare_secret(sample, path="tenants/data/secrets/huggingface.yaml")
    assert (
        "tenants/data/secrets/huggingface.yaml:4:9: metadata.name: a tenant named 'data' can't read a secret store, because"
        " Vault would let it read the secrets of all tenants: use a tenant with another name [secret-reference]"
    ) in error_lines(sample, allot)


def test_a_path_that_repeats_the_folder_of_the_tenant_is_a_warning(sample: Path, allot: Allot) -> None:
    declare_secret(sample, DECLARED.replace("path: huggingface\n", "path: tenants/solo-ada/huggingface\n"))
    lines = allot("validate", "--repo", sample, "--as-of", DAY).out.splitlines()
    assert (
        f"{REFERENCE}:9:13: spec.keys[0].path: warning: the store is read at tenants/solo-ada/tenants/solo-ada/huggingface: write"
        " huggingface, without the tenant's folder [secret-reference]" in lines
    )


def test_a_docker_config_without_its_type_is_a_warning(sample: Path, allot: Allot) -> None:
    declare_secret(sample, DECLARED.replace("name: token\n", "name: .dockerconfigjson\n"))
    lines = allot("validate", "--repo", sample, "--as-of", DAY).out.splitlines()
    assert (
        f"{REFERENCE}:8:13: spec.keys[0].name: warning: no pod pulls images with this key, because the type is Values: write"
        " `type: ImagePull`, or another key [secret-reference]" in lines
    )


SOURCE_NAME = f"{SOURCE_STORAGE}:18:17: spec.prepare.source.s3.secretRef.name: "


def test_a_source_reads_the_secret_of_its_tenant_by_its_declared_name(sample: Path, allot: Allot) -> None:
    declare_source_secret(sample)
    assert error_lines(sample, allot) == []
    edit(sample, SOURCE_STORAGE, "name: s3-keys", "name: s3-key")
    assert error_lines(sample, allot) == [
        f"{SOURCE_NAME}no SecretReference is named 's3-key' in tenants/uni-lab; did you mean 's3-keys'?; `allot secret create`"
        " declares a secret [reference]"
    ]


def test_a_source_reads_a_secret_of_its_own_cluster(sample: Path, allot: Allot) -> None:
    declare_source_secret(sample)
    edit(sample, "clusters/us-1/cluster.yaml", "  diskStorage", "  secretStore:\n    name: aws\n  diskStorage")
    edit(sample, SOURCE_KEYS, "cluster: eu-1", "cluster: us-1")
    assert error_lines(sample, allot) == [
        f"{SOURCE_NAME}SecretReference s3-keys is in cluster us-1, and the storage is in eu-1: use the same cluster for both"
        " [secret-reference]"
    ]


def test_a_source_reads_the_two_keys_of_a_bucket(sample: Path, allot: Allot) -> None:
    declare_source_secret(sample)
    edit(sample, SOURCE_KEYS, "name: AWS_SECRET_ACCESS_KEY", "name: SECRET")
    assert error_lines(sample, allot) == [
        f"{SOURCE_NAME}SecretReference s3-keys has no key AWS_SECRET_ACCESS_KEY, which the preparation reads: add it to"
        f" spec.keys in {SOURCE_KEYS} [secret-reference]"
    ]


def test_no_source_reads_a_pull_credential(sample: Path, allot: Allot) -> None:
    declare_source_secret(sample)
    keys = "    - name: AWS_ACCESS_KEY_ID\n      path: s3\n    - name: AWS_SECRET_ACCESS_KEY\n"
    edit(sample, SOURCE_KEYS, f"  keys:\n{keys}", "  type: ImagePull\n  keys:\n    - name: .dockerconfigjson\n")
    assert error_lines(sample, allot) == [
        f"{SOURCE_NAME}SecretReference s3-keys has the type ImagePull, and no source can read a pull credential: name another"
        " SecretReference, because all pods of the tenant pull images with the credential [secret-reference]"
    ]
