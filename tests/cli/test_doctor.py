"""`allot doctor`: what it says of a repository, and of a cluster behind an API server that answers by script."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.conftest import Allot, checked, edit, own
from tests.diagnosis.healthy import Bed
from tests.faults import Request, Server, serving
from tests.published import Place, git

from allotment.adapters.cluster.watching import PAGE_OBJECTS
from allotment.diagnosis import looked


class Answers:
    """An API server that has what a bed has, two objects a page."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.status: dict[str, int] = {}

    def __call__(self, request: Request) -> None:
        found = self.status.get(request.asked) or self.body(request)
        if isinstance(found, int):
            request.whole(b"{}", found)
        else:
            request.whole(json.dumps(found).encode())

    def body(self, request: Request) -> object:
        asked = request.asked
        if asked == "/version":
            return self.bed.version
        if asked == "/apis":
            versions = [{"groupVersion": one} for one in self.bed.apis]
            return {"groups": [{"versions": [one]} for one in versions]}
        if (api := asked.removeprefix("/apis/")) in self.bed.apis:
            return {"resources": [{"name": one} for one in self.bed.apis[api]]}
        kind = next((one for one in looked.ALL if one.path == asked), None)
        if kind is None:
            return 404
        assert request.query.get("labelSelector", "") == kind.selector
        objects = self.bed.objects[kind]
        if kind.name:
            return objects[0] if objects else 404
        assert request.query["limit"] == str(PAGE_OBJECTS)
        at = int(request.query.get("continue", "0"))
        more = str(at + 2) if at + 2 < len(objects) else ""
        return {"metadata": {"continue": more}, "items": objects[at : at + 2]}


@pytest.fixture
def answers() -> Answers:
    return Answers(Bed())


@pytest.fixture
def server(answers: Answers) -> Iterator[Server]:
    with serving(otherwise=answers) as found:
        yield found


@pytest.fixture
def there(server: Server, tmp_path: Path) -> list[object]:
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


def test_a_cluster_that_is_as_declared(sample: Path, allot: Allot, there: list[object], server: Server) -> None:
    found = allot("doctor", "--repo", sample, "--cluster", "eu-1", *there)
    assert (found.code, found.err) == (0, "")
    assert found.out.splitlines()[0].split() == "RESULT TOPIC OBJECT WHAT WHAT TO DO".split()
    assert found.out.splitlines()[-1] == f"eu-1: {len(Bed().diagnosed())} ok"
    assert {one.command for one in server.requests} == {"GET"}
    assert not any("secrets" in one.asked for one in server.requests)
    assert allot("doctor", "--repo", sample, "--cluster", "eu-1", *there, "-q").out == ""


def test_problems_come_first_with_what_to_do(sample: Path, allot: Allot, there: list[object], answers: Answers) -> None:
    answers.bed.node("l4-ts4-2")["spec"]["taints"] = []
    answers.bed.node("l4-ts4-2")["spec"]["unschedulable"] = True
    answers.status[looked.APPLICATIONS.path] = 403
    words = "doctor", "--repo", sample, "--cluster", "eu-1", *there
    found = allot(*words)
    assert found.code == 1
    assert [line.split()[:2] for line in found.out.splitlines()[1:5]] == [
        ["error", "nodes"],
        ["error", "argocd"],
        ["error", "add-ons"],
        ["warning", "nodes"],
    ]
    assert found.out.splitlines()[-1].startswith("eu-1: 3 errors, 1 warning, ")
    quiet = allot(*words, "-q")
    assert (quiet.code, len(quiet.out.splitlines())) == (1, 5)
    said = checked("doctor", allot(*words, "-o", "json").out)
    assert (said["cluster"], said["errors"], said["warnings"], said["skipped"]) == ("eu-1", 3, 1, 0)
    assert said["findings"][0] == {
        "severity": "error",
        "topic": "nodes",
        "object": "Node l4-ts4-2",
        "message": "lacks the taint nvidia.com/gpu:NoSchedule, so pods that use no GPU take the room of units",
        "advice": "kubectl taint node l4-ts4-2 nvidia.com/gpu=true:NoSchedule",
    }


