"""A reported preparation that failed, and `allot recover` for its storage."""

from __future__ import annotations

from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.layout import DeclarationPath, parse_path
from allotment.declared.reading import read_declaration
from allotment.observed.status import Preparation, Storage, TenantStatus
from allotment.preparation.job_names import input_hash
from tests.conftest import Allot, Result
from tests.support.published import Place

WHAT, PATH = "studio-kite/model-cache", "tenants/studio-kite/storages/model-cache.yaml"


def seen(place: Place, state: str = "Failed", attempt: int = 1, digest: str = "", reason: str = "NoSpace") -> None:
    spot = parse_path(PATH)
    assert isinstance(spot, DeclarationPath)
    declared, _ = read_declaration(PATH, (place.root / PATH).read_bytes(), spot)
    assert declared is not None
    assert isinstance(declared.model, GPUStorage)
    assert declared.model.spec.prepare is not None
    input_digest = digest or input_hash(declared.model.spec.prepare)
    ended = "2026-11-21T10:00:00Z" if state in ("Failed", "Succeeded") else ""
    prepare = Preparation("j1", attempt, input_digest, state, completion_time=ended, exit_code=75, reason=reason)
    storage = Storage("model-cache", "b", state, reason, claim="c1", prepare=prepare)
    place.report("eu-1", TenantStatus("studio-kite", "eu-1", storages=(storage,)))


def recover(place: Place, allot: Allot, *words: str) -> Result:
    return allot("recover", WHAT, "--repo", place.root, "--reason", "The volume is larger now.", *words)
