"""The Job of a preparation: what is complete already ends it before the tenant's own program begins."""

from __future__ import annotations

from typing import Any

from tests.manifests.test_tree import sample_tree

from allotment.manifests.text import load
from allotment.programs import ending

__all__ = ["sample_tree"]


def jobs(tree: dict[str, bytes]) -> list[dict[str, Any]]:
    """Return the Jobs of a tree."""
    return [one for data in tree.values() for one in load(data) if one["kind"] == "Job"]


def test_only_the_check_of_an_images_job_ends_it_at_once(sample_tree: dict[str, bytes]) -> None:
    seen = set()
    for job in jobs(sample_tree):
        spec, pod = job["spec"], job["spec"]["template"]["spec"]
        inits = [one["name"] for one in pod.get("initContainers", ())]
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
        for one in job["spec"]["template"]["spec"].get("initContainers", ())[:2]:
            assert one["command"] == ["python3", "-m", f"programs.{one['name']}"]
            assert f"--job={job['metadata']['name']}" in one["args"]
            assert one.get("restartPolicy") == ("Always" if one["name"] == "hold" else None)


def test_what_a_pod_runs_lies_in_its_namespace(sample_tree: dict[str, bytes]) -> None:
    ran = set()
    for path, data in sample_tree.items():
        for job in (one for one in load(data) if one["kind"] == "Job"):
            pod = job["spec"]["template"]["spec"]
            (name,) = [one["configMap"]["name"] for one in pod["volumes"] if "configMap" in one]
            (held,) = load(sample_tree[f"{path.rpartition('/')[0]}/{name}.rendered.yaml"])
            assert held["metadata"]["name"] == name
            assert held["metadata"]["namespace"] == job["metadata"]["namespace"]
            for one in (*pod.get("initContainers", ()), *pod["containers"]):
                if {"name": "programs", "mountPath": "/allotment/programs", "readOnly": True} in one["volumeMounts"]:
                    module = one["command"][2].removeprefix("programs.")
                    ran.add(module)
                    assert f"{module}.py" in held["data"], path
                    assert {"__init__.py", "ending.py", "volume.py"} <= held["data"].keys()
    assert ran == {"check", "hold", "seal", "copy_shared", "fetch_s3", "fetch_url"}
