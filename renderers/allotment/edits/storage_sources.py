"""Parses the source of a new storage, such as `hf:stabilityai/sdxl/model.safetensors#sha256=…`."""

from __future__ import annotations

import re
from typing import Any

from allotment.problems import OperationRefused, quote_value

SOURCE_FORMATS = (
    "https://HOST/FILE#sha256=HASH, hf:OWNER/MODEL[@REVISION]/FILE#sha256=HASH, storage:[TENANT/]NAME, snapshot:NAME,"
    " s3:https://HOST/BUCKET/PREFIX or image:IMAGE@DIGEST"
)
_HASHED = re.compile(r"(?P<url>[^#]+)#sha256=(?P<sha256>[0-9a-f]{64})")
_HUGGING_FACE = re.compile(r"hf:(?P<model>[^/@]+/[^/@]+)(?:@(?P<revision>[^/]+))?/(?P<file>.+)")
_BUCKET = re.compile(r"s3:(?P<endpoint>https?://[^/]+)/(?P<bucket>[^/]+)(?:/(?P<prefix>.*))?")


def parse_source(text: str) -> dict[str, Any]:
    """Return `spec.prepare.source` for a text in one of SOURCE_FORMATS. Raises OperationRefused if it has no such format."""
    scheme, _, rest = text.partition(":")
    if scheme in ("https", "hf"):
        return {"url": _parse_url(text)}
    if scheme == "storage" and rest:
        tenant, slash, name = rest.rpartition("/")
        return {"storage": {"name": name, **({"tenant": tenant} if slash else {})}}
    if scheme == "snapshot" and rest:
        return {"snapshot": {"name": rest}}
    if scheme == "image" and rest:
        return {"image": {"image": rest}}
    if match := _BUCKET.fullmatch(text):
        prefix = {"prefix": match["prefix"]} if match["prefix"] else {}
        return {"s3": {"endpoint": match["endpoint"], "bucket": match["bucket"], **prefix}}
    raise OperationRefused(f"{quote_value(text)} is not a source: write {SOURCE_FORMATS}")


def _parse_url(text: str) -> dict[str, str]:
    match = _HASHED.fullmatch(text)
    if match is None:
        where = (
            "the page of the file at Hugging Face shows it" if text.startswith("hf:") else "`sha256sum FILE` prints it"
        )
        raise OperationRefused(
            f"{quote_value(text)} has no hash: add #sha256= and the 64 digits of the file's SHA-256 hash; {where}"
        )
    url = match["url"]
    if text.startswith("hf:"):
        model = _HUGGING_FACE.fullmatch(url)
        if model is None:
            raise OperationRefused(f"{quote_value(url)} is not in the format hf:OWNER/MODEL[@REVISION]/FILE")
        url = f"https://huggingface.co/{model['model']}/resolve/{model['revision'] or 'main'}/{model['file']}"
    return {"url": url, "sha256": match["sha256"]}
