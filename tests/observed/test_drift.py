"""What somebody changed by hand in a live object is found, and what an API server fills in by itself isn't."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import PROJECT
from tests.support.live_defaults import Object, live

from allotment.manifests.yaml_text import load
from allotment.observed import drift
from allotment.observed.defaults import DEFAULTS_BY_KIND
from allotment.observed.drift import MAX_DIFFERENCES, find_differences

GOLDEN = PROJECT / "tests/manifests/golden"


def rendered() -> Iterator[Object]:
    """Yield every object of the sample that is compared."""
    for folder in ("tenants", "control", "platform"):
        for file in sorted(GOLDEN.glob(f"*/{folder}/**/*.rendered.yaml")):
            yield from (manifest for manifest in load(file.read_bytes()) if manifest["kind"] in DEFAULTS_BY_KIND)


OBJECTS = list(rendered())


def of(kind: str, name: str) -> Object:
    return copy.deepcopy(
        next(manifest for manifest in OBJECTS if (manifest["kind"], manifest["metadata"]["name"]) == (kind, name))
    )


def list_differences(published: Object, live_object: Object) -> list[str]:
    return [str(difference) for difference in find_differences(published, live_object)]


def test_list_differences_ignores_the_defaults_of_an_api_server() -> None:
    assert {manifest["kind"] for manifest in OBJECTS} == set(DEFAULTS_BY_KIND)
    assert [manifest for manifest in OBJECTS if list_differences(manifest, live(manifest))] == []


def test_list_differences_ignores_equivalent_notations_of_the_api_server() -> None:
    published = of("Deployment", "preview")
    live_object = live(published)
    live_object["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] |= {
        "cpu": "6000m",
        "memory": "24576Mi",
    }
    live_object["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "EMPTY"})
    published["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "EMPTY", "value": ""})
    assert list_differences(published, live_object) == []


def test_a_restart_by_reloader_is_a_difference_only_if_no_instance_declares_it() -> None:
    published = of("Deployment", "preview")
    live_object = live(published)
    template = live_object["spec"]["template"]["metadata"]
    template["annotations"] = {"reloader.stakater.com/last-reloaded-from": '{"hash": "0"}'}
    field = "spec.template.metadata.annotations isn't published"
    assert list_differences(published, live_object) == [field]
    for each in (published, live_object):
        each["metadata"]["annotations"]["secret.reloader.stakater.com/reload"] = "huggingface--secret"
    assert list_differences(published, live_object) == []
    published["spec"]["template"]["metadata"]["annotations"] = {"allotment.dev/restarts": "1"}
    template["annotations"]["allotment.dev/restarts"] = "1"
    assert list_differences(published, live_object) == [], "Reloader and a person restarted it"
    del published["spec"]["template"]["metadata"]["annotations"], template["annotations"]["allotment.dev/restarts"]
    template["annotations"]["kubectl.kubernetes.io/restartedAt"] = "2026-11-21T10:00:00Z"
    assert list_differences(published, live_object) == [field]


Edit = Callable[[Object, Object, Object], Any]  # of the object, its pod's spec, and the first container
POD = "spec.template.spec"
MAIN = f"{POD}.containers[main]"


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda o, p, c: p["containers"].append({"name": "x", "image": "y"}), f"{POD}.containers[x] isn't published"),
        (lambda o, p, c: p.update(initContainers=[{"name": "x"}]), f"{POD}.initContainers isn't published"),
        (lambda o, p, c: c["env"].append({"name": "X", "value": "secret"}), f"{MAIN}.env[X] isn't published"),
        (lambda o, p, c: c["env"].clear(), f"{MAIN}.env[HF_HOME] is missing"),
        (lambda o, p, c: c["env"][0].update(value="/x"), f"{MAIN}.env[HF_HOME].value isn't as published"),
        (lambda o, p, c: c.update(image="x:1"), f"{MAIN}.image isn't as published"),
        (lambda o, p, c: c.update(imagePullPolicy="Always"), f"{MAIN}.imagePullPolicy isn't published"),
        (lambda o, p, c: c.update(envFrom=[{}]), f"{MAIN}.envFrom isn't published"),
        (lambda o, p, c: c["args"].append("--x"), f"{MAIN}.args isn't as published"),
        (lambda o, p, c: c["ports"].append({"containerPort": 22}), f"{MAIN}.ports[22] isn't published"),
        (
            lambda o, p, c: c["volumeMounts"].append({"name": "scratch", "mountPath": "/x"}),
            f"{MAIN}.volumeMounts[/x] isn't published",
        ),
        (
            lambda o, p, c: c["volumeMounts"][2].pop("readOnly"),
            f"{MAIN}.volumeMounts[/workspace/models].readOnly is missing",
        ),
        (
            lambda o, p, c: c["securityContext"].update(privileged=True),
            f"{MAIN}.securityContext.privileged isn't published",
        ),
        (
            lambda o, p, c: c["securityContext"].pop("allowPrivilegeEscalation"),
            f"{MAIN}.securityContext.allowPrivilegeEscalation is missing",
        ),
        (lambda o, p, c: c["resources"]["limits"].update(cpu="7"), f"{MAIN}.resources.limits.cpu isn't as published"),
        (lambda o, p, c: p.pop("hostUsers"), f"{POD}.hostUsers is missing"),
        (lambda o, p, c: p.update(hostNetwork=True), f"{POD}.hostNetwork isn't published"),
        (lambda o, p, c: p.update(dnsPolicy="Default"), f"{POD}.dnsPolicy isn't published"),
        (lambda o, p, c: p["volumes"].append({"name": "x", "hostPath": {}}), f"{POD}.volumes[x] isn't published"),
        (lambda o, p, c: p["tolerations"].append({"operator": "Exists"}), f"{POD}.tolerations isn't as published"),
        (
            lambda o, p, c: p["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0].pop(
                "namespaceSelector"
            ),
            f"{POD}.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector is missing",
        ),
        (
            lambda o, p, c: o["spec"]["template"]["metadata"].update(
                annotations={"kubectl.kubernetes.io/restartedAt": "2026-11-21T10:00:00Z"}
            ),
            "spec.template.metadata.annotations isn't published",
        ),
        (lambda o, p, c: o["metadata"]["labels"].update(x="y"), "metadata.labels.x isn't published"),
        (
            lambda o, p, c: o["metadata"]["annotations"].update({"a.example/b": ""}),
            "metadata.annotations[a.example/b] isn't published",
        ),
        (
            lambda o, p, c: o["metadata"].update(finalizers=["a.example/b"]),
            "metadata.finalizers[a.example/b] isn't published",
        ),
        (lambda o, p, c: o["spec"].update(replicas=3), "spec.replicas isn't as published"),
        (lambda o, p, c: o["spec"].update(paused=True), "spec.paused isn't published"),
        (lambda o, p, c: o["spec"].update(replicas=True), "spec.replicas isn't as published"),
    ],
)
def test_an_edit_of_a_deployment_is_named(edit: Edit, words: str) -> None:
    published = of("Deployment", "preview")
    deployment = live(published)
    pod = deployment["spec"]["template"]["spec"]
    edit(deployment, pod, pod["containers"][0])
    assert list_differences(published, deployment) == [words]


LOOSENED = ["authorization.defaultAction isn't as published", "authorization.rules is missing"]


@pytest.mark.parametrize(
    ("kind", "name", "spec", "words"),
    [
        (
            "Service",
            "preview",
            {"clusterIP": "None", "clusterIPs": ["None"]},
            ["clusterIP isn't published", "clusterIPs isn't published"],
        ),
        ("Service", "preview", {"externalIPs": ["192.0.2.1"]}, ["externalIPs isn't published"]),
        ("Service", "preview", {"type": "NodePort"}, ["type isn't as published"]),
        ("NetworkPolicy", "deny-all", {"ingress": [{}]}, ["ingress isn't published"]),
        ("PodDisruptionBudget", "instances", {"maxUnavailable": 1}, ["maxUnavailable isn't as published"]),
        ("HTTPRoute", "preview", {"hostnames": ["x.example"]}, ["hostnames isn't as published"]),
        ("SecurityPolicy", "preview", {"authorization": {"defaultAction": "Allow"}}, LOOSENED),
        ("SecurityPolicy", "preview", {"cors": {"allowOrigins": ["*"]}}, ["cors isn't published"]),
        (
            "PersistentVolumeClaim",
            "loras",
            {"volumeAttributesClassName": "x"},
            ["volumeAttributesClassName isn't published"],
        ),
    ],
)
def test_an_edit_of_another_kind_is_named(kind: str, name: str, spec: Object, words: list[str]) -> None:
    published = of(kind, name)
    live_object = live(published)
    live_object["spec"] |= spec
    assert list_differences(published, live_object) == [f"spec.{message}" for message in words]


def test_a_label_that_a_pod_security_check_would_obey_is_named() -> None:
    published = of("Namespace", "t-film-house")
    live_object = live(published)
    live_object["metadata"]["labels"] |= {
        "pod-security.kubernetes.io/enforce": "privileged",
        "mesh.example/inject": "true",
    }
    assert list_differences(published, live_object) == [
        "metadata.labels[pod-security.kubernetes.io/enforce] isn't as published",
        "metadata.labels[mesh.example/inject] isn't published",
    ]


def test_only_the_first_differences_are_kept_and_all_of_them_are_printable() -> None:
    published = of("Service", "preview")
    live_object = live(published)
    live_object["metadata"]["labels"] |= {f"{number}\x1b[2J\n{'x' * 300}": "" for number in range(MAX_DIFFERENCES + 1)}
    messages = list_differences(published, live_object)
    assert len(messages) == MAX_DIFFERENCES
    assert all("\x1b" not in message and "\n" not in message and len(message) < 160 for message in messages)


def test_no_value_is_told() -> None:
    published = of("Deployment", "preview")
    deployment = live(published)
    deployment["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "HF_HOME", "value": "s3cret"}]
    assert "s3cret" not in json.dumps(list_differences(published, deployment))


DEPLOYMENTS = [manifest for manifest in OBJECTS if manifest["kind"] == "Deployment"]


def mappings(value: Any) -> Iterator[Object]:
    """Yield every mapping of a value."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from mappings(each)


