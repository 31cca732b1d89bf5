"""`allot instance create` writes the declarations of an instance and its storages, or nothing."""

from __future__ import annotations

import json

import pexpect  # type: ignore[import-untyped]  # it has no types
import pytest
from tests.conftest import Allot, edit
from tests.support.published import Place, git
from tests.support.terminal import answer_questions, start_dialogue

TENANT = """\
apiVersion: allotment.dev/v1alpha1
kind: Tenant
metadata:
  name: studio-new
spec:
  plan: starter
"""
MEMBERS = """\
apiVersion: allotment.dev/v1alpha1
kind: Members
metadata:
  name: studio-new
spec:
  users:
    - name: eve
      role: Admin
      login: eve-k
      subject: 00u1eve
"""
INSTANCE, STORAGE = "tenants/studio-new/instances/webui.yaml", "tenants/studio-new/storages/checkpoints.yaml"
PLACE = ("--cluster", "eu-1", "--gpu-spec", "l4-quarter")


@pytest.fixture
def empty_tenant(published: Place) -> Place:
    """Return a published cloud with the tenant studio-new, which has declared nothing yet."""
    folder = published.root / "tenants/studio-new"
    folder.mkdir()
    (folder / "tenant.yaml").write_text(TENANT)
    (folder / "members.yaml").write_text(MEMBERS)
    published.merge()
    return published


def test_an_empty_tenant_gets_a_webui_with_a_storage_in_one_command(empty_tenant: Place, allot: Allot) -> None:
    words = ("studio-new/webui", *PLACE, "--app", "stable-diffusion-webui")
    storage = ("--new-storage", "checkpoints:50Gi:/workspace/models")
    result = allot("instance", "create", *words, *storage, "--commit", "--repo", empty_tenant.root)
    assert result.code == 0, result
    assert "+  gpuSpec: l4-quarter\n" in result.out
    assert "instance webui" in result.out
    assert "added   starts" in result.out
    assert git(empty_tenant.root, "log", "-1", "--format=%s") == "Create instance studio-new/webui"
    assert git(empty_tenant.root, "show", "--name-only", "--format=", "HEAD").split() == [INSTANCE, STORAGE]
    check = allot("validate", "--repo", empty_tenant.root)
    assert (check.code, check.err) == (0, "")


def test_json_names_the_new_files_and_resources(empty_tenant: Place, allot: Allot) -> None:
    words = ("studio-new/webui", *PLACE, "--app", "jupyter", "--new-storage", "checkpoints:50Gi:/workspace")
    answer = json.loads(allot("instance", "create", *words, "-o", "json", "--repo", empty_tenant.root).out)
    assert answer["files"] == [{"path": INSTANCE, "action": "Added"}, {"path": STORAGE, "action": "Added"}]
    assert answer["resources"] == ["GPUInstance studio-new/webui", "GPUStorage studio-new/checkpoints"]


def test_missing_options_are_named_with_the_values_that_the_tenant_can_use(empty_tenant: Place, allot: Allot) -> None:
    result = allot("instance", "create", "studio-new/webui", "--cluster", "eu-1", "--repo", empty_tenant.root)
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "allot: add --gpu-spec: studio-new can use in eu-1 l4-quarter\n"
        "add --app: comfyui, jupyter, lora-trainer, stable-diffusion-webui, triton, vllm; or --image IMAGE@DIGEST\n"
    )
    result = allot("instance", "create", "nobody/webui", *PLACE, "--app", "jupyter", "--repo", empty_tenant.root)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("allot: no tenant is named 'nobody'; ")
    result = allot("instance", "create", "webui", *PLACE, "--app", "jupyter", "--repo", empty_tenant.root)
    assert (result.code, result.out) == (2, "")
    assert result.err.endswith("Error: webui is not in the format TENANT/NAME, such as solo-ada/webui\n")


def test_a_gpu_spec_outside_of_the_plan_is_refused_with_the_alternatives(empty_tenant: Place, allot: Allot) -> None:
    words = ("--cluster", "eu-1", "--gpu-spec", "l4-whole", "--app", "jupyter")
    result = allot("instance", "create", "studio-new/webui", *words, "--repo", empty_tenant.root)
    assert (result.code, result.out) == (2, "")
    assert f"{INSTANCE}:8:12: spec.gpuSpec: l4-whole is Exclusive, and plan starter allows TimeSlicing" in result.err
    assert result.err.endswith("studio-new can use in eu-1: l4-quarter\n")
    assert git(empty_tenant.root, "status", "--short") == ""


def ask(place: Place, *words: str) -> pexpect.spawn:
    """Start `allot instance create studio-new/webui` on a terminal."""
    return start_dialogue(place.root, "instance", "create", "studio-new/webui", *words)


def finish(child: pexpect.spawn) -> tuple[str, int]:
    """Return the rest of the output, and the exit status."""
    return answer_questions(child)


