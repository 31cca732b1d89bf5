"""Rules about change: the sample is committed, changed, and compared with that commit. Cases 18 to 20 and 22."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import DAY, Allot, copy, edit, errors
from tests.support.folder_commit import commit
from tests.support.published import git

Change = Callable[[Path], object]
CACHE = "tenants/studio-kite/storages/model-cache.yaml"
OUTPUTS = "tenants/studio-kite/storages/outputs.yaml"
TRIAL = "tenants/studio-kite/storages/comfy-trial.yaml"
ADA_MEMBERS = "tenants/solo-ada/members.yaml"
QUARTER = "platform/specs/l4-quarter.yaml"


@pytest.fixture
def merged(sample: Path) -> Path:
    """Return the sample, committed."""
    commit(sample)
    return sample


def move(root: Path, old: str, new: str) -> None:
    copy(root, old, new)
    (root / old).unlink()


CHANGES: dict[str, tuple[Change, str]] = {
    "currency": (
        lambda root: edit(root, "platform/platform.yaml", "currency: EUR", "currency: USD"),
        "platform/platform.yaml:13:15: spec.billing.currency: 'USD' was 'EUR' and can't change: create a new platform [immutable]",
    ),
    "a spec's shape": (
        lambda root: edit(root, QUARTER, "cpu: 3", "cpu: 2"),
        f"{QUARTER}:14:8: spec.cpu: 2 was 3 and can't change: declare another GPUSpec, and retire the existing GPUSpec [immutable]",
    ),
    "a version's container": (
        lambda root: edit(root, "platform/apps/vllm.yaml", "--port=8000", "--port=8001"),
        "platform/apps/vllm.yaml:11:7: spec.versions[0].container: the container of version 0.14.0 changed, and instances run it: add a version instead [immutable]",
    ),
    "a price of the past": (
        lambda root: edit(root, QUARTER, '"0.24"', '"0.25"'),
        f"{QUARTER}:22:7: spec.prices[0]: the price from 2026-01-01 already applies and can't change: add an entry with a later day [price]",
    ),
    "a price removed": (
        lambda root: edit(root, QUARTER, '    - from: "2026-01-01"\n      perHour: "0.24"\n', ""),
        f"{QUARTER}:21:3: spec.prices: the price from 2026-01-01 already applies and was removed: restore it [price]",
    ),
    "a price from the past": (
        lambda root: edit(root, QUARTER, "  prices:\n", '  prices:\n    - from: "2026-11-01"\n      perHour: "0.01"\n'),
        f"{QUARTER}:22:13: spec.prices[0].from: a new price can't start on 2026-11-01, before tomorrow: write 2026-11-22 or a later day [price]",
    ),
    "a storage shrinks": (
        lambda root: edit(root, OUTPUTS, "size: 500Gi", "size: 400Gi"),
        f"{OUTPUTS}:11:9: spec.size: 400Gi is less than the current 500Gi, and a volume can't shrink: write at least 500Gi [shrink]",
    ),
    "a storage moves to another cluster": (
        lambda root: edit(root, "tenants/acme-robotics/storages/old-frames.yaml", "cluster: us-1", "cluster: eu-1"),
        "tenants/acme-robotics/storages/old-frames.yaml:10:12: spec.cluster: 'eu-1' was 'us-1' and can't change: declare another storage there [immutable]",
    ),
    "a storage changes its kind": (
        lambda root: edit(root, "tenants/acme-robotics/storages/old-frames.yaml", "block-ssd", "shared-files"),
        "tenants/acme-robotics/storages/old-frames.yaml:11:16: spec.storageSpec: 'shared-files' was 'block-ssd' and can't change: declare another storage of that kind [immutable]",
    ),
    "a storage is removed at once": (
        lambda root: (root / "tenants/acme-robotics/storages/frames.yaml").unlink(),
        "tenants/acme-robotics/storages/frames.yaml:1:1: (file): storage frames would be deleted with its data (a rename is a deletion): put the file back;"
        " to delete it, first merge and publish deletionPolicy: Delete [deletion]",
    ),
    "a storage is renamed": (
        lambda root: move(root, "tenants/film-house/storages/loras.yaml", "tenants/film-house/storages/models.yaml"),
        "tenants/film-house/storages/loras.yaml:1:1: (file): storage loras would be deleted with its data (a rename is a deletion): put the file back;"
        " to delete it, first merge and publish deletionPolicy: Delete [deletion]",
    ),
    "a tenant is renamed": (
        lambda root: (root / "tenants/uni-lab").rename(root / "tenants/uni-labs"),
        "tenants/uni-lab/tenant.yaml:1:1: (file): tenant uni-lab would be deleted (a rename is a deletion): put the file back; to delete the tenant, first merge lifecycle: Retired [deletion]",
    ),
    "a cluster is renamed": (
        lambda root: (root / "clusters/us-1").rename(root / "clusters/us-2"),
        "clusters/us-1/cluster.yaml:1:1: (file): cluster us-1 would be deleted (a rename is a deletion): put the file back; to delete the cluster, first merge lifecycle: Retired [deletion]",
    ),
    "a volume's class changes": (
        lambda root: edit(root, "clusters/us-1/cluster.yaml", "gp3-retain", "gp4-retain"),
        "clusters/us-1/cluster.yaml:31:25: spec.storages[0].storageClassName: 'gp4-retain' was 'gp3-retain', and volumes can't change their class: declare another StorageSpec for it [immutable]",
    ),
    "a preparation under running instances": (
        lambda root: edit(root, CACHE, "checkpoints-2026-11", "checkpoints-2026-12"),
        f"{CACHE}:13:3: spec.prepare: the preparation changed while webui, webui-next runs on the storage: stop it first, or declare another storage [preparation]",
    ),
    "a snapshot is removed at once": (
        lambda root: (
            (root / "tenants/studio-kite/snapshots/before-upgrade.yaml").unlink()
            or (root / "tenants/studio-kite/storages/outputs-restored.yaml").unlink()
        ),
        "tenants/studio-kite/snapshots/before-upgrade.yaml:1:1: (file): snapshot before-upgrade would be deleted (a rename is a deletion): put the file back;"
        " to delete it, first merge and publish deletionPolicy: Delete [deletion]",
    ),
    "a snapshot of another storage": (
        lambda root: edit(
            root, "tenants/studio-kite/snapshots/before-upgrade.yaml", "storage: outputs", "storage: model-cache"
        ),
        "tenants/studio-kite/snapshots/before-upgrade.yaml:7:12: spec.storage: 'model-cache' was 'outputs' and can't change: declare another snapshot [immutable]",
    ),
    "a clone of something else": (
        lambda root: (
            copy(root, "tenants/studio-kite/storages/comfy-home.yaml", "tenants/studio-kite/storages/other.yaml")
            or edit(root, TRIAL, "name: comfy-home\n", "name: other\n")
        ),
        f"{TRIAL}:12:5: spec.prepare.source: a volume can be cloned only when it is created, and this volume exists already: declare another storage [immutable]",
    ),
    "a clone that is too small": (
        lambda root: (
            copy(root, TRIAL, "tenants/studio-kite/storages/small.yaml")
            or edit(root, "tenants/studio-kite/storages/small.yaml", "size: 100Gi", "size: 60Gi")
        ),
        "tenants/studio-kite/storages/small.yaml:10:9: spec.size: 60Gi is less than the 100Gi of comfy-home, its source: write at least 100Gi [source]",
    ),
    "another attempt of a clone that became too small": (
        lambda root: (
            edit(root, "tenants/studio-kite/storages/comfy-home.yaml", "size: 100Gi", "size: 120Gi")
            or edit(root, TRIAL, "  prepare:\n", "  prepare:\n    attempt: 2\n")
        ),
        f"{TRIAL}:10:9: spec.size: 100Gi is less than the 120Gi of comfy-home, its source: write at least 120Gi [source]",
    ),
    "a GPUSpec in use is removed": (
        lambda root: (root / QUARTER).unlink(),
        "tenants/solo-ada/instances/webui.yaml:8:12: spec.gpuSpec: the change removes GPUSpec l4-quarter, and this file uses it:"
        f" put {QUARTER} back, or first replace it in each file that uses it [reference]",
    ),
    "a bucket becomes a volume": (
        lambda root: edit(
            root, "platform/storage-specs/objects.yaml", "bucket: {}", "volume:\n    accessMode: ReadWriteMany"
        ),
        "platform/storage-specs/objects.yaml:9:3: spec.volume: this was nothing and can't change: declare another StorageSpec, and retire the existing StorageSpec [immutable]",
    ),
    "a snapshot's price of the past": (
        lambda root: edit(root, "platform/storage-specs/block-ssd.yaml", '"0.05"', '"0.04"'),
        "platform/storage-specs/block-ssd.yaml:18:7: spec.snapshotPrices[0]: the price from 2026-01-01 already applies and can't change: add an entry with a later day [price]",
    ),
    "the last Admin is demoted": (
        lambda root: edit(root, ADA_MEMBERS, "role: Admin", "role: Member"),
        f"{ADA_MEMBERS}:9:13: spec.users[0].role: tenant solo-ada would have no Admin, and ada was Admin before: give a user or a group the role Admin [last-admin]",
    ),
    "the last Admin is removed": (
        lambda root: (
            edit(root, ADA_MEMBERS, "name: ada\n", "name: bea\n") or edit(root, ADA_MEMBERS, ": Admin", ": Viewer")
        ),
        f"{ADA_MEMBERS}:6:1: spec: tenant solo-ada would have no Admin, and ada was Admin before: give a user or a group the role Admin [last-admin]",
    ),
    "the members are removed": (
        lambda root: (root / ADA_MEMBERS).unlink(),
        f"{ADA_MEMBERS}:1:1: (file): tenant solo-ada would have no Admin, and ada was Admin before: give a user or a group the role Admin [last-admin]",
    ),
    "a new use of what is retired": (
        lambda root: (
            edit(root, "tenants/film-house/instances/train-river.yaml", "gpuSpec: a100-3g", "gpuSpec: l4-whole")
            or edit(root, "platform/specs/l4-whole.yaml", "spec:\n", "spec:\n  lifecycle: Retired\n")
        ),
        "tenants/film-house/instances/train-river.yaml:11:12: spec.gpuSpec: GPUSpec l4-whole is Retired: nothing new may use it [lifecycle]",
    ),
}


@pytest.mark.parametrize(("change", "line"), CHANGES.values(), ids=CHANGES)
def test_a_change_rule_says_exactly(change: Change, line: str, merged: Path, allot: Allot) -> None:
    change(merged)
    result = allot("validate", "--repo", merged, "--base", "HEAD", "--as-of", DAY)
    assert result.code == 1, result
    assert line in errors(result), "\n" + "\n".join(["wanted", line, "said", *errors(result)])
    assert line not in allot("validate", "--repo", merged, "--as-of", DAY).lines


def warnings(merged: Path, allot: Allot) -> list[str]:
    result = allot("validate", "--repo", merged, "--base", "HEAD", "--as-of", DAY)
    assert result.code == 0, result
    return [
        line for line in result.lines if ": warning: " in line and not line.endswith(("[lifecycle]", "[placeholder]"))
    ]


def test_the_source_of_a_copy_may_grow_with_a_warning(merged: Path, allot: Allot) -> None:
    edit(merged, "tenants/studio-kite/storages/comfy-home.yaml", "size: 100Gi", "size: 120Gi")
    assert warnings(merged, allot) == [
        "tenants/studio-kite/storages/comfy-home.yaml:9:9: spec.size: warning: storage comfy-trial is a copy of this storage, and has"
        " only 100Gi: if the copy is not Ready yet, grow comfy-trial first [source]"
    ]
    edit(merged, TRIAL, "size: 100Gi", "size: 120Gi")
    assert warnings(merged, allot) == []


def test_another_attempt_may_be_declared_while_instances_wait(merged: Path, allot: Allot) -> None:
    edit(merged, CACHE, "attempt: 1", "attempt: 2")
    assert warnings(merged, allot) == [
        f"{CACHE}:22:14: spec.prepare.attempt: warning: attempt 2 starts once no instance runs on the storage; declared to run: webui, webui-next [preparation]"
    ]


def test_a_preparation_goes_under_running_instances_and_what_it_wrote_stays(merged: Path, allot: Allot) -> None:
    text = (merged / CACHE).read_text()
    begin, end = text.index("  prepare:"), text.index("  accessor:")
    (merged / CACHE).write_text(text[:begin] + text[end:])
    assert warnings(merged, allot) == []


def test_the_removal_of_a_tenant_warns_those_that_share_with_it(merged: Path, allot: Allot) -> None:
    shared = "tenants/northlight/storages/base-models.yaml"
    edit(merged, shared, "    - tenants: All\n", "    - tenants: All\n    - tenant: uni-labs\n")
    line = f"{shared}:25:15: spec.sharedWith[1].tenant: {{}}no Tenant is named 'uni-labs'; did you mean 'uni-lab'? [reference]"
    assert line.format("") in errors(allot("validate", "--repo", merged, "--base", "HEAD", "--as-of", DAY))
    commit(merged)
    assert warnings(merged, allot) == [line.format("warning: ")]


def test_a_revoked_share_warns_earlier_readers_and_stops_new_readers(merged: Path, allot: Allot) -> None:
    edit(merged, "tenants/northlight/storages/base-models.yaml", "    - tenants: All\n", "    - tenant: uni-lab\n")
    assert warnings(merged, allot) == [
        "tenants/studio-kite/storages/base.yaml:14:15: spec.prepare.source.storage.name: warning: tenant northlight doesn't share base-models"
        " with studio-kite: ask them to list it under spec.sharedWith [sharing]"
    ]
    copy(merged, "tenants/studio-kite/storages/base.yaml", "tenants/solo-ada/storages/base.yaml")
    result = allot("validate", "--repo", merged, "--base", "HEAD", "--as-of", DAY)
    assert [line.split(": ")[0] for line in errors(result)] == ["tenants/solo-ada/storages/base.yaml:14:15"]


def test_another_admin_or_a_suspended_tenant_needs_no_last_admin(merged: Path, allot: Allot) -> None:
    edit(merged, ADA_MEMBERS, "  users:\n", "  users:\n    - name: bea\n      role: Admin\n")
    edit(merged, ADA_MEMBERS, "name: ada\n      role: Admin", "name: ada\n      role: Viewer")
    assert allot("validate", "--repo", merged, "--base", "HEAD", "--as-of", DAY).code == 0
    edit(merged, ADA_MEMBERS, "role: Admin", "role: Viewer")
    edit(merged, "tenants/solo-ada/tenant.yaml", "spec:\n", "spec:\n  lifecycle: Suspended\n")
    assert "[last-admin]" not in allot("validate", "--repo", merged, "--base", "HEAD", "--as-of", DAY).out


def test_two_merges_delete_a_storage(merged: Path, allot: Allot) -> None:
    (merged / "tenants/acme-robotics/storages/old-frames.yaml").unlink()
    assert allot("validate", "--repo", merged, "--base", "HEAD", "--as-of", DAY).code == 0


def test_validate_accepts_an_existing_instance_of_a_retired_spec(merged: Path, allot: Allot) -> None:
    edit(merged, QUARTER, "spec:\n", "spec:\n  lifecycle: Retired\n")
    edit(merged, "tenants/solo-ada/instances/webui.yaml", "spec:\n", "spec:\n  displayName: Mine\n")
    assert allot("validate", "--repo", merged, "--base", "HEAD", "--as-of", DAY).code == 0


def test_the_newcomer_is_the_one_too_many(merged: Path, allot: Allot) -> None:
    edit(merged, "clusters/eu-1/stocks/l4-quarter.yaml", "count: 40", "count: 17")
    commit(merged)
    copy(merged, "tenants/solo-ada/instances/webui.yaml", "tenants/solo-ada/instances/again.yaml")
    edit(
        merged,
        "tenants/solo-ada/instances/again.yaml",
        "  storages:\n    - name: models\n      mountPath: /workspace\n",
        "",
    )
    result = allot("validate", "--repo", merged, "--base", "HEAD", "--as-of", DAY)
    assert [line.split(":")[0] for line in errors(result)] == ["tenants/solo-ada/instances/again.yaml"]
    # Without a base, the file that is not committed is the newcomer; once it is, the stock is named.
    newcomer = "tenants/solo-ada/instances/again.yaml"
    for paths in ((), (merged / newcomer,)):
        result = allot("validate", "--repo", merged, *paths, "--as-of", DAY)
        assert [line.split(":")[0] for line in errors(result)] == [newcomer]
    commit(merged)
    result = allot("validate", "--repo", merged, "--as-of", DAY)
    assert [line.split(":")[0] for line in errors(result)] == ["clusters/eu-1/stocks/l4-quarter.yaml"]


def test_two_requests_fine_alone_oversell_together(merged: Path, allot: Allot) -> None:
    edit(merged, "clusters/eu-1/stocks/l4-whole.yaml", "count: 5", "count: 2")
    commit(merged)
    for name, tenant in (("one", "uni-lab"), ("two", "studio-kite")):
        git(merged, "checkout", "-q", "-b", name, "main")
        path = f"tenants/{tenant}/instances/extra.yaml"
        copy(merged, "tenants/solo-ada/instances/webui.yaml", path)
        edit(merged, path, "  storages:\n    - name: models\n      mountPath: /workspace\n", "")
        edit(merged, path, "l4-quarter", "l4-whole")
        commit(merged)
        assert allot("validate", "--repo", merged, "--base", "main", "--as-of", DAY).code == 0
    git(merged, "merge", "-q", "one")
    result = allot("validate", "--repo", merged, "--commit", "HEAD", "--base", "one", "--as-of", DAY)
    assert result.code == 1
    assert errors(result)[0].startswith(
        "tenants/studio-kite/instances/extra.yaml:8:12: spec.gpuSpec: 5 units of l4-whole would run in eu-1, 1 more than its stock"
    )


@pytest.mark.parametrize("ref", ["--upload-pack=x", "-h", "no-such", "HEAD^{tree}", "HEAD\nHEAD", "HEAD:platform"])
def test_a_ref_is_never_an_option(ref: str, merged: Path, allot: Allot) -> None:
    result = allot("validate", "--repo", merged, f"--base={ref}", "--as-of", DAY)
    assert (result.code, result.out) == (2, "")
    assert "names no commit here" in result.err


@pytest.mark.parametrize("day", ["2020-01-01", DAY, "2035-01-01"])
def test_the_day_whose_prices_count_moves_no_rule_about_today(merged: Path, allot: Allot, day: str) -> None:
    edit(merged, QUARTER, "  prices:\n", '  prices:\n    - from: "2026-11-21"\n      perHour: "0.01"\n')
    result = allot("validate", "--repo", merged, "--as-of", day, "--base", "HEAD")
    line = f"{QUARTER}:22:13: spec.prices[0].from: a new price can't start on 2026-11-21, before tomorrow: write 2026-11-22 or a later day [price]"
    assert line in errors(result)
    edit(merged, QUARTER, 'from: "2026-11-21"', 'from: "2026-11-22"')
    assert "[price]" not in allot("validate", "--repo", merged, "--as-of", day, "--base", "HEAD").out
