"""New instances: the exact bytes of their files, and an error for each wrong option."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import PROJECT

from allotment.adapters.folder_source import FolderSource
from allotment.edits.instance_creation import InstanceOptions, NewInstance, create_instance
from allotment.problems import OperationRefused
from allotment.services.changes.declared_files import open_declarations

DECLARATIONS = open_declarations(FolderSource(PROJECT))
SMALLEST = InstanceOptions(cluster="eu-1", gpu_spec="l4-quarter", app="jupyter")
DIGEST = "sha256:" + "0" * 64
IMAGE = SMALLEST._replace(app="", image=f"registry.example/tools/a:1@{DIGEST}")
HASH = "0123456789abcdef" * 4


def create(options: InstanceOptions, tenant: str = "solo-ada", name: str = "painter") -> dict[str, str]:
    change_set = create_instance(
        DECLARATIONS, NewInstance(tenant, name, options), lambda tenant, cluster: ["l4-quarter"]
    )
    return {Path(path).name: (data or b"").decode() for path, data in change_set.files.items()}


def refuse(options: InstanceOptions, name: str = "painter") -> list[str]:
    with pytest.raises(OperationRefused) as error:
        create(options, name=name)
    return str(error.value).splitlines()


def test_an_app_with_a_new_storage() -> None:
    options = SMALLEST._replace(
        new_storages=("checkpoints:50Gi:/workspace/models:ro",), source=f"hf:org/m@v1/a.bin#sha256={HASH}"
    )
    assert create(options) == {
        "painter.yaml": """\
# yaml-language-server: $schema=../../../schemas/GPUInstance.schema.json
apiVersion: allotment.dev/v1alpha1
kind: GPUInstance
metadata:
  name: painter
spec:
  cluster: eu-1
  gpuSpec: l4-quarter
  app:
    name: jupyter
    version: "4.5.0"
  storages:
    - name: checkpoints
      mountPath: /workspace/models
      readOnly: true
""",
        "checkpoints.yaml": f"""\
# yaml-language-server: $schema=../../../schemas/GPUStorage.schema.json
apiVersion: allotment.dev/v1alpha1
kind: GPUStorage
metadata:
  name: checkpoints
spec:
  cluster: eu-1
  storageSpec: block-ssd
  size: 50Gi
  prepare:
    source:
      url:
        url: https://huggingface.co/org/m/resolve/v1/a.bin
        sha256: "{HASH}"
""",
    }


def test_a_key_of_a_secret_as_a_variable() -> None:
    options = SMALLEST._replace(secrets=("HF_TOKEN=huggingface:token",), env=("MODE=fast",))
    text = create(options, tenant="ml-orbit")["painter.yaml"]
    assert (
        text[text.index("  container:") :]
        == """\
  container:
    env:
      - name: HF_TOKEN
        valueFrom:
          secretKeyRef:
            name: huggingface
            key: token
      - name: MODE
        value: fast
"""
    )


def test_an_unknown_key_of_a_secret_is_refused() -> None:
    with pytest.raises(OperationRefused) as error:
        create(SMALLEST._replace(secrets=("HF_TOKEN=huggingface:tokens",)), tenant="ml-orbit")
    assert str(error.value) == "--secret: SecretReference huggingface has no key 'tokens'; did you mean 'token'?"


def test_an_image_with_every_option() -> None:
    options = IMAGE._replace(
        ports=("8080", "metrics:9090/tcp"),
        exposure="members",
        storages=("models:/models:ro",),
        env=("MODE=fast", "NUMBER=1.10", "ANSWER=yes", "URL=a=b"),
        replicas="3",
        labels=("team=design",),
        display_name="Der Maler: schön",
        access=("ssh",),
        stopped=True,
    )
    assert create(options) == {
        "painter.yaml": f"""\
# yaml-language-server: $schema=../../../schemas/GPUInstance.schema.json
apiVersion: allotment.dev/v1alpha1
kind: GPUInstance
metadata:
  name: painter
  labels:
    team: design
