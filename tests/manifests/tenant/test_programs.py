"""What Jobs run lies once a namespace, in ConfigMaps that nobody can change and that say by their names what they hold."""

from __future__ import annotations

import ast
import hashlib
import json

import pytest
from tests.support.rendered_tree import sample_tree

from allotment.lifecycle.published_manifests import read_program_names
from allotment.manifests import paths
from allotment.manifests.tenant import programs
from allotment.manifests.yaml_text import dump, load
from allotment.programs import MODULES, texts

__all__ = ["sample_tree"]

MOST = 1024 * 1024  # bytes of a ConfigMap's data, keys and values: the API server refuses more


@pytest.mark.parametrize("program", programs.PROGRAM_SETS)
def test_a_set_fits_a_config_map_and_a_name_that_follows_from_it(program: str) -> None:
    held = programs.read_program_files(program)
    assert sum(len(name.encode()) + len(text.encode()) for name, text in held.items()) < MOST / 10
    digest = hashlib.sha256(json.dumps(dict(sorted(held.items()))).encode()).hexdigest()
    assert programs.programs_name(program) == f"allotment--programs-{program.replace('_', '-')}-{digest[:16]}"
    assert programs.programs_by_name()[programs.programs_name(program)] == held


@pytest.mark.parametrize("program", programs.PROGRAM_SETS)
def test_a_set_holds_all_that_its_modules_import(program: str) -> None:
    held = programs.read_program_files(program)
    for name, text in held.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("programs"):
                parts = (node.module or "").split(".")
                wanted = parts[1:2] or [alias.name for alias in node.names]
                assert {f"{module}.py" for module in wanted} <= held.keys(), (program, name)


def test_every_program_is_in_some_set_as_it_is_today() -> None:
    assert {module for modules in programs.PROGRAM_SETS.values() for module in modules} == MODULES.keys()
    assert len(programs.programs_by_name()) == len(programs.PROGRAM_SETS)
    for program, modules in programs.PROGRAM_SETS.items():
        assert program in modules
        assert programs.read_program_files(program) == texts(*modules)


def test_another_text_has_another_name() -> None:
    held = dict(programs.read_program_files("seal"))
    assert programs.hash_programs(held) == programs.hash_programs(dict(reversed(held.items())))
    assert programs.hash_programs({**held, "seal.py": held["seal.py"] + "\n"}) != programs.hash_programs(held)
    assert programs.hash_programs({**held, "more.py": ""}) != programs.hash_programs(held)


def test_a_namespace_has_what_its_jobs_name_each_once_and_nothing_else(sample_tree: dict[str, bytes]) -> None:
    shared = 0
    folders = {path.rpartition("/")[0] for path in sample_tree if path.endswith(paths.FILE_SUFFIX)}
    for folder in folders:
        inside = {path: data for path, data in sample_tree.items() if path.rpartition("/")[0] == folder}
        named = [
            name for path, data in inside.items() for name in read_program_names(data) if not paths.is_programs(path)
        ]
        shared += len(named) - len(set(named))
        assert {paths.file_stem(path) for path in inside if paths.is_programs(path)} == set(named)
        for path, data in inside.items():
            immutable = [manifest for manifest in load(data) if manifest.get("immutable")]
            assert immutable == (load(data) if paths.is_programs(path) else []), path
    assert shared >= 2, "clones and an image's of studio-kite"


def test_programs_are_the_namespaces_not_a_storages(sample_tree: dict[str, bytes]) -> None:
    manifests_by_path = {path: load(data) for path, data in sample_tree.items() if paths.is_programs(path)}
    assert manifests_by_path
    for path, objects in manifests_by_path.items():
        (config_map,) = objects
        tenant = path.split("/")[2]
        assert path == f"{path.split('/')[0]}/tenants/{tenant}/storage/{config_map['metadata']['name']}.rendered.yaml"
        assert config_map["metadata"]["labels"] == {
            "app.kubernetes.io/managed-by": "allotment",
            "allotment.dev/tenant": tenant,
        }
        assert config_map["metadata"]["annotations"] == {"argocd.argoproj.io/sync-options": "Delete=false"}
        assert config_map["immutable"] is True


def test_read_program_names_returns_the_config_maps_that_jobs_mount(sample_tree: dict[str, bytes]) -> None:
    seen = set()
    for path, data in sample_tree.items():
        jobs = [manifest for manifest in load(data) if manifest["kind"] == "Job"]
        volumes = [volume for job in jobs for volume in job["spec"]["template"]["spec"]["volumes"]]
        names = {volume["configMap"]["name"] for volume in volumes if "configMap" in volume}
        assert read_program_names(data) == names, path
        seen |= names
    assert len(seen) >= 3


def test_a_tenants_own_text_names_no_programs(sample_tree: dict[str, bytes]) -> None:
    path = "eu-1/tenants/studio-kite/storage/model-cache.rendered.yaml"
    objects = load(sample_tree[path])
    (job,) = [manifest for manifest in objects if manifest["kind"] == "Job"]
    (brought,) = [
        container for container in job["spec"]["template"]["spec"]["initContainers"] if container["name"] == "prepare"
    ]
    other = "allotment--programs-seal-0123456789abcdef"
    brought["args"] = [other, f"          name: {other}", f"x\n          name: {other}\n"]
    assert read_program_names(dump(objects)) == read_program_names(sample_tree[path])
