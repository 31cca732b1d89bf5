"""`allot doctor`: what it says of a repository, and of a cluster behind an API server that answers by script."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.conftest import Allot, Result, checked, edit, own
from tests.diagnosis.healthy import Bed
from tests.support.doctor_output import lines
from tests.support.faults import Request, Server, serving
from tests.support.live_defaults import live
from tests.support.published import Place, files_of, git

from allotment.adapters.cluster.watching import PAGE_OBJECTS
from allotment.diagnosis import cluster_snapshot
from allotment.diagnosis.edits import MAX_EDITS
from allotment.diagnosis.login import DiscoveryDocument, DiscoveryResponse
from allotment.manifests import names
from allotment.manifests.yaml_text import load
from allotment.observed.decoding import HUB_OBJECT_KINDS, WHOLE_OBJECT_KINDS
from allotment.services.reporter import edit_detection, login_check

Object = dict[str, Any]
ISSUER = "https://id.northlight.example"  # of the sample's clusters


class Answers:
    """An API server that has what a bed has, two objects a page."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.status: dict[str, int] = {}
        self.whole: dict[str, list[Object]] = {}  # by resource: objects of tenants' namespaces

    def __call__(self, request: Request) -> None:
        response = self.status.get(request.request_path) or self.body(request)
        if isinstance(response, int):
            request.whole(b"{}", response)
        else:
            request.whole(json.dumps(response).encode())

    def body(self, request: Request) -> object:
        path = request.request_path
        if path == "/version":
            return self.bed.version
        if path == "/apis":
            versions = [{"groupVersion": group_version} for group_version in self.bed.apis]
            return {"groups": [{"versions": [version]} for version in versions]}
        if (api := path.removeprefix("/apis/")) in self.bed.apis:
            return {"resources": [{"name": resource} for resource in self.bed.apis[api]]}
        labels = request.query.get("labelSelector", "")
        if path in (resource_kind.path for resource_kind in cluster_snapshot.WHOLE_OBJECT_QUERIES) and not labels:
            karpenter = [each for query, each in self.bed.objects.items() if query.path == path and not query.selector]
            return self.page(request, [*chain(*karpenter), *self.whole.get(path.rpartition("/")[2], [])], "x")
        kind = next(
            (
                resource_kind
                for resource_kind in cluster_snapshot.ALL_QUERIES
                if (resource_kind.path, resource_kind.selector) == (path, labels)
            ),
            None,
        )
        if kind is None:
            assert path not in (resource_kind.path for resource_kind in cluster_snapshot.ALL_QUERIES), (
                f"{path} with labels {labels}"
            )
            return 404
        objects = self.bed.objects[kind]
        if kind.name:
            return objects[0] if objects else 404
        return self.page(request, objects)

    def page(self, request: Request, objects: list[Object], version: str = "") -> Object:
        assert request.query["limit"] == str(PAGE_OBJECTS)
        at = int(request.query.get("continue", "0"))
        more = str(at + 2) if at + 2 < len(objects) else ""
        return {"metadata": {"continue": more, "resourceVersion": version}, "items": objects[at : at + 2]}


@pytest.fixture
def answers() -> Answers:
    return Answers(Bed())


@pytest.fixture(autouse=True)
def provider(monkeypatch: pytest.MonkeyPatch) -> list[DiscoveryResponse]:
    """Return the response of the identity provider, as the sample declares it, so that a test can replace it."""
    responses = [
        DiscoveryResponse(
            DiscoveryDocument(
                issuer=ISSUER,
                authorization_endpoint=f"{ISSUER}/authorize",
                token_endpoint=f"{ISSUER}/token",
                end_session_endpoint=f"{ISSUER}/logout",
                jwks_uri=f"{ISSUER}/.well-known/jwks.json",
            )
        )
    ]
    monkeypatch.setattr(login_check, "fetch_discovery_document", lambda issuer, now: responses[0])
    return responses


@pytest.fixture
def server(answers: Answers) -> Iterator[Server]:
    with serving(otherwise=answers) as api_server:
        yield api_server


@pytest.fixture
def connection_options(server: Server, tmp_path: Path) -> list[object]:
    """Return the options that lead to the server."""
    kubeconfig = tmp_path / "kubeconfig"
    text = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {}}],
    }
    kubeconfig.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **text}))
    return ["--kubeconfig", kubeconfig]