def test_questions_lead_to_a_webui_with_a_storage(empty_tenant: Place) -> None:
    child = ask(empty_tenant, "--commit")
    child.expect_exact("Left:          1 of 1 nvidia-l4, 3 of 3 instances")
    child.expect(r"1 nvidia-l4 +TimeSlicing 1/4 +0\.21 +23/40")
    for question, answer in (
        ("GPU (1 to 1) [1]:", ""),
        ("App (1 to 6) [1]:", "7"),
        ("Error: '7' is no choice: write a number from 1 to 6, or a name", "stable-diffusion-webui"),
        ("Storage (1 to 2) [2]:", ""),
        ("Kind of storage (1 to 2) [1]:", ""),
        ("Name of the storage [webui-models]:", "My Models"),
        ("Error: is not allowed: write a-z, 0-9", "checkpoints"),
        ("Size [50Gi]:", "50GB"),
        ("Error: '50GB' is not a size", ""),
        ("Path in the container [/workspace/", "/etc"),
        ("Path in the container [/workspace/", "/workspace/models"),
        ("(empty: none) []:", ""),
        ("/workspace/outputs (The pictures that it makes) is on no storage: each stop or restart erases it", None),
        ("Another storage (1 to 2) [2]:", ""),
        ("Name of the storage [webui-outputs]:", "checkpoints"),
        ("Error: checkpoints exists already", "pictures"),
        ("Size [50Gi]:", "60Gi"),
        ("Path in the container [/workspace/outputs]:", ""),
        ("Create it? [Y/n]:", ""),
    ):
        child.expect_exact(question)
        if answer is not None:
            child.sendline(answer)
    output, status = finish(child)
    assert status == 0, output
    assert "Create instance studio-new/webui: 3 files committed" in output
    pictures = STORAGE.replace("checkpoints", "pictures")
    assert git(empty_tenant.root, "show", "--name-only", "--format=", "HEAD").split() == [INSTANCE, STORAGE, pictures]
    assert '    version: "1.11.0"\n' in (empty_tenant.root / INSTANCE).read_text()


def test_an_operation_asks_each_question_once(empty_tenant: Place) -> None:
    child = ask(empty_tenant, *PLACE, "--app", "jupyter", "--operation-id", "deploy-2026.11_a", "--commit")
    child.expect_exact("Storage (1 to 2) [2]:")
    child.sendline("1")
    child.expect_exact("Create it? [Y/n]:")
    assert "Storage (" not in str(child.before)
    child.sendline("")
    output, status = finish(child)
    assert status == 0, output
    assert git(empty_tenant.root, "show", "--name-only", "--format=", "HEAD").split() == [INSTANCE]


def test_a_declined_confirmation_changes_nothing(empty_tenant: Place) -> None:
    child = ask(empty_tenant, *PLACE, "--app", "jupyter", "--new-storage", "checkpoints:50Gi:/workspace")
    child.expect_exact("Create it? [Y/n]:")
    assert "+  gpuSpec: l4-quarter" in str(child.before), "the difference comes first"
    child.sendline("n")
    output, status = finish(child)
    assert (status, output) == (1, " n\nnothing was changed\n")
    assert git(empty_tenant.root, "status", "--short") == ""


def test_no_input_asks_nothing_on_a_terminal(empty_tenant: Place) -> None:
    output, status = finish(ask(empty_tenant, *PLACE, "--no-input"))
    assert status == 2
    assert output.startswith("allot: add --app: comfyui, ")
    words = ("--app", "jupyter", "--new-storage", "checkpoints:50Gi:/workspace", "--yes")
    output, status = finish(ask(empty_tenant, *PLACE, *words))
    assert status == 0
    assert "Create it?" not in output


def test_questions_take_an_own_image(empty_tenant: Place) -> None:
    child = ask(empty_tenant, *PLACE, "--yes")
    image = f"registry.example/tools/a:1@sha256:{'0' * 64}"
    for question, answer in (
        ("App (1 to 6) [1]:", "6"),
        ("Image, with its digest:", "registry.example/tools/a:1"),
        ("Error: 'registry.example/tools/a:1' has no digest", image),
        ("HTTP port, or 0 for none [8080]:", ""),
        ("Who can open it (Namespace, Members, Public) [Members]:", ""),
        ("Storage (1 to 2) [2]:", "1"),
    ):
        child.expect_exact(question)
        child.sendline(answer)
    output, status = finish(child)
    assert status == 0, output
    text = (empty_tenant.root / INSTANCE).read_text()
    assert (
        f"    image: {image}\n    ports:\n      - name: http\n        containerPort: 8080\n        exposure: Members\n"
        in text
    )


