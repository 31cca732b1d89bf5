"""The Job of a preparation: what is complete already ends it before the tenant's own program begins."""

from __future__ import annotations

from typing import Any

from tests.support.rendered_tree import sample_tree

from allotment.manifests.yaml_text import load
from allotment.programs import ending

__all__ = ["sample_tree"]


def jobs(tree: dict[str, bytes]) -> list[dict[str, Any]]:
    """Return the Jobs of a tree."""
    return [manifest for data in tree.values() for manifest in load(data) if manifest["kind"] == "Job"]


def test_only_the_check_of_an_images_job_ends_it_at_once(sample_tree: dict[str, bytes]) -> None:
    seen = set()
    for job in jobs(sample_tree):
        spec, pod = job["spec"], job["spec"]["template"]["spec"]
        inits = [container["name"] for container in pod.get("initContainers", ())]
        seen.add(bool(inits))
        assert inits in ([], ["check", "hold", "prepare"])
        assert spec.get("podFailurePolicy") == (
            {
                "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": {"containerName": "check", "operator": "In", "values": [78]},
                    }
                ]
            }
            if inits
            else None
        )
        assert pod["restartPolicy"] == "Never", "the API server takes such a policy with no other"
    assert seen == {True, False}
    assert ending.ALREADY_COMPLETE == 78


def test_check_and_hold_are_of_the_job_and_only_hold_stays(sample_tree: dict[str, bytes]) -> None:
    for job in jobs(sample_tree):
        for container in job["spec"]["template"]["spec"].get("initContainers", ())[:2]:
            assert container["command"] == ["python3", "-m", f"programs.{container['name']}"]
            assert f"--job={job['metadata']['name']}" in container["args"]
            assert container.get("restartPolicy") == ("Always" if container["name"] == "hold" else None)


def test_each_job_mounts_its_programs_from_a_config_map_of_its_namespace(sample_tree: dict[str, bytes]) -> None:
    ran = set()
    for path, data in sample_tree.items():
        for job in (manifest for manifest in load(data) if manifest["kind"] == "Job"):
            pod = job["spec"]["template"]["spec"]
            (name,) = [volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume]
            (held,) = load(sample_tree[f"{path.rpartition('/')[0]}/{name}.rendered.yaml"])
            assert held["metadata"]["name"] == name
            assert held["metadata"]["namespace"] == job["metadata"]["namespace"]
            for container in (*pod.get("initContainers", ()), *pod["containers"]):
                if {"name": "programs", "mountPath": "/allotment/programs", "readOnly": True} in container[
                    "volumeMounts"
                ]:
                    module = container["command"][2].removeprefix("programs.")
                    ran.add(module)
                    assert f"{module}.py" in held["data"], path
                    assert {"__init__.py", "ending.py", "volume.py"} <= held["data"].keys()
    assert ran == {"check", "hold", "seal", "copy_shared", "fetch_s3", "fetch_url"}