def test_a_cluster_that_is_as_declared(
    sample: Path, allot: Allot, connection_options: list[object], server: Server
) -> None:
    result = allot("doctor", "--repo", sample, "--cluster", "eu-1", *connection_options)
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[0].split() == "RESULT TOPIC OBJECT WHAT WHAT TO DO".split()
    assert result.out.splitlines()[-1] == f"eu-1: 1 skipped, {len(Bed().diagnosed()) + 1} ok"
    words = "objects: this folder is not in a Git repository, so the published manifests are not available"
    assert words in lines_of(allot("doctor", "--repo", sample, "--cluster", "eu-1", *connection_options, "-o", "json"))
    assert {request.command for request in server.requests} == {"GET"}
    assert not any("/secrets" in request.request_path for request in server.requests)
    assert allot("doctor", "--repo", sample, "--cluster", "eu-1", *connection_options, "-q").out == ""


def test_problems_come_first_with_what_to_do(
    sample: Path, allot: Allot, connection_options: list[object], answers: Answers
) -> None:
    answers.bed.node("l4-ts4-2")["spec"]["taints"] = []
    answers.bed.node("l4-ts4-2")["spec"]["unschedulable"] = True
    answers.status[cluster_snapshot.APPLICATIONS.path] = 403
    words = "doctor", "--repo", sample, "--cluster", "eu-1", *connection_options
    result = allot(*words)
    assert result.code == 1
    assert [line.split()[:2] for line in result.out.splitlines()[1:5]] == [
        ["error", "nodes"],
        ["error", "argocd"],
        ["error", "add-ons"],
        ["warning", "nodes"],
    ]
    assert result.out.splitlines()[-1].startswith("eu-1: 3 errors, 1 warning, ")
    quiet = allot(*words, "-q")
    assert (quiet.code, len(quiet.out.splitlines())) == (1, 5)
    document = checked("doctor", allot(*words, "-o", "json").out)
    assert (document["cluster"], document["errors"], document["warnings"], document["skipped"]) == ("eu-1", 3, 1, 1)
    assert document["findings"][0] == {
        "severity": "error",
        "topic": "nodes",
        "object": "Node l4-ts4-2",
        "message": "lacks the taint nvidia.com/gpu:NoSchedule, so pods without GPUs use the CPU and memory of units",
        "advice": "kubectl taint node l4-ts4-2 nvidia.com/gpu=true:NoSchedule",
    }


def test_the_login_is_compared_with_its_provider(
    sample: Path, allot: Allot, connection_options: list[object], provider: list[DiscoveryResponse]
) -> None:
    words = "doctor", "--repo", sample, "--cluster", "eu-1", *connection_options, "-o", "json"
    document = provider[0].document
    assert document is not None
    provider[0] = DiscoveryResponse(msgspec.structs.replace(document, jwks_uri=f"{ISSUER}/keys"))
    result = allot(*words)
    assert result.code == 1
    assert {"topic": "login", "object": "spec.oidc.jwksURI"}.items() <= json.loads(result.out)["findings"][0].items()
    provider[0] = DiscoveryResponse(failure="too slow")
    assert lines_of(allot(*words), "login") == [
        f"spec.oidc: can't be compared with {ISSUER}/.well-known/openid-configuration: too slow"
    ]


def test_groups_count_in_the_clusters_of_their_tenant(
    sample: Path, allot: Allot, connection_options: list[object]
) -> None:
    edit(sample, "clusters/eu-1/cluster.yaml", "    scopes:\n      - groups\n", "")
    words = "doctor", "--repo", sample, "--cluster", "eu-1", *connection_options, "-o", "json"
    (text,) = lines_of(allot(*words), "login")
    assert text.startswith(
        "spec.oidc.scopes: lacks groups, but the Members of 5 tenants name groups (film-house first), and"
    )
    edit(sample, "tenants/film-house/members.yaml", "  groups:\n", "  groups: 7\n  other:\n")
    (text,) = lines_of(allot(*words), "login")
    assert "4 tenants name groups (ml-orbit first)" in text