spec:
  displayName: "Der Maler: schön"
  state: Stopped
  cluster: eu-1
  gpuSpec: l4-quarter
  container:
    image: registry.example/tools/a:1@{DIGEST}
    env:
      - name: ANSWER
        value: "yes"
      - name: MODE
        value: fast
      - name: NUMBER
        value: "1.10"
      - name: URL
        value: "a=b"
    ports:
      - name: http
        containerPort: 8080
        exposure: Members
      - name: metrics
        containerPort: 9090
        protocol: TCP
  replicas: 3
  access:
    - SSH
  storages:
    - name: models
      mountPath: /models
      readOnly: true
"""
    }


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        (
            InstanceOptions(),
            [
                "add --cluster: eu-1, us-1",
                "add --gpu-spec: solo-ada can use l4-quarter",
                "add --app: comfyui, jupyter, lora-trainer, stable-diffusion-webui, triton, vllm; or --image IMAGE@DIGEST",
            ],
        ),
        (SMALLEST._replace(cluster="eu-2"), ["--cluster: no cluster is named 'eu-2'; did you mean 'eu-1'?"]),
        (
            SMALLEST._replace(gpu_spec="l4"),
            ["--gpu-spec: no GPUSpec is named 'l4': solo-ada can use in eu-1 l4-quarter"],
        ),
        (SMALLEST._replace(app="jupiter"), ["--app: no App is named 'jupiter'; did you mean 'jupyter'?"]),
        (SMALLEST._replace(app="jupyter:9"), ["--app: App jupyter has no version '9'; known: 4.5.0"]),
        (SMALLEST._replace(image="a"), ["--app and --image exclude each other: omit one of them"]),
        (
            SMALLEST._replace(ports=("8080",)),
            ["--port: the app declares its ports: omit --port, or use --image"],
        ),
        (
            SMALLEST._replace(exposure="Public"),
            ["--exposure: the app declares its ports: omit --exposure, or use --image"],
        ),
        (IMAGE._replace(image="a:latest"), ["--image: 'a:latest'"]),
        (IMAGE._replace(exposure="all", ports=("80",)), ["--exposure: 'all' is not one of Namespace, Members, Public"]),
        (
            IMAGE._replace(exposure="Public"),
            ["--exposure: no port is open: add --port, such as --port http:8080"],
        ),
        (
            IMAGE._replace(ports=("web",)),
            ["--port: 'web' is not in the format [NAME:]NUMBER[/tcp], such as http:8080"],
        ),
        (IMAGE._replace(ports=("70000",)), ["--port: 70000 is"]),
        (
            SMALLEST._replace(storages=("models",)),
            ["--storage: 'models' is not in the format NAME:/PATH[:ro], such as models:/workspace/models"],
        ),
        (
            SMALLEST._replace(storages=("model:/a",)),
            ["--storage: solo-ada has no GPUStorage named 'model'; did you mean 'models'?"],
        ),
        (SMALLEST._replace(storages=("models:/etc",)), ["--storage: '/etc'"]),
        (
            SMALLEST._replace(new_storages=("models:/a",)),
            [
                "--new-storage: 'models:/a' is not in the format NAME:SIZE:/PATH[:ro],"
                " such as models:50Gi:/workspace/models"
            ],
        ),
        (
            SMALLEST._replace(new_storages=("models:50Gi:/a",)),
            [
                "--new-storage: tenants/solo-ada/storages/models.yaml exists already:"
                " choose another name, or change the file with `allot set`"
            ],
        ),
        (
            SMALLEST._replace(new_storages=("more:50GB:/a",)),
            [
                "--new-storage: '50GB' is not a size: write a whole number with Mi, Gi or Ti, such as 16Gi",
            ],
        ),
        (
            SMALLEST._replace(new_storages=("more:50Gi:/a",), storage_spec="ssd"),
            ["--storage-spec: cluster eu-1 offers no StorageSpec named 'ssd'; known: block-ssd, objects, shared-files"],
        ),
        (
            SMALLEST._replace(storage_spec="block-ssd"),
            ["--storage-spec: no storage is created: add --new-storage NAME:SIZE:/PATH"],
        ),
        (
            SMALLEST._replace(source="snapshot:x"),
            ["--source: no storage is created: add --new-storage NAME:SIZE:/PATH"],
        ),
        (
            SMALLEST._replace(new_storages=("more:50Gi:/a",), source="ftp://x"),
            ["--source: 'ftp://x' is not a source: write "],
        ),
        (
            SMALLEST._replace(new_storages=("more:50Gi:/a",), source="https://a.example/b.bin"),
            [
                "--source: 'https://a.example/b.bin' has no hash: add #sha256= and the 64 digits of the file's SHA-256 hash;"
                " `sha256sum FILE` prints it"
            ],
        ),
        (
            SMALLEST._replace(new_storages=("one:50Gi:/a", "two:50Gi:/b"), source="snapshot:abc"),
            ["--source: it fills one new storage: create the others by `allot storage create`"],
        ),
        (SMALLEST._replace(env=("A",)), ["--env: 'A' is not in the format KEY=VALUE"]),
        (SMALLEST._replace(env=("A=1", "A=2")), ["--env: 'A' occurs twice: omit one of them"]),
        (SMALLEST._replace(env=("NVIDIA_X=1",)), ["--env: NVIDIA_X decides which GPUs a container sees"]),
        (SMALLEST._replace(env=("A=\x07",)), ["--env: 'A=\\x07' has a control character, or is not UTF-8: remove it"]),
        (SMALLEST._replace(secrets=("A",)), ["--secret: 'A' is not in the format VARIABLE=SECRET:KEY"]),
        (
            SMALLEST._replace(secrets=("A=huggingface:token",)),
            ["--secret: solo-ada has no SecretReference named 'huggingface'; there are none"],
        ),
        (SMALLEST._replace(replicas="two"), ["--replicas: 'two' is not a whole number from 1 to 100"]),
        (SMALLEST._replace(replicas="101"), ["--replicas: '101' is not a whole number from 1 to 100"]),
        (SMALLEST._replace(labels=("team",)), ["--label: 'team' is not in the format KEY=VALUE"]),
        (SMALLEST._replace(labels=("a b=c",)), ["--label: "]),
        (SMALLEST._replace(display_name="x" * 101), ["--display-name: "]),
        (SMALLEST._replace(access=("telnet",)), ["--access: 'telnet' is not one of SSH"]),
    ],
)
def test_a_wrong_option_is_named(options: InstanceOptions, problems: list[str]) -> None:
    lines = refuse(options)
    assert len(lines) == len(problems), lines
    for line, start in zip(lines, problems, strict=True):
        assert line.startswith(start)


def test_a_wrong_name_is_refused() -> None:
    assert refuse(SMALLEST, "webui") == [
        "tenants/solo-ada/instances/webui.yaml exists already: choose another name, or change the file with `allot set`"
    ]
    assert refuse(SMALLEST, "Web")[0].startswith("name 'Web' is not allowed")


def test_the_newest_active_version_is_the_default() -> None:
    def read(path: str) -> bytes | None:
        data = DECLARATIONS.read(path)
        if path != "platform/apps/jupyter.yaml" or data is None:
            return data
        start, _, entry = data.decode().partition("  versions:\n")
        versions = [("4.9.0", ""), ("4.10.0", ""), ("4.10.0-rc.1", ""), ("4.11.0", "      lifecycle: Deprecated\n")]
        entries = [entry.replace('"4.5.0"\n', f'"{version}"\n{lifecycle}', 1) for version, lifecycle in versions]
        return f"{start}  versions:\n{''.join(entries)}".encode()

    declarations = DECLARATIONS._replace(read=read)
    change_set = create_instance(declarations, NewInstance("solo-ada", "painter", SMALLEST), lambda *_: [])
    assert b'version: "4.10.0"\n' in (change_set.files["tenants/solo-ada/instances/painter.yaml"] or b"")
