"""The built-in catalog of apps: public images, with the arguments, ports and folders that fit Allotment's pods.

A container of an instance has no capabilities and no `sudo`, also as root. Its root file system is writable, and it may
write to a storage through the group 1000. So each entry starts its program directly, without a change of the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from allotment.edits.new_declaration import build_declaration


class CatalogApp(NamedTuple):
    """An app that `allot app add` can declare. `container` is the container of its version, without the image.

    `folders` maps a path in the container to the description of its files. `caches` lists the folders with files that the
    program can fetch again. `sources` are the URLs of the documentation of the image.
    """

    name: str
    display_name: str
    description: str
    version: str
    image: str
    container: Mapping[str, Any]
    folders: Mapping[str, str]
    sources: tuple[str, ...]
    caches: tuple[str, ...] = ()


def _serve_http(port: int, ready_path: str, start_timeout: str, base_path: str = "/") -> dict[str, Any]:
    """Return the port and the probe of a program that members open in a browser."""
    port_fields = {"name": "http", "containerPort": port, "protocol": "HTTP", "exposure": "Members"}
    return {
        "ports": [port_fields if base_path == "/" else {**port_fields, "basePath": base_path}],
        "probe": {"httpGet": {"path": ready_path, "port": "http"}, "startTimeout": start_timeout},
    }


_STABLE_DIFFUSION_WEBUI = CatalogApp(
    name="stable-diffusion-webui",
    display_name="Stable Diffusion WebUI",
    description="Images from text, in the browser: the WebUI of AUTOMATIC1111. It contains no model: put a checkpoint into"
    " the folder models/Stable-diffusion.",
    version="1.10.1",
    image="docker.io/siutin/stable-diffusion-webui-docker:cuda-12.0.0-v1.10.1-2025-02-10",
    container={
        "args": ["bash", "webui.sh", "--listen", "--port=7860", "--api", "--no-download-sd-model"],
        "env": [{"name": "HF_HOME", "value": "/scratch/huggingface"}],
        **_serve_http(7860, "/", "20m"),
        "shmSize": "4Gi",
    },
    folders={
        "/app/stable-diffusion-webui/models": "Checkpoints, LoRAs, VAEs and upscalers.",
        "/app/stable-diffusion-webui/outputs": "The generated images.",
    },
    sources=(
        "https://github.com/siutin/stable-diffusion-webui-docker",
        "https://github.com/AUTOMATIC1111/stable-diffusion-webui/wiki/Command-Line-Arguments-and-Settings",
    ),
)

_COMFYUI = CatalogApp(
    name="comfyui",
    display_name="ComfyUI",
    description="Workflows of image and video models, in the browser. The nodes need an NVIDIA driver for CUDA 13.",
    version="20260907",
    image="docker.io/yanwk/comfyui-boot:cu130-slim-20260907",
    container={**_serve_http(8188, "/system_stats", "15m"), "shmSize": "4Gi"},
    folders={
        "/root/ComfyUI/models": "Checkpoints, LoRAs and other models.",
        "/root/ComfyUI/input": "The images that workflows read.",
        "/root/ComfyUI/output": "The generated images.",
        "/root/ComfyUI/user/default/workflows": "The saved workflows.",
    },
    sources=("https://github.com/YanWenKun/ComfyUI-Docker/tree/main/cu130-slim",),
)

_JUPYTER = CatalogApp(
    name="jupyter",
    display_name="JupyterLab",
    description="Notebooks with Python, PyTorch and CUDA 12. Keep your files in /home/jovyan/work.",
    version="2026-09-01",
    image="quay.io/jupyter/pytorch-notebook:cuda12-2026-09-01",
    container={
        "args": ["start-notebook.py", "--IdentityProvider.token=", "--ServerApp.root_dir=/home/jovyan/work"],
        **_serve_http(8888, "/api", "10m", base_path="/lab"),
        "shmSize": "2Gi",
    },
    folders={"/home/jovyan/work": "Notebooks and their data."},
    sources=("https://jupyter-docker-stacks.readthedocs.io/en/latest/using/selecting.html",),
)

_VLLM = CatalogApp(
    name="vllm",
    display_name="vLLM",
    description="An OpenAI-compatible API for language models. It serves Qwen/Qwen3-0.6B, and downloads it at the start."
    " An instance serves another model with its own arguments. The nodes need an NVIDIA driver for CUDA 13.",
    version="0.28.0",
    image="docker.io/vllm/vllm-openai:v0.28.0",
    container={
        "args": ["Qwen/Qwen3-0.6B", "--host=0.0.0.0", "--port=8000"],
        "env": [{"name": "HF_HOME", "value": "/models"}],
        **_serve_http(8000, "/health", "30m", base_path="/docs"),
        "shmSize": "8Gi",
    },
    folders={"/models": "The cache of Hugging Face, so that a restart downloads no model again."},
    sources=("https://docs.vllm.ai/en/latest/deployment/docker.html",),
    caches=("/models",),
)

_CODE_SERVER = CatalogApp(
    name="code-server",
    display_name="code-server",
    description="VS Code in the browser. Keep your files in /home/coder/project.",
    version="4.141.1",
    image="docker.io/codercom/code-server:4.141.1",
    container={
        # The entry point of the image changes its user with a setuid program, which needs privileges.
        "command": ["dumb-init", "/usr/bin/code-server"],
        "args": ["--bind-addr=0.0.0.0:8080", "--auth=none", "--disable-telemetry", "/home/coder/project"],
        **_serve_http(8080, "/healthz", "5m"),
    },
    folders={"/home/coder/project": "The files of the project."},
    sources=("https://github.com/coder/code-server/blob/main/ci/release-image/Dockerfile",),
)

APPS: Mapping[str, CatalogApp] = {
    app.name: app for app in (_CODE_SERVER, _COMFYUI, _JUPYTER, _STABLE_DIFFUSION_WEBUI, _VLLM)
}

# The file server of storages, which `Platform.spec.images.files` names with its digest.
FILES_IMAGE = "docker.io/sigoden/dufs:v0.46.0"


# The add-ons that a first cluster needs, unless it has these programs already. They name no cluster.
FIRST_ADD_ONS = ("cert-manager", "envoy-gateway", "nvidia-device-plugin")


def app_version(app: CatalogApp, image: str) -> dict[str, Any]:
    """Return the version of a catalog app as a field of an App's `spec.versions`; `image` has a digest."""
    folders = [
        {"path": path, "description": text, **({"optional": True} if path in app.caches else {})}
        for path, text in app.folders.items()
    ]
    return {"version": app.version, "container": {"image": image, **app.container}, "folders": folders}