def test_doctor_escapes_control_characters_of_a_cluster(
    sample: Path, allot: Allot, connection_options: list[object], answers: Answers
) -> None:
    application = answers.bed.find_object(cluster_snapshot.APPLICATIONS, "allotment--root--eu-1")
    application["status"]["conditions"] = [{"type": "SyncError", "message": "\x1b[2J\nok"}]
    result = allot("doctor", "--repo", sample, "--cluster", "eu-1", *connection_options)
    assert "SyncError: \\x1b[2J\\nok" in result.out


def test_a_server_without_words_is_no_cluster_without_faults(
    sample: Path, allot: Allot, connection_options: list[object], answers: Answers, server: Server
) -> None:
    answers.status["/version"] = 401
    result = allot("doctor", "--repo", sample, "--cluster", "eu-1", *connection_options)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"allot: {server.url} doesn't know these credentials: it answers 401\n"
    answers.status["/version"] = 403
    answers.status["/apis"] = 403
    result = allot("doctor", "--repo", sample, "--cluster", "eu-1", *connection_options)
    assert result.code == 1
    assert result.out.splitlines()[-1].startswith("eu-1: 1 error, 2 skipped, ")
    assert "can't be checked: the permission to get /apis and all paths below is missing" in result.out


def test_a_cluster_that_is_away(sample: Path, allot: Allot, tmp_path: Path, connection_options: list[object]) -> None:
    kubeconfig = Path(str(connection_options[1]))
    kubeconfig.write_text(kubeconfig.read_text().replace("http://127.0.0.1:", "http://127.0.0.1:1"), encoding="utf-8")
    result = allot("doctor", "--repo", sample, "--cluster", "eu-1", *connection_options)
    assert (result.code, result.out) == (2, "")
    assert "doesn't answer" in result.err


def test_a_commits_declarations(allot: Allot, connection_options: list[object], small: Place) -> None:
    edit(small.root, "clusters/eu-1/cluster.yaml", "storageClassName: rook-cephfs", "storageClassName: other")
    words = "doctor", "--repo", small.root, "--cluster", "eu-1", *connection_options
    assert "StorageClass other" in allot(*words).out
    assert "StorageClass other" not in allot(*words, "--commit", "HEAD").out


@pytest.mark.parametrize(
    ("words", "expected_error"),
    [
        (
            ("--context", "x"),
            "Error: these options need --cluster: without it, doctor checks the folder of the repository alone\n",
        ),
        (("--cluster", "eu-2"), "allot: no cluster is named 'eu-2'; did you mean 'eu-1'?\n"),
    ],
)
def test_a_command_that_is_wrong(words: tuple[str, ...], expected_error: str, sample: Path, allot: Allot) -> None:
    result = allot("doctor", "--repo", sample, *words)
    assert (result.code, result.out) == (2, "")
    assert result.err.endswith(expected_error)


NO_PUBLISHER = "warning spec.publisher.publicKey: isn't declared: anyone who can push to rendered/* can change the published manifests"
NO_REPORTER = "warning spec.reporter.publicKey: isn't declared for eu-1, us-1: anyone who can push to status/* can forge the status and the usage of tenants"
NO_CI = "warning CI: has no .github/workflows/allot.yaml: no CI here validates and publishes with a pinned program"
PROTECTION = "skipped branch protection: Git doesn't show push permissions: docs/operate/repository.md lists the rules for the forge"


def test_a_folder_that_nothing_is_published_from(sample: Path, allot: Allot) -> None:
    findings = lines(allot, sample)
    assert findings == [
        "warning declarations: allot validate finds 1 warning",
        "warning placeholders: 2 values of the sample have not been replaced",
        NO_CI,
        NO_PUBLISHER,
        PROTECTION,
        "skipped rendered branches: this repository has no remote named origin for these branches",
        "skipped closed months: this repository has no remote named origin for the ledger",
    ]
    edit(sample, "tenants/solo-ada/instances/webui.yaml", "l4-quarter", "l4-quater")
    assert "error declarations: allot validate finds 1 error" in lines(allot, sample)
    assert allot("doctor", "--repo", sample).code == 1


