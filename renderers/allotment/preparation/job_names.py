"""Names the Job that prepares a storage. A change of the input or of the attempt changes the name."""

from __future__ import annotations

import hashlib
import json

from allotment.declared.kinds.gpu_storage import Prepare, Source
from allotment.declared.tenant_resources import SECRET

_MAX_RECENT_HASHES = 256
# By the ID of the source. A source never changes, and no other object has its ID as long as it is in this mapping.
_recent_hashes: dict[int, tuple[Source, str]] = {}
_HASH_LENGTH = 10  # a Job's name has this many digits of the input's hash


def input_hash(prepare: Prepare) -> str:
    """Return the hash of a preparation's input, which is its source. The attempt is not part of the input."""
    source = prepare.source
    hashed_source, digest = _recent_hashes.get(id(source), (None, ""))
    if hashed_source is source:
        return digest
    content = source.model_dump(mode="json", by_alias=True, exclude_none=True)
    if source.s3 is not None and source.s3.secret_ref is not None:
        # The field was the name of the Secret when the first storages were published. Their hashes must not change.
        content["s3"]["secretRef"]["name"] = f"{source.s3.secret_ref.name.removesuffix(SECRET.suffix)}{SECRET.suffix}"
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    if len(_recent_hashes) >= _MAX_RECENT_HASHES:
        _recent_hashes.clear()
    _recent_hashes[id(source)] = source, digest
    return digest


def job_name(storage: str, prepare: Prepare) -> str:
    """Return the name of a preparation's Job."""
    return format_job_name(storage, input_hash(prepare), prepare.attempt)


def format_job_name(storage: str, digest: str, attempt: int) -> str:
    """Return the name of the Job for an attempt to prepare a storage; `digest` is the hash of the input."""
    return f"{storage}--prepare-{digest[:_HASH_LENGTH]}-{attempt}"