def test_what_a_cluster_says_does_nothing_to_a_terminal(
    sample: Path, allot: Allot, there: list[object], answers: Answers
) -> None:
    application = answers.bed.one(looked.APPLICATIONS, "allotment--root--eu-1")
    application["status"]["conditions"] = [{"type": "SyncError", "message": "\x1b[2J\nok"}]
    found = allot("doctor", "--repo", sample, "--cluster", "eu-1", *there)
    assert "SyncError: \\x1b[2J\\nok" in found.out


def test_a_server_without_words_is_no_cluster_without_faults(
    sample: Path, allot: Allot, there: list[object], answers: Answers, server: Server
) -> None:
    answers.status["/version"] = 401
    found = allot("doctor", "--repo", sample, "--cluster", "eu-1", *there)
    assert (found.code, found.out) == (2, "")
    assert found.err == f"allot: {server.url} doesn't know these credentials: it answers 401\n"
    answers.status["/version"] = 403
    answers.status["/apis"] = 403
    found = allot("doctor", "--repo", sample, "--cluster", "eu-1", *there)
    assert found.code == 1
    assert found.out.splitlines()[-1].startswith("eu-1: 1 error, 1 skipped, ")
    assert "can't be checked: that needs get of /apis" in found.out


def test_a_cluster_that_is_away(sample: Path, allot: Allot, tmp_path: Path, there: list[object]) -> None:
    kubeconfig = Path(str(there[1]))
    kubeconfig.write_text(kubeconfig.read_text().replace("http://127.0.0.1:", "http://127.0.0.1:1"), encoding="utf-8")
    found = allot("doctor", "--repo", sample, "--cluster", "eu-1", *there)
    assert (found.code, found.out) == (2, "")
    assert "doesn't answer" in found.err


def test_a_commits_declarations(allot: Allot, there: list[object], small: Place) -> None:
    edit(small.root, "clusters/eu-1/cluster.yaml", "storageClassName: rook-cephfs", "storageClassName: other")
    words = "doctor", "--repo", small.root, "--cluster", "eu-1", *there
    assert "StorageClass other" in allot(*words).out
    assert "StorageClass other" not in allot(*words, "--commit", "HEAD").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--context", "x"), "Error: without --cluster no cluster is looked at, and the repository as it is\n"),
        (("--cluster", "eu-2"), "allot: no cluster is named 'eu-2'; did you mean 'eu-1'?\n"),
    ],
)
def test_a_command_that_is_wrong(words: tuple[str, ...], said: str, sample: Path, allot: Allot) -> None:
    found = allot("doctor", "--repo", sample, *words)
    assert (found.code, found.out) == (2, "")
    assert found.err.endswith(said)


def lines(allot: Allot, root: Path) -> list[str]:
    """Return the findings about a repository, as lines."""
    said = checked("doctor", allot("doctor", "--repo", root, "-o", "json").out)
    assert said["cluster"] is None
    return [f"{one['severity']} {one['object']}: {one['message']}" for one in said["findings"]]


NO_PUBLISHER = "warning spec.publisher.publicKey: isn't declared: whoever may push to rendered/* says what is published"
NO_REPORTER = (
    "warning spec.reporter.publicKey: isn't declared of eu-1, us-1: whoever may push to status/* says what runs there"
)
NO_CI = "warning CI: has no .github/workflows/allot.yaml: nothing here checks and publishes by a pinned program"
PROTECTION = (
    "skipped branch protection: Git doesn't say who may push where: docs/operate/repository.md has the forge's rules"
)


def test_a_folder_that_nothing_is_published_from(sample: Path, allot: Allot) -> None:
    found = lines(allot, sample)
    assert found == [
        "warning declarations: allot validate finds 1 warning",
        "warning placeholders: 2 values of the sample are still there",
        NO_CI,
        NO_PUBLISHER,
        PROTECTION,
        "skipped rendered branches: this repository has no remote named origin, which they would lie in",
    ]
    edit(sample, "tenants/solo-ada/instances/webui.yaml", "l4-quarter", "l4-quater")
    assert "error declarations: allot validate finds 1 error" in lines(allot, sample)
    assert allot("doctor", "--repo", sample).code == 1