def test_a_file_of_code_owners_follows_the_members(sample: Path, allot: Allot) -> None:
    owners = sample / ".github/CODEOWNERS"
    owners.parent.mkdir(parents=True)
    owners.write_text(allot("ownership", "codeowners", "--repo", sample).out, encoding="utf-8")
    assert not any("code owners" in line for line in lines(allot, sample))
    edit(sample, "tenants/solo-ada/members.yaml", "login: ada-k", "login: ada-l")
    assert (
        "warning code owners: .github/CODEOWNERS differs from the Ownership and the members of the tenants, so the forge asks other"
        " people for reviews"
    ) in lines(allot, sample)
    assert "allot ownership codeowners > .github/CODEOWNERS" in allot("doctor", "--repo", sample).out
    owners.write_text("* @pat\n", encoding="utf-8")
    assert not any("code owners" in line for line in lines(allot, sample)), "a person wrote it"


def test_pinned_programs_are_looked_for_where_the_workflow_names_them(sample: Path, allot: Allot) -> None:
    workflow = sample / ".github/workflows/allot.yaml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text("run: pip install --requirement .allot/requirements.lock\n")
    own(sample)
    assert (
        "warning CI: has no .allot/requirements.lock: no CI here validates and publishes with a pinned program"
        in lines(allot, sample)
    )
    workflow.write_text("container: registry.acme.dev/allotment@sha256:…\n")
    assert "ok CI: the workflow and the files that pin the program exist" in lines(allot, sample)


def test_no_link_of_a_checkout_is_followed_to_its_ci(sample: Path, allot: Allot, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "allot.yaml").write_text("container: registry.acme.dev/allotment@sha256:…\n")
    github = sample / ".github"
    github.mkdir()
    (github / "workflows").symlink_to(outside)
    assert NO_CI in lines(allot, sample)
    (github / "workflows").unlink()
    (github / "workflows").mkdir()
    workflow = github / "workflows/allot.yaml"
    workflow.symlink_to("/dev/zero")
    assert NO_CI in lines(allot, sample)
    workflow.unlink()
    os.mkfifo(workflow)
    assert NO_CI in lines(allot, sample)
    workflow.unlink()
    workflow.write_text("run: pip install --requirement .allot/requirements.lock\n")
    (sample / ".allot").mkdir()
    (sample / ".allot/requirements.lock").symlink_to(outside / "allot.yaml")
    assert (
        "warning CI: has no .allot/requirements.lock: no CI here validates and publishes with a pinned program"
        in lines(allot, sample)
    )


def test_of_a_large_workflow_only_the_beginning_is_read(sample: Path, allot: Allot) -> None:
    workflow = sample / ".github/workflows/allot.yaml"
    workflow.parent.mkdir(parents=True)
    with workflow.open("w") as file:
        file.truncate(1 << 40)
    assert "ok CI: the workflow and the files that pin the program exist" in lines(allot, sample)


def test_a_repository_that_is_published_and_not_reported(published: Place, allot: Allot) -> None:
    findings = lines(allot, published.root)
    assert [finding for finding in findings if "rendered/" in finding and finding != NO_PUBLISHER] == [
        "ok rendered/eu-1: is published",
        "ok rendered/us-1: is published",
    ]
    assert [finding for finding in findings if "status/" in finding] == [
        "error status/eu-1: no reporter has reported it yet",
        "error status/us-1: no reporter has reported it yet",
        NO_REPORTER,
    ]
    assert allot("doctor", "--repo", published.root).code == 1


def test_doctor_warns_of_unpublished_merges(published: Place, allot: Allot) -> None:
    edit(published.root, "tenants/solo-ada/instances/webui.yaml", "l4-quarter", "l4-quarter # mine")
    published.merge()
    findings = lines(allot, published.root)
    assert "warning rendered branches: 1 change is merged and not published" in findings
    commit = git(published.remote, "rev-parse", "refs/allotment/source")[:12]
    assert f"warning publishing: published is {commit}, main is 1 commit ahead: not published yet" in findings


def test_a_lost_ref_is_an_error_and_the_advice_is_not_to_publish(published: Place, allot: Allot) -> None:
    git(published.root, "push", "-q", "origin", "--delete", "refs/allotment/published/us-1")
    findings = [line for line in lines(allot, published.root) if "branches" in line or "rendered/" in line]
    assert [line for line in findings if "refs/allotment/published/us-1 is gone" in line and line.startswith("error")]
    assert not [line for line in findings if "nothing has been published" in line]
    assert "allot publish --adopt" in allot("doctor", "--repo", published.root).out


