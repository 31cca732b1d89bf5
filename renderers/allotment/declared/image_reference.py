"""Parse the name of a container image with its tag, as people write it: `vllm/vllm-openai:v0.20.0`."""

from __future__ import annotations

import re
from typing import NamedTuple

from allotment.problems import OperationRefused, quote_value

DOCKER_HUB = "docker.io"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?(?::[0-9]{1,5})?")
_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_MAX_LENGTH = 255  # characters of the host and the repository
_FORM = "write registry/name:tag, such as docker.io/vllm/vllm-openai:v0.20.0"


class ImageReference(NamedTuple):
    """An image in a registry. `digest` is empty if only the registry knows it."""

    host: str
    repository: str
    tag: str
    digest: str = ""

    @property
    def name(self) -> str:
        """The full name with the tag, without the digest."""
        return f"{self.host}/{self.repository}:{self.tag}"

    def with_digest(self, digest: str) -> str:
        """Return the full name with the tag and a digest, as a declaration names an image."""
        return f"{self.name}@{digest}"


def parse_image_reference(text: str) -> ImageReference:
    """Return the image that `text` names: `[host/]name:tag[@sha256:…]`. Raises OperationRefused.

    Without a host, the image is from Docker Hub. There, a name without a namespace belongs to the namespace `library`.
    """
    name, at, digest = text.partition("@")
    if at and not DIGEST.fullmatch(digest):
        raise OperationRefused(
            f"image {quote_value(text)} has an invalid digest: write sha256: and 64 hexadecimal digits"
        )
    base, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        raise OperationRefused(f"image {quote_value(text)} has no tag: {_FORM}")
    if tag == "latest":
        raise OperationRefused(f"image {quote_value(text)} names 'latest', which moves: write the tag of a version")
    host, repository = _split_host(base)
    parts = repository.split("/")
    valid = _HOST.fullmatch(host) and _TAG.fullmatch(tag) and len(host) + len(repository) < _MAX_LENGTH
    if not valid or not all(map(_COMPONENT.fullmatch, parts)):
        raise OperationRefused(f"{quote_value(text)} is not the name of an image: {_FORM}")
    return ImageReference(host, repository, tag, digest)


def _split_host(base: str) -> tuple[str, str]:
    first, slash, rest = base.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        host, repository = first, rest
    else:
        host, repository = DOCKER_HUB, base
    if host in (DOCKER_HUB, "index.docker.io", "registry-1.docker.io"):
        return DOCKER_HUB, repository if "/" in repository else f"library/{repository}"
    return host, repository
