"""Finds the digest of an image at its registry, and checks it against the manifest."""

from __future__ import annotations

import hashlib
import json
from http import HTTPStatus
from typing import Any

from allotment.adapters.registry.authorization import authorize, login_message
from allotment.adapters.registry.connection import RegistryError, RegistryResponse, base_url, send_request
from allotment.adapters.registry.credentials import find_login
from allotment.declared.image_reference import DIGEST, DOCKER_HUB, ImageReference, parse_image_reference
from allotment.problems import escape_unprintable

_HUB_HOST = "registry-1.docker.io"
_DIGEST_HEADER = "Docker-Content-Digest"
_MANIFEST_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


def resolve_image(text: str) -> str:
    """Return the image `name:tag@sha256:…` that `text` names; ask the registry unless `text` has a digest.

    Raises OperationRefused.
    """
    image = parse_image_reference(text)
    return image.with_digest(image.digest or resolve_digest(image))


def resolve_digest(image: ImageReference) -> str:
    """Return the digest of the index or manifest with the image's tag, such as `sha256:…`. Raises RegistryError.

    The registry sends the manifest, and the digest is the hash of its bytes. So the registry can't name a digest under
    which it has nothing.
    """
    repository = _Repository(image)
    head = repository.request("HEAD", image.tag)
    declared = head.headers.get(_DIGEST_HEADER, "")
    header = declared if head.status == HTTPStatus.OK and DIGEST.fullmatch(declared) else ""
    response = repository.request("GET", header or image.tag)
    if response.status != HTTPStatus.OK:
        raise RegistryError(_explain_status(image, response, repository.login))
    if not _is_manifest(_parse_object(response.body)):
        raise RegistryError(f"{image.host} answers with something else than an image: check the name {image.name}")
    digest = f"sha256:{hashlib.sha256(response.body).hexdigest()}"
    stated = header or response.headers.get(_DIGEST_HEADER, digest)
    if stated != digest:
        raise RegistryError(
            f"registry {image.host} names the digest {escape_unprintable(stated, 80)} for {image.name}, but its manifest"
            f" has {digest}: don't use this registry"
        )
    return digest


class _Repository:
    """The manifests of a repository. After a challenge, all requests have the same Authorization header."""

    def __init__(self, image: ImageReference) -> None:
        self._image = image
        self._authorization = ""
        self.login = find_login(image.host)

    def request(self, method: str, reference: str) -> RegistryResponse:
        """Return the response for a tag or digest, after at most one challenge. Raises RegistryError.

        Only the registry itself can ask for the login.
        """
        response = self._send(method, reference)
        if response.status == HTTPStatus.UNAUTHORIZED and not self._authorization and not response.is_foreign:
            challenge = response.headers.get("WWW-Authenticate", "")
            self._authorization = authorize(challenge, self._image.host, self._image.repository, self.login)
            response = self._send(method, reference)
        return response

    def _send(self, method: str, reference: str) -> RegistryResponse:
        host = _HUB_HOST if self._image.host == DOCKER_HUB else self._image.host
        headers = {"Accept": ", ".join(_MANIFEST_TYPES)}
        if self._authorization:
            headers["Authorization"] = self._authorization
        return send_request(method, f"{base_url(host)}/v2/{self._image.repository}/manifests/{reference}", headers)


def _explain_status(image: ImageReference, response: RegistryResponse, login: str) -> str:
    status, host = response.status, image.host
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return login_message(host, image.repository, login)
    errors = (_parse_object(response.body) or {}).get("errors")
    first = errors[0] if isinstance(errors, list) and errors and isinstance(errors[0], dict) else {}
    code, message = (escape_unprintable(str(first.get(key, "")), 120) for key in ("code", "message"))
    if status == HTTPStatus.NOT_FOUND and code:
        return f"registry {host} has no image {image.name}: check the name and the tag ({code})"
    if status == HTTPStatus.NOT_FOUND:
        return f"{host} is not a registry of images, because it doesn't know the OCI distribution API: check the host"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return f"registry {host} limits the requests: try again later, or log in: docker login {host}"
    reason = ": ".join(part for part in (code, message) if part)
    return f"registry {host} answers {status} for {image.name}{f' ({reason})' if reason else ''}: try again later"


def _parse_object(body: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _is_manifest(document: dict[str, Any] | None) -> bool:
    if document is None or document.get("schemaVersion") != 2:
        return False
    return isinstance(document.get("manifests"), list) or isinstance(document.get("layers"), list)