def test_the_brake_that_stops_publishing_is_an_error(published: Place, allot: Allot) -> None:
    instances = sorted(path for path in published.root.glob("tenants/*/instances/*.yaml"))
    for path in instances[:9]:
        path.unlink()
    published.merge()
    assert published.publish().code == 1
    commit = git(published.remote, "rev-parse", "refs/allotment/source")[:12]
    findings = lines(allot, published.root)
    stopped = "main is 1 commit ahead: the brake stopped it (9 of 17 instances)"
    assert f"error publishing: has stopped: published is {commit}, {stopped}" in findings
    assert "warning rendered branches: 9 changes are merged and not published" in findings


def test_a_rewound_branch_and_an_invalid_platform_are_errors(published: Place, allot: Allot) -> None:
    first = git(published.root, "rev-parse", "HEAD")
    edit(published.root, "tenants/solo-ada/instances/webui.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    published.merged()
    git(published.root, "reset", "-q", "--hard", first)
    git(published.root, "push", "-q", "--force", "origin", "main")
    assert [
        line for line in lines(allot, published.root) if "error publishing: has stopped" in line and "rewound" in line
    ]
    git(published.root, "reset", "-q", "--hard", git(published.remote, "rev-parse", "refs/allotment/source"))
    edit(published.root, "platform/platform.yaml", "maxDeletedPercent: 30", "maxDeletedPercent: 300")
    published.merge()
    (error_line,) = [line for line in lines(allot, published.root) if line.startswith("error publishing")]
    assert "main is 1 commit ahead: the declarations of the platform are invalid" in error_line


def test_a_rendered_branch_that_somebody_else_changed_or_deleted_is_named(published: Place, allot: Allot) -> None:
    foreign = git(published.root, "rev-parse", "HEAD")
    git(published.remote, "update-ref", "refs/heads/rendered/eu-1", foreign)
    git(published.remote, "update-ref", "-d", "refs/heads/rendered/us-1")
    assert {
        f"error rendered/eu-1: has the commit {foreign[:12]}, which Allotment didn't write",
        "error rendered/us-1: is gone: a push was interrupted, or somebody deleted the branch",
    } <= {*lines(allot, published.root)}


def test_a_repository_that_was_never_published(begin: object, allot: Allot) -> None:
    assert callable(begin)
    place = begin("never", lambda place: None)
    findings = lines(allot, place.root)
    assert [finding for finding in findings if "rendered/" in finding and finding != NO_PUBLISHER] == [
        "error rendered/eu-1: nothing has been published yet",
        "error rendered/us-1: nothing has been published yet",
    ]


def lines_of(result: Result, topic: str = "edits") -> list[str]:
    """Return the findings about a topic, as `object: message`."""
    findings = checked("doctor", result.out)["findings"]
    return [f"{finding['object']}: {finding['message']}" for finding in findings if finding["topic"] == topic]


MANIFESTS: dict[str, list[Object]] = {}  # of each published commit


@pytest.fixture
def exact(published: Place, answers: Answers, monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Return a cluster that has exactly what is published, for so long that Argo CD must have applied it."""
    monkeypatch.setattr(edit_detection, "UNSYNCED_SECONDS", 0)
    tip = git(published.remote, "rev-parse", "refs/heads/rendered/eu-1")
    resources = {
        kind: path.resource
        for path, watched in cluster_snapshot.WHOLE_OBJECT_QUERIES.items()
        for kind, compared in (*WHOLE_OBJECT_KINDS.items(), *HUB_OBJECT_KINDS.items())
        if compared is watched
    }
    if tip not in MANIFESTS:
        files = sorted(files_of(published.remote, tip).items(), key=lambda item: (item[0][:8] != "tenants/", item[0]))
        MANIFESTS[tip] = [manifest for _, text in files for manifest in load(text.encode())]
    for manifest in MANIFESTS[tip]:
        if manifest["kind"] in resources:
            live_object = live(manifest)
            live_object["metadata"]["uid"] = (
                f"{manifest['kind']}-{len(answers.whole.get(resources[manifest['kind']], []))}"
            )
            answers.whole.setdefault(resources[manifest["kind"]], []).append(live_object)
    tenants = {namespace["metadata"]["name"].removeprefix("t-") for namespace in answers.whole["namespaces"]}
    applications = answers.bed.objects[cluster_snapshot.APPLICATIONS]
    applications[:] = [
        application for application in applications if not application["metadata"]["name"].startswith("solo-ada--")
    ]
    for tenant in tenants:
        for part in ("storage", "compute"):
            labels = {names.CLUSTER: "eu-1", names.TENANT: tenant}
            status = {"sync": {"status": "Synced", "revision": tip}, "health": {"status": "Healthy"}}
            applications.append({"metadata": {"name": f"{tenant}--eu-1--{part}", "labels": labels}, "status": status})
    return answers


def test_live_objects_are_as_published(
    published: Place, allot: Allot, connection_options: list[object], exact: Answers
) -> None:
    words = "doctor", "--repo", published.root, "--cluster", "eu-1", *connection_options
    count = sum(len(objects) for objects in exact.whole.values())
    assert lines_of(allot(*words, "-o", "json")) == [f"objects: {count} objects match the published manifests"]
    git(published.root, "remote", "remove", "origin")
    skipped = "this repository has no remote named origin for the rendered branches"
    assert lines_of(allot(*words, "-o", "json")) == [f"objects: {skipped}"]


def test_edits_and_foreign_objects_are_named(
    published: Place, allot: Allot, connection_options: list[object], exact: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edit_detection, "UNSYNCED_SECONDS", math.inf)
    deployment, policy = exact.whole["deployments"][0], exact.whole["networkpolicies"][0]
    name, space = deployment["metadata"]["name"], deployment["metadata"]["namespace"]
    deployment["spec"]["template"]["spec"]["containers"].append(
        {"name": "miner", "image": "x", "env": [{"value": "s3cret"}]}
    )
    policy["spec"]["ingress"] = [{}]
    foreign = {"name": "open\x1b[2J", "namespace": space, "uid": "x", "creationTimestamp": "2020-01-01T00:00:00Z"}
    for resource in ("securitypolicies", "persistentvolumeclaims"):
        exact.whole.setdefault(resource, []).append({"metadata": {**foreign, "uid": resource}, "spec": {}})
    stray = {**foreign, "namespace": "kube-system", "uid": "y"}
    exact.whole["networkpolicies"].append({"metadata": stray, "spec": {}})
    result = allot("doctor", "--repo", published.root, "--cluster", "eu-1", *connection_options, "-o", "json")
    assert result.code == 1
    assert "s3cret" not in result.out
    edits = [finding for finding in checked("doctor", result.out)["findings"] if finding["topic"] == "edits"]
    miner = "was edited by hand: spec.template.spec.containers[miner] isn't published"
    assert [(finding["severity"], finding["object"], finding["message"], finding["advice"]) for finding in edits] == [
        (
            "error",
            f"SecurityPolicy {space}/open\\x1b[2J",
            "isn't published",
            f"kubectl -n {space} delete securitypolicy 'open\\x1b[2J'",
        ),
        (
            "warning",
            f"Deployment {space}/{name}",
            miner,
            f"kubectl -n {space} edit deployment {name}",
        ),
        (
            "warning",
            f"PersistentVolumeClaim {space}/open\\x1b[2J",
            "isn't published",
            f"copy its data, then kubectl -n {space} delete persistentvolumeclaim 'open\\x1b[2J'",
        ),
    ], "the policy was published just now, and Argo CD may not have applied it yet"


def test_an_edit_of_what_isolates_a_tenant_is_an_error(
    published: Place, allot: Allot, connection_options: list[object], exact: Answers
) -> None:
    for policy in exact.whole["networkpolicies"]:
        policy["spec"]["ingress"] = [{}]
    result = allot("doctor", "--repo", published.root, "--cluster", "eu-1", *connection_options, "-o", "json")
    edits = [finding for finding in checked("doctor", result.out)["findings"] if finding["topic"] == "edits"]
    changed = len(exact.whole["networkpolicies"])
    assert {finding["severity"] for finding in edits[:changed]} == {"error"}
    assert changed <= MAX_EDITS


def test_nothing_is_compared_with_a_publish_that_argo_cd_has_not_applied(
    published: Place, allot: Allot, connection_options: list[object], exact: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edit_detection, "UNSYNCED_SECONDS", math.inf)
    for live_object in exact.whole["deployments"]:
        live_object["spec"]["replicas"] = 7
    for live_object in exact.bed.objects[cluster_snapshot.APPLICATIONS]:
        live_object["status"]["sync"]["status"] = "OutOfSync"
    (line,) = lines_of(
        allot("doctor", "--repo", published.root, "--cluster", "eu-1", *connection_options, "-o", "json")
    )
    assert (
        "can't be compared in full: Argo CD hasn't applied the last publish, or its Applications can't be read" in line
    )


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_kind_that_can_not_be_read_hides_no_other(
    status: int, published: Place, allot: Allot, connection_options: list[object], exact: Answers
) -> None:
    kind = next(
        resource_kind
        for resource_kind in cluster_snapshot.WHOLE_OBJECT_QUERIES
        if resource_kind.resource == "securitypolicies"
    )
    exact.status[kind.path] = status
    exact.whole["deployments"][0]["spec"]["replicas"] = 7
    lines = lines_of(allot("doctor", "--repo", published.root, "--cluster", "eu-1", *connection_options, "-o", "json"))
    assert lines[-1 if status == 404 else 1].endswith("was edited by hand: spec.replicas isn't as published")
    right = "securitypolicies.gateway.envoyproxy.io: can't be checked: the permission for list of securitypolicies.gateway.envoyproxy.io is missing"
    assert (right in lines) == (status == 403), "a cluster without the CRD has nothing of it"
    assert len(lines) == (1 if status == 404 else 2)


def test_a_remote_that_is_away_is_an_error(
    published: Place, allot: Allot, connection_options: list[object], exact: Answers
) -> None:
    published.remote.rename(published.remote.with_name("away.git"))
    result = allot("doctor", "--repo", published.root, "--cluster", "eu-1", *connection_options, "-o", "json")
    (line,) = lines_of(result)
    assert line.startswith("objects: can't be compared: ")
    assert result.code == 1


@pytest.mark.parametrize(
    "wrong", [5, "x", [], {"metadata": 5}, {"metadata": {"name": 5}}, {"metadata": {}, "spec": []}]
)
def test_a_wrong_shape_is_an_error(
    wrong: Any, published: Place, allot: Allot, connection_options: list[object], exact: Answers
) -> None:
    exact.whole["services"].append(wrong)
    lines = lines_of(allot("doctor", "--repo", published.root, "--cluster", "eu-1", *connection_options, "-o", "json"))
    assert lines == ["services: can't be checked: its answer can't be read: 1 object of another shape"]


def test_an_edit_of_the_platform_is_named_once_argo_cd_has_applied_the_publish(
    published: Place, allot: Allot, connection_options: list[object], exact: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edit_detection, "UNSYNCED_SECONDS", math.inf)
    policies = {each["metadata"]["name"]: each for each in exact.whole["validatingadmissionpolicies"]}
    policies["allotment-tenant-pods"]["spec"]["matchConditions"] = [{"name": "x", "expression": "false"}]
    words = "doctor", "--repo", published.root, "--cluster", "eu-1", *connection_options, "-o", "json"
    assert not [line for line in lines_of(allot(*words)) if "allotment-tenant-pods" in line], (
        "it was published just now"
    )
    status = {"sync": {"status": "Synced", "revision": git(published.remote, "rev-parse", "refs/heads/rendered/eu-1")}}
    applications = exact.bed.objects[cluster_snapshot.APPLICATIONS]
    applications[:] = [each for each in applications if names.TENANT in each["metadata"]["labels"]]
    labels = {names.CLUSTER: "eu-1"}
    applications.append({"metadata": {"name": "allotment--platform--eu-1", "labels": labels}, "status": status})
    result = allot(*words)
    assert result.code == 1
    (finding,) = [each for each in checked("doctor", result.out)["findings"] if each["topic"] == "edits"]
    assert (finding["severity"], finding["object"]) == ("error", "ValidatingAdmissionPolicy allotment-tenant-pods")
    assert finding["message"] == "was edited by hand: spec.matchConditions isn't published"
    assert finding["advice"] == "kubectl edit validatingadmissionpolicy allotment-tenant-pods"