def app_spec(app: CatalogApp, image: str, version: str = "") -> dict[str, Any]:
    """Return the fields of an App that declares a catalog app; `image` has a digest."""
    fields = app_version(app, image)
    versions = [{**fields, "version": version or app.version}]
    return {"displayName": app.display_name, "description": app.description, "versions": versions}


def app_path(name: str) -> str:
    """Return the path of an App's file."""
    return f"platform/apps/{name}.yaml"


def app_file(app: CatalogApp, image: str) -> bytes:
    """Return the file of a catalog app; `image` has a digest."""
    return build_declaration(app_path(app.name), app_spec(app, image))


class ImageSettings(NamedTuple):
    """The settings of an image that is not in the catalog. `port` is 0 for a container without a port.

    Without a `ready_path`, the container is ready as soon as the port accepts connections.
    """

    port: int = 0
    ready_path: str = ""
    exposure: str = "Members"
    arguments: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    shm_size: str = ""


def image_spec(image: str, version: str, settings: ImageSettings, display_name: str = "") -> dict[str, Any]:
    """Return the fields of an App with one version of an image that is not in the catalog; `image` has a digest."""
    container: dict[str, Any] = {"image": image}
    if settings.arguments:
        container["args"] = list(settings.arguments)
    if settings.port:
        served = _serve_http(settings.port, settings.ready_path, "10m")
        served["ports"][0]["exposure"] = settings.exposure
        if not settings.ready_path:
            served["probe"] = {"tcpSocket": {"port": "http"}, "startTimeout": "10m"}
        container |= served
    if settings.shm_size:
        container["shmSize"] = settings.shm_size
    fields: dict[str, Any] = {"version": version, "container": container}
    if settings.folders:
        fields["folders"] = [{"path": path} for path in settings.folders]
    return {**({"displayName": display_name} if display_name else {}), "versions": [fields]}