SCALARS = st.one_of(st.text(max_size=5), st.integers(), st.booleans())
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(st.text(max_size=5), SCALARS, max_size=2))


@given(st.sampled_from(DEPLOYMENTS), st.data(), st.text(min_size=1, max_size=20), VALUES)
def test_a_field_that_is_added_anywhere_is_found(published: Object, data: st.DataObject, name: str, value: Any) -> None:
    live_object = live(published)
    places = [*mappings(live_object["spec"]), live_object["metadata"]["labels"], live_object["metadata"]["annotations"]]
    place = data.draw(st.sampled_from(places))
    if name not in place:
        place[name] = value
        assert len(find_differences(published, live_object)) == 1


@given(st.sampled_from(DEPLOYMENTS), st.data())
def test_a_published_field_that_is_removed_anywhere_is_found(published: Object, data: st.DataObject) -> None:
    live_object = copy.deepcopy(published)
    place = data.draw(st.sampled_from([mapping for mapping in mappings(live_object["spec"]) if mapping]))
    del place[data.draw(st.sampled_from(sorted(place)))]
    assert len(find_differences(published, live_object)) >= 1


ALIKE = st.sampled_from([True, False, None, 0, 1, 2, 0.0, 1.0, "", "1", "1000m", [], [1], [True], {}, {"a": 1}])


