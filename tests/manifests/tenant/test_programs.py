"""What Jobs run lies once a namespace, in ConfigMaps that nobody can change and that say by their names what they hold."""

from __future__ import annotations

import ast
import hashlib
import json

import pytest
from tests.manifests.test_tree import sample_tree

from allotment.manifests import paths
from allotment.manifests.published import programs_of
from allotment.manifests.tenant import programs
from allotment.manifests.text import dump, load
from allotment.programs import MODULES, texts

__all__ = ["sample_tree"]

MOST = 1024 * 1024  # bytes of a ConfigMap's data, keys and values: the API server refuses more


@pytest.mark.parametrize("program", programs.SETS)
def test_a_set_fits_a_config_map_and_a_name_that_follows_from_it(program: str) -> None:
    held = programs.data_of(program)
    assert sum(len(name.encode()) + len(text.encode()) for name, text in held.items()) < MOST / 10
    digest = hashlib.sha256(json.dumps(dict(sorted(held.items()))).encode()).hexdigest()
    assert programs.name_of(program) == f"allotment--programs-{program.replace('_', '-')}-{digest[:16]}"
    assert programs.by_name()[programs.name_of(program)] == held


@pytest.mark.parametrize("program", programs.SETS)
def test_a_set_holds_all_that_its_modules_import(program: str) -> None:
    held = programs.data_of(program)
    for name, text in held.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("programs"):
                parts = (node.module or "").split(".")
                wanted = parts[1:2] or [alias.name for alias in node.names]
                assert {f"{one}.py" for one in wanted} <= held.keys(), (program, name)


def test_every_program_is_in_some_set_as_it_is_today() -> None:
    assert {one for several in programs.SETS.values() for one in several} == MODULES.keys()
    assert len(programs.by_name()) == len(programs.SETS)
    for program, several in programs.SETS.items():
        assert program in several
        assert programs.data_of(program) == texts(*several)


def test_another_text_has_another_name() -> None:
    held = dict(programs.data_of("seal"))
    assert programs.hash_of(held) == programs.hash_of(dict(reversed(held.items())))
    assert programs.hash_of({**held, "seal.py": held["seal.py"] + "\n"}) != programs.hash_of(held)
    assert programs.hash_of({**held, "more.py": ""}) != programs.hash_of(held)


def test_a_namespace_has_what_its_jobs_name_each_once_and_nothing_else(sample_tree: dict[str, bytes]) -> None:
    shared = 0
    folders = {path.rpartition("/")[0] for path in sample_tree if path.endswith(paths.ENDING)}
    for folder in folders:
        inside = {path: data for path, data in sample_tree.items() if path.rpartition("/")[0] == folder}
        named = [name for path, data in inside.items() for name in programs_of(data) if not paths.is_programs(path)]
        shared += len(named) - len(set(named))
        assert {paths.stem_of(path) for path in inside if paths.is_programs(path)} == set(named)
        for path, data in inside.items():
            immutable = [one for one in load(data) if one.get("immutable")]
            assert immutable == (load(data) if paths.is_programs(path) else []), path
    assert shared >= 2, "clones and an image's of studio-kite"


def test_programs_are_the_namespaces_not_a_storages(sample_tree: dict[str, bytes]) -> None:
    found = {path: load(data) for path, data in sample_tree.items() if paths.is_programs(path)}
    assert found
    for path, objects in found.items():
        (one,) = objects
        tenant = path.split("/")[2]
        assert path == f"{path.split('/')[0]}/tenants/{tenant}/storage/{one['metadata']['name']}.rendered.yaml"
        assert one["metadata"]["labels"] == {
            "app.kubernetes.io/managed-by": "allotment",
            "allotment.dev/tenant": tenant,
        }
        assert one["metadata"]["annotations"] == {"argocd.argoproj.io/sync-options": "Delete=false"}
        assert one["immutable"] is True


def test_what_is_read_back_is_what_jobs_name(sample_tree: dict[str, bytes]) -> None:
    seen = set()
    for path, data in sample_tree.items():
        jobs = [one for one in load(data) if one["kind"] == "Job"]
        volumes = [volume for job in jobs for volume in job["spec"]["template"]["spec"]["volumes"]]
        names = {volume["configMap"]["name"] for volume in volumes if "configMap" in volume}
        assert programs_of(data) == names, path
        seen |= names
    assert len(seen) >= 3


def test_a_tenants_own_text_names_no_programs(sample_tree: dict[str, bytes]) -> None:
    path = "eu-1/tenants/studio-kite/storage/model-cache.rendered.yaml"
    objects = load(sample_tree[path])
    (job,) = [one for one in objects if one["kind"] == "Job"]
    (brought,) = [one for one in job["spec"]["template"]["spec"]["initContainers"] if one["name"] == "prepare"]
    other = "allotment--programs-seal-0123456789abcdef"
    brought["args"] = [other, f"          name: {other}", f"x\n          name: {other}\n"]
    assert programs_of(dump(objects)) == programs_of(sample_tree[path])