def test_pinned_programs_are_looked_for_where_the_workflow_names_them(sample: Path, allot: Allot) -> None:
    workflow = sample / ".github/workflows/allot.yaml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text("run: pip install --requirement .allot/requirements.lock\n")
    own(sample)
    assert (
        "warning CI: has no .allot/requirements.lock: nothing here checks and publishes by a pinned program"
        in lines(allot, sample)
    )
    workflow.write_text("container: registry.acme.dev/allotment@sha256:…\n")
    assert "ok CI: its workflow, and the files that pin its program, are there" in lines(allot, sample)


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
        "warning CI: has no .allot/requirements.lock: nothing here checks and publishes by a pinned program"
        in lines(allot, sample)
    )


def test_of_a_large_workflow_only_the_beginning_is_read(sample: Path, allot: Allot) -> None:
    workflow = sample / ".github/workflows/allot.yaml"
    workflow.parent.mkdir(parents=True)
    with workflow.open("w") as file:
        file.truncate(1 << 40)
    assert "ok CI: its workflow, and the files that pin its program, are there" in lines(allot, sample)


def test_a_repository_that_is_published_and_not_reported(published: Place, allot: Allot) -> None:
    found = lines(allot, published.root)
    assert [one for one in found if "rendered/" in one and one != NO_PUBLISHER] == [
        "ok rendered/eu-1: is published",
        "ok rendered/us-1: is published",
    ]
    assert [one for one in found if "status/" in one] == [
        "error status/eu-1: nothing has reported it yet",
        "error status/us-1: nothing has reported it yet",
        NO_REPORTER,
    ]
    assert allot("doctor", "--repo", published.root).code == 1


def test_what_is_merged_and_not_published(published: Place, allot: Allot) -> None:
    edit(published.root, "tenants/solo-ada/instances/webui.yaml", "l4-quarter", "l4-quarter # mine")
    published.merge()
    found = lines(allot, published.root)
    assert "warning rendered branches: 1 change is merged and not published" in found
    commit = git(published.remote, "rev-parse", "refs/allotment/source")[:12]
    assert f"warning publishing: published is {commit}, main is 1 commit ahead: not published yet" in found


def test_a_lost_ref_is_an_error_and_the_advice_is_not_to_publish(published: Place, allot: Allot) -> None:
    git(published.root, "push", "-q", "origin", "--delete", "refs/allotment/published/us-1")
    found = [line for line in lines(allot, published.root) if "branches" in line or "rendered/" in line]
    assert [line for line in found if "refs/allotment/published/us-1 is gone" in line and line.startswith("error")]
    assert not [line for line in found if "nothing was ever published" in line]
    assert "allot publish --adopt" in allot("doctor", "--repo", published.root).out


def test_the_brake_that_stops_publishing_is_an_error(published: Place, allot: Allot) -> None:
    instances = sorted(path for path in published.root.glob("tenants/*/instances/*.yaml"))
    for path in instances[:9]:
        path.unlink()
    published.merge()
    assert published.publish().code == 1
    commit = git(published.remote, "rev-parse", "refs/allotment/source")[:12]
    found = lines(allot, published.root)
    stopped = "main is 1 commit ahead: the brake stopped it (9 of 17 instances)"
    assert f"error publishing: has stopped: published is {commit}, {stopped}" in found
    assert "warning rendered branches: 9 changes are merged and not published" in found


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
    (said,) = [line for line in lines(allot, published.root) if line.startswith("error publishing")]
    assert "main is 1 commit ahead: what the platform declares is wrong" in said


def test_a_repository_that_was_never_published(begin: object, allot: Allot) -> None:
    assert callable(begin)
    place = begin("never", lambda place: None)
    found = lines(allot, place.root)
    assert [one for one in found if "rendered/" in one and one != NO_PUBLISHER] == [
        "error rendered/eu-1: nothing was ever published there",
        "error rendered/us-1: nothing was ever published there",
    ]