@given(st.sampled_from(OBJECTS), st.data(), st.booleans(), st.lists(ALIKE, min_size=1, max_size=4))
def test_identical_values_are_skipped_without_another_result(
    published: Object, data: st.DataObject, is_filled: bool, values: list[Any]
) -> None:
    """Values that are equal in Python and of different types, such as 1 and True, are among the edits."""
    changed_manifest = copy.deepcopy(published)
    live_object = live(published) if is_filled else copy.deepcopy(published)
    for value in values:
        for target in data.draw(st.sampled_from([[live_object], [changed_manifest], [live_object, changed_manifest]])):
            places = [place for place in mappings(target.get("spec", {})) if place]
            if places:
                place = data.draw(st.sampled_from(places))
                place[data.draw(st.sampled_from(sorted(place)))] = copy.deepcopy(value)
    result = find_differences(changed_manifest, live_object)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drift, "_has_same_types", lambda *_: False)
        assert find_differences(changed_manifest, live_object) == result


@given(st.lists(st.tuples(st.booleans(), st.text(alphabet="a/.*[\n\u00e9", max_size=4)), max_size=4))
def test_a_path_is_built_from_its_steps(steps: list[tuple[bool, str]]) -> None:
    path, display, pattern = drift._FieldPath(), "", ""
    for is_element, name in steps:
        text = name.replace("\n", "\\n")
        if is_element:
            path, display, pattern = path.element(name), f"{display}[{text}]", f"{pattern}/*"
        else:
            step = f".{text}" if set(name) <= {"a"} else f"[{text}]"
            child = f"{pattern}/{name}".removeprefix("/")
            assert path.child_pattern(name) == child
            path, display, pattern = path.child(name), f"{display}{step}".removeprefix("."), child
    assert (path.display, path.pattern) == (display, pattern)
    assert path.last_segment == pattern.rpartition("/")[2]