def test_questions_mount_several_storages(published: Place) -> None:
    git(published.root, "rm", "-q", "tenants/solo-ada/instances/webui.yaml")
    words = ("instance", "create", "solo-ada/second", *PLACE, "--app", "jupyter", "--yes")
    output, status = answer_questions(
        start_dialogue(published.root, *words),
        ("Storage (1 to 4) [4]:", "model"),
        ("Error: 'model' is no choice: write a number from 1 to 4, or a name: none, models, styles, new", "models"),
        ("Path in the container [", "/models"),
        ("Another storage (1 to 3) [3]:", "styles"),
        ("Path in the container [", "/models"),
        ("Error: /models has a storage already", "/styles"),
        ("Another storage (1 to 2) [2]:", "none"),
    )
    assert status == 0, output
    assert (
        (published.root / "tenants/solo-ada/instances/second.yaml")
        .read_text()
        .endswith(
            "  storages:\n    - name: models\n      mountPath: /models\n    - name: styles\n      mountPath: /styles\n"
        )
    )


def test_questions_offer_no_storage_that_is_marked_for_deletion(published: Place) -> None:
    edit(published.root, "tenants/solo-ada/storages/styles.yaml", "\nspec:", "\nspec:\n  deletionPolicy: Delete")
    words = ("instance", "create", "solo-ada/second", *PLACE, "--app", "jupyter", "--stopped", "--yes")
    output, status = answer_questions(
        start_dialogue(published.root, *words),
        ("Storage (1 to 3) [3]:", "styles"),
        ("Error: 'styles' is no choice: write a number from 1 to 3, or a name: none, models, new", "none"),
    )
    assert status == 0, output


def test_questions_leave_out_a_storage_that_only_a_running_instance_can_mount(published: Place) -> None:
    words = ("instance", "create", "solo-ada/second", *PLACE, "--app", "jupyter")
    for state, choices in (((), 3), (("--stopped",), 4)):
        child = start_dialogue(published.root, *words, *state, "--yes", "--dry-run")
        child.expect_exact(f"Storage (1 to {choices}) [{choices}]:")
        note = "Mounted by a running instance, and for one instance at a time: models\r\n"
        assert (note in str(child.before)) == (choices == 3)
        child.sendline("none")
        output, status = finish(child)
        assert status == 0, output


@pytest.mark.parametrize("has_terminal", [True, False])
def test_a_repetition_continues_with_the_written_files(has_terminal: bool, empty_tenant: Place, allot: Allot) -> None:
    words = (*PLACE, "--app", "jupyter")
    child = ask(empty_tenant, *words)
    answers = (
        ("Storage (1 to 2) [2]:", "2"),
        ("Kind of storage (1 to 2) [1]:", "block-ssd"),
        ("Name of the storage [webui-workspace]:", "checkpoints"),
        ("Size [50Gi]:", ""),
        ("Path in the container [/workspace]:", ""),
        ("(empty: none) []:", ""),
        ("Create it? [Y/n]:", ""),
    )
    output, status = answer_questions(child, *answers)
    assert status == 0, output
    command = "allot instance create studio-new/webui --cluster eu-1 --gpu-spec l4-quarter --app jupyter"
    assert f"Next, with the forge's token in ALLOT_FORGE_TOKEN: {command} --pr\n" in output
    assert f"Or without a token, to push a branch: {command} --push\n" in output
    changed = (empty_tenant.root / INSTANCE).read_bytes()
    (empty_tenant.root / INSTANCE).write_bytes(changed + b"# mine\n")
    for option in ("--push", "--commit"):
        output, status = finish(ask(empty_tenant, *words, "--yes", option))
        assert status == 2
        assert output.splitlines()[-1] == (
            f"allot: {INSTANCE} is in the folder with other content than this command writes: commit and push it with Git,"
            " or delete it and run the command again"
        )
    (empty_tenant.root / INSTANCE).write_bytes(changed)
    if has_terminal:
        output, status = finish(ask(empty_tenant, *words, "--yes", "--push"))
    else:
        result = allot("instance", "create", "studio-new/webui", *words, "--push", "--repo", empty_tenant.root)
        output, status = result.out + result.err, result.code
    assert status == 0, output
    assert "Storage (1" not in output
    assert (
        f"The folder no longer has {INSTANCE}, {STORAGE}, so that `git pull` can add them after the merge.\n" in output
    )
    assert git(empty_tenant.root, "status", "--short") == ""


def test_a_repetition_commits_the_written_files(empty_tenant: Place) -> None:
    output, status = answer_questions(ask(empty_tenant, "--yes", *PLACE), ("App (1", "jupyter"), ("Storage (1", "none"))
    assert status == 0, output
    output, status = finish(ask(empty_tenant, "--yes", "--commit", *PLACE))
    assert status == 0, output
    assert git(empty_tenant.root, "show", "--name-only", "--format=", "HEAD").split() == [INSTANCE]


def test_the_plan_of_several_replicas_says_that_they_are_independent(empty_tenant: Place, allot: Allot) -> None:
    words = ("ml-orbit/api", *PLACE, "--app", "vllm", "--dry-run", "--repo", empty_tenant.root)
    note = "replicas are independent copies: each has its own unit and disk, and a request reaches any of them\n"
    assert f"its 3 {note}" in allot("instance", "create", *words, "--replicas", "3").out
    assert note not in allot("instance", "create", *words).out
