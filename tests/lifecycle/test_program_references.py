"""Programs lie beside the Jobs that name them, whichever version of ours wrote those."""

from __future__ import annotations

from pathlib import Path

from tests.support.published import of_another_version, with_own_programs

from allotment.lifecycle.program_references import check_programs
from allotment.manifests.tenant import programs

FOLDER = "eu-1/tenants/studio-kite/storage"
GOLDEN = Path(__file__).parent.parent / "manifests/golden"


def read(path: str) -> bytes:
    return (GOLDEN / path).read_bytes()


def test_check_programs_lists_missing_and_unreferenced_programs() -> None:
    files = [f"{FOLDER}/{path.name}" for path in sorted((GOLDEN / FOLDER).glob("*.yaml"))]
    held = {path for path in files if "/allotment--programs-" in path}
    assert len(held) == 2
    looked: list[str] = []

    def noted(path: str) -> bytes:
        looked.append(path)
        return read(path)

    assert check_programs(files, noted) == (frozenset(), frozenset())
    assert check_programs([path for path in files if path not in held], read) == (held, frozenset())
    assert check_programs(held, read) == (frozenset(), held)
    assert not [path for path in looked if "/allotment--" in path], "markers and programs name nothing"


def test_another_versions_programs_are_named_and_a_jobs_own_are_not() -> None:
    data = read(f"{FOLDER}/model-cache.rendered.yaml")
    other, name, _ = of_another_version(data)
    assert check_programs([f"{FOLDER}/x.rendered.yaml"], lambda _: other).missing_programs == {
        f"{FOLDER}/{name}.rendered.yaml"
    }
    assert name not in programs.programs_by_name()
    assert check_programs([f"{FOLDER}/x.rendered.yaml"], lambda _: with_own_programs(data)) == (
        frozenset(),
        frozenset(),
    )
