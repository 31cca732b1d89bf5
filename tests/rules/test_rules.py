"""Rules across files: a change to the sample gives exactly this line. One table a rule; cases 17 to 22."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import DAY, Allot, copy, count_declarations, edit, errors
from tests.support.ways_of_sharing import declare_all

Change = Callable[[Path], None]


def swap(path: str, old: str, new: str) -> Change:
    return lambda root: edit(root, path, old, new)


def both(*changes: Change) -> Change:
    def change(root: Path) -> None:
        for step in changes:
            step(root)

    return change


WEBUI = "tenants/studio-kite/instances/webui.yaml"
COMFY = "tenants/studio-kite/instances/comfy.yaml"
ADA = "tenants/solo-ada/instances/webui.yaml"
ADA_STORAGE = "tenants/solo-ada/storages/models.yaml"
KITE = "tenants/studio-kite/tenant.yaml"
KITE_PLAN = f"{KITE}:9:9: spec.plan"
ANOTHER_PLAN = (
    "or ask the platform team for another plan, or for a tenant quota: `allot request quota {} --reason TEXT` [quota]"
)

REFERENCE = {
    "spec": (
        swap(WEBUI, "gpuSpec: l4-quarter", "gpuSpec: l4-quater"),
        f"{WEBUI}:11:12: spec.gpuSpec: no GPUSpec is named 'l4-quater'; did you mean 'l4-quarter'? [reference]",
    ),
    "spec of another cluster": (
        swap(WEBUI, "gpuSpec: l4-quarter", "gpuSpec: h100-one"),
        f"{WEBUI}:11:12: spec.gpuSpec: no GPUSpec is named 'h100-one' in the stocks of cluster eu-1; known: a100-1g, a100-3g, l4-quarter, l4-whole [reference]",
    ),
    "spec held for others": (
        swap(ADA, "gpuSpec: l4-quarter", "gpuSpec: l4-half"),
        f"{ADA}:8:12: spec.gpuSpec: the stocks of l4-half in cluster eu-1 are held for film-house; known: a100-1g, a100-3g, l4-quarter, l4-whole [reference]",
    ),
    "cluster of an add-on": (
        swap("platform/add-ons/karpenter.yaml", "- us-1", "- us-2"),
        "platform/add-ons/karpenter.yaml:16:7: spec.clusters[0]: no Cluster is named 'us-2'; did you mean 'us-1'? [reference]",
    ),
    "cluster": (
        swap(ADA_STORAGE, "cluster: eu-1", "cluster: eu-2"),
        f"{ADA_STORAGE}:7:12: spec.cluster: no Cluster is named 'eu-2'; did you mean 'eu-1'? [reference]",
    ),
    "storage spec": (
        swap(ADA_STORAGE, "storageSpec: block-ssd", "storageSpec: floppy"),
        f"{ADA_STORAGE}:8:16: spec.storageSpec: no StorageSpec is named 'floppy'; known: block-ssd, objects, shared-files [reference]",
    ),
    "app": (
        swap(ADA, "name: stable-diffusion-webui", "name: stable-difusion"),
        f"{ADA}:10:11: spec.app.name: no App is named 'stable-difusion'; did you mean 'stable-diffusion-webui'? [reference]",
    ),
    "version": (
        swap(ADA, '"1.11.0"', '"1.11.1"'),
        f"{ADA}:11:14: spec.app.version: no version of stable-diffusion-webui is named '1.11.1'; did you mean '1.11.0'? [reference]",
    ),
    "another tenant's storage": (
        swap(ADA, "- name: models", "- name: model-cache"),
        f"{ADA}:15:13: spec.storages[0].name: no GPUStorage is named 'model-cache' in tenants/solo-ada; known: models, styles [reference]",
    ),
    "storage outside": (
        swap(ADA, "- name: models", "- name: ../../studio-kite/storages/outputs"),
        f"{ADA}:15:13: spec.storages[0].name: no GPUStorage is named '../../studio-kite/storages/outputs' in tenants/solo-ada; known: models, styles [reference]",
    ),
    "plan": (
        swap(KITE, "plan: team", "plan: teem"),
        f"{KITE}:9:9: spec.plan: no Plan is named 'teem'; did you mean 'team'? [reference]",
    ),
    "node pool": (
        swap("clusters/eu-1/stocks/a100-1g.yaml", "nodePool: a100-mig", "nodePool: h100"),
        "clusters/eu-1/stocks/a100-1g.yaml:8:13: spec.nodePool: no NodePool is named 'h100' in cluster eu-1; known: a100-mig, l4-ts2-film, l4-ts4, l4-whole [reference]",
    ),
    "stock's tenant": (
        swap("clusters/eu-1/stocks/l4-whole-kite.yaml", "tenant: studio-kite", "tenant: studio-kit"),
        "clusters/eu-1/stocks/l4-whole-kite.yaml:11:11: spec.tenant: no Tenant is named 'studio-kit'; did you mean 'studio-kite'? [reference]",
    ),
    "replacement": (
        swap("platform/apps/stable-diffusion-webui.yaml", 'replacedBy: "1.11.0"', 'replacedBy: "1.10.1"'),
        "platform/apps/stable-diffusion-webui.yaml:12:19: spec.versions[0].replacedBy: no other version is named '1.10.1'; known: 1.11.0 [reference]",
    ),
    "no tenant.yaml": (
        lambda root: (root / "tenants/solo-ada/tenant.yaml").unlink(),
        "tenants/solo-ada/tenant.yaml:1:1: (file): is missing: a tenant needs this file [required]",
    ),
    "no cluster.yaml": (
        lambda root: (root / "clusters/us-1/cluster.yaml").unlink(),
        "clusters/us-1/cluster.yaml:1:1: (file): is missing: a cluster needs this file [required]",
    ),
    "no platform.yaml": (
        lambda root: (root / "platform/platform.yaml").unlink(),
        "platform/platform.yaml:1:1: (file): is missing: a platform needs this file [required]",
    ),
    "what can't be read isn't missing": (
        swap("platform/plans/starter.yaml", "instances: 3", "instances: -3"),
        "platform/plans/starter.yaml:12:16: spec.quota.instances: -3 is out of range: write at least 0 [range]",
    ),
}

BASE = "tenants/studio-kite/storages/base.yaml"
TRIAL = "tenants/studio-kite/storages/comfy-trial.yaml"
RESTORED = "tenants/studio-kite/storages/outputs-restored.yaml"
SNAPSHOT = "tenants/studio-kite/snapshots/before-upgrade.yaml"
SHARED = "tenants/northlight/storages/base-models.yaml"
BUCKET = "tenants/ml-orbit/storages/datasets.yaml"
LAB = "tenants/ml-orbit/instances/lab.yaml"

SOURCES = {
    "a clone of nothing": (
        swap(TRIAL, "name: comfy-home\n", "name: comfy-hme\n"),
        f"{TRIAL}:14:15: spec.prepare.source.storage.name: no GPUStorage is named 'comfy-hme' in tenants/studio-kite; did you mean 'comfy-home'? [reference]",
    ),
    "a clone of itself": (
        swap(TRIAL, "name: comfy-home\n", "name: comfy-trial\n"),
        f"{TRIAL}:14:15: spec.prepare.source.storage.name: the storage is filled from itself [source]",
    ),
    "clones in a circle": (
        both(
            swap(TRIAL, "name: comfy-home\n", "name: comfy-home\n"),
            swap(
                "tenants/studio-kite/storages/comfy-home.yaml",
                "  size: 100Gi\n",
                "  size: 100Gi\n  prepare:\n    source:\n      storage:\n        name: comfy-trial\n",
            ),
        ),
        f"{TRIAL}:14:15: spec.prepare.source.storage.name: the storage is filled from itself in a circle: comfy-trial ← comfy-home ← comfy-trial [source]",
    ),
    "a clone in another cluster": (
        swap(TRIAL, "cluster: eu-1", "cluster: us-1"),
        f"{TRIAL}:14:15: spec.prepare.source.storage.name: storage comfy-home is in cluster eu-1, and this storage is in us-1: use the same cluster for both [source]",
    ),
    "no such snapshot": (
        swap(RESTORED, "name: before-upgrade", "name: after-upgrade"),
        f"{RESTORED}:13:15: spec.prepare.source.snapshot.name: no GPUStorageSnapshot is named 'after-upgrade' in tenants/studio-kite; did you mean 'before-upgrade'? [reference]",
    ),
    "a snapshot restored into another kind": (
        swap(RESTORED, "storageSpec: shared-files", "storageSpec: block-ssd"),
        f"{RESTORED}:8:16: spec.storageSpec: the snapshot is of StorageSpec shared-files, and can be restored only into the same: replace block-ssd [source]",
    ),
    "a snapshot of nothing": (
        swap(SNAPSHOT, "storage: outputs", "storage: output"),
        f"{SNAPSHOT}:7:12: spec.storage: no GPUStorage is named 'output' in tenants/studio-kite; did you mean 'outputs'?; a storage stays while a snapshot of it exists [reference]",
    ),
    "a snapshot without a price": (
        swap(
            "platform/storage-specs/shared-files.yaml",
            '  snapshotPrices:\n    - from: "2026-01-01"\n      perGiBMonth: "0.08"\n',
            "",
        ),
        f"{SNAPSHOT}:7:12: spec.storage: storage outputs is of shared-files, which has no snapshotPrices: it can't have snapshots [snapshot]",
    ),
    "a cluster without snapshots": (
        swap("clusters/eu-1/cluster.yaml", "      volumeSnapshotClassName: rook-cephfs-snapshots\n", ""),
        f"{SNAPSHOT}:7:12: spec.storage: storage outputs is in cluster eu-1, which supports no snapshots of shared-files [snapshot]",
    ),
    "a storage of a tenant that isn't": (
        swap(BASE, "tenant: northlight", "tenant: northligth"),
        f"{BASE}:15:17: spec.prepare.source.storage.tenant: no Tenant is named 'northligth'; did you mean 'northlight'? [reference]",
    ),
    "a storage that another tenant lacks": (
        swap(BASE, "name: base-models", "name: base-model"),
        f"{BASE}:14:15: spec.prepare.source.storage.name: no GPUStorage is named 'base-model' in tenants/northlight; did you mean 'base-models'? [reference]",
    ),
    "a storage that isn't shared": (
        swap(SHARED, "    - tenants: All\n", "    - tenant: solo-ada\n"),
        f"{BASE}:14:15: spec.prepare.source.storage.name: tenant northlight doesn't share base-models with studio-kite: ask them to list it under spec.sharedWith [sharing]",
    ),
    "a storage shared with a tenant that isn't": (
        swap(SHARED, "    - tenants: All\n", "    - tenants: All\n    - tenant: studio-kit\n"),
        f"{SHARED}:25:15: spec.sharedWith[1].tenant: no Tenant is named 'studio-kit'; did you mean 'studio-kite'? [reference]",
    ),
    "a storage shared with its own tenant": (
        swap(SHARED, "    - tenants: All\n", "    - tenants: All\n    - tenant: northlight\n"),
        f"{SHARED}:25:15: spec.sharedWith[1].tenant: northlight is the tenant of this storage, and needs no permission: remove the entry [sharing]",
    ),
    "a shared storage elsewhere": (
        both(swap(BASE, "cluster: eu-1", "cluster: us-1")),
        f"{BASE}:14:15: spec.prepare.source.storage.name: northlight's storage base-models is in cluster eu-1, and this storage is in us-1: use the same cluster for both [sharing]",
    ),
    "a prepared bucket": (
        swap(BUCKET, "  size: 1Ti\n", "  size: 1Ti\n  accessor:\n    exposure: Members\n"),
        f"{BUCKET}:10:3: spec.accessor: objects is a bucket, which has no files: remove accessor, or choose a volume [bucket]",
    ),
    "a mounted bucket": (
        swap(LAB, "    - name: notebooks", "    - name: datasets"),
        f"{LAB}:15:13: spec.storages[0].name: storage datasets is a bucket, which can't be mounted: list it under spec.buckets [bucket]",
    ),
    "a volume among the buckets": (
        swap(LAB, "    - name: datasets", "    - name: notebooks"),
        f"{LAB}:18:13: spec.buckets[0].name: storage notebooks is a volume: list it under spec.storages, with a mountPath [bucket]",
    ),
    "no such bucket": (
        swap(LAB, "    - name: datasets", "    - name: dataset"),
        f"{LAB}:18:13: spec.buckets[0].name: no GPUStorage is named 'dataset' in tenants/ml-orbit; did you mean 'datasets'? [reference]",
    ),
    "a bucket elsewhere": (
        both(
            swap(BUCKET, "cluster: eu-1", "cluster: us-1"),
            swap(
                "clusters/us-1/cluster.yaml",
                "  storages:\n",
                "  storages:\n    - storageSpec: objects\n      storageClassName: s3\n      capacity: 10Ti\n",
            ),
        ),
        f"{LAB}:18:13: spec.buckets[0].name: bucket datasets is in cluster us-1, and the instance is in eu-1: use the same cluster for both [bucket]",
    ),
    "no image that shows files": (
        swap("platform/platform.yaml", "    files: registry", "    prepare: registry"),
        f"{SHARED}:21:3: spec.accessor: platform/platform.yaml names no image that shows files: the platform team sets spec.images.files [reference]",
    ),
    "quota of snapshots": (
        swap("platform/plans/team.yaml", "    storage: 5Ti\n", "    storage: 5Ti\n    snapshots: 0\n"),
        f"{KITE_PLAN}: 1 snapshot is declared, plan team allows 0: remove 1, {ANOTHER_PLAN.format('studio-kite snapshots=VALUE')}",
    ),
}

STOCK = {
    "one instance too many": (
        lambda root: (
            copy(root, COMFY, "tenants/studio-kite/instances/zomfy.yaml")
            or edit(root, "clusters/eu-1/stocks/l4-whole.yaml", "count: 5", "count: 1")
            or edit(root, "tenants/studio-kite/instances/zomfy.yaml", "comfy-home", "outputs")
        ),
        "clusters/eu-1/stocks/l4-whole.yaml:9:10: spec.count: 4 units of l4-whole are held in eu-1, 1 more than its stock (1 shared, 2 held for studio-kite);"
        " held by studio-kite/webui-next 2, studio-kite/comfy 1, studio-kite/zomfy 1: raise its count, or stop instances [stock]",
    ),
    "another's own stock doesn't count": (
        both(
            swap("clusters/eu-1/stocks/l4-whole-kite.yaml", "tenant: studio-kite", "tenant: uni-lab"),
            swap("clusters/eu-1/stocks/l4-whole.yaml", "count: 5", "count: 2"),
        ),
        "clusters/eu-1/stocks/l4-whole.yaml:9:10: spec.count: 3 units of l4-whole are held in eu-1, 1 more than its stock (2 shared, 2 held for uni-lab);"
        " held by studio-kite/webui-next 2, studio-kite/comfy 1: raise its count, or stop instances [stock]",
    ),
    "stock reduced below what is held": (
        swap("clusters/us-1/stocks/l40s-spot.yaml", "count: 12", "count: 5"),
        "clusters/us-1/stocks/l40s-spot.yaml:9:10: spec.count: 6 units of l40s-spot are held in us-1, 1 more than its stock (5 shared);"
        " held by acme-robotics/simulate 6: raise its count, or stop instances [stock]",
    ),
    "packing by slices": (
        swap("clusters/eu-1/stocks/l4-quarter.yaml", "count: 40", "count: 46"),
        "clusters/eu-1/stocks/l4-quarter.yaml:9:10: spec.count: 1 of 46 units do not fit on the 3 nodes of pool l4-ts4 (its stocks: l4-quarter 46): a unit needs 3 CPU, and a node has 46, enough for 15: write at most 45, or more nodes [packing]",
    ),
    "packing of MIG slices": (
        swap("clusters/eu-1/stocks/a100-3g.yaml", "count: 5", "count: 9"),
        "clusters/eu-1/stocks/a100-3g.yaml:9:10: spec.count: 1 of 9 units do not fit on the 2 nodes of pool a100-mig (its stocks: a100-1g 14, a100-3g 9): they need 9 nvidia.com/mig-3g.40gb (the nodes have 8): write at most 8, or more nodes [packing]",
    ),
    "packing of sizes together": (
        swap("clusters/us-1/stocks/h100-one.yaml", "count: 8", "count: 9"),
        "clusters/us-1/stocks/h100-one.yaml:9:10: spec.count: 1 of 9 units do not fit on the 2 nodes of pool h100 (its stocks: h100-eight 1, h100-one 9): they need 17 nvidia.com/gpu (the nodes have 16), 378 CPU (the nodes have 376): write at most 8, or more nodes [packing]",
    ),
    "sharing differs": (
        swap("clusters/eu-1/stocks/l4-quarter.yaml", "nodePool: l4-ts4", "nodePool: l4-whole"),
        "clusters/eu-1/stocks/l4-quarter.yaml:8:13: spec.nodePool: spec l4-quarter and pool l4-whole differ: sharing timeSlicing with 4 replicas and none; name a pool that agrees [stock-pool]",
    ),
    "MPS is no time-slicing": (
        both(declare_all, swap("clusters/eu-1/stocks/l4-quarter.yaml", "nodePool: l4-ts4", "nodePool: l4-mps")),
        "clusters/eu-1/stocks/l4-quarter.yaml:8:13: spec.nodePool: spec l4-quarter and pool l4-mps differ: sharing timeSlicing with 4 replicas and mps with 4 replicas; name a pool that agrees [stock-pool]",
    ),
    "MPS of other replicas": (
        both(declare_all, swap("clusters/eu-1/stocks/l4-mps.yaml", "nodePool: l4-mps", "nodePool: l4-mps-film")),
        "clusters/eu-1/stocks/l4-mps.yaml:7:13: spec.nodePool: spec l4-mps and pool l4-mps-film differ: sharing mps with 4 replicas and mps with 2 replicas; name a pool that agrees [stock-pool]",
    ),
    "DRA isn't the device plugin": (
        both(declare_all, swap("clusters/eu-1/stocks/l4-dra.yaml", "nodePool: l4-dra", "nodePool: l4-whole")),
        "clusters/eu-1/stocks/l4-dra.yaml:7:13: spec.nodePool: spec l4-dra and pool l4-whole differ: sharing dra gpu.nvidia.com and none; name a pool that agrees [stock-pool]",
    ),
    "DRA of another partition": (
        both(declare_all, swap("platform/specs/a100-dra-3g.yaml", "3g.40gb", "2g.20gb")),
        "clusters/eu-1/stocks/a100-dra-3g.yaml:7:13: spec.nodePool: spec a100-dra-3g and pool a100-dra differ: sharing dra mig.nvidia.com 2g.20gb and dra mig.nvidia.com 1g.10gb, 3g.40gb; name a pool that agrees [stock-pool]",
    ),
    "MPS of single tenants names its tenant": (
        both(declare_all, swap("clusters/eu-1/stocks/l4-mps-film.yaml", "  tenant: film-house\n", "")),
        "clusters/eu-1/stocks/l4-mps-film.yaml:5:1: spec.tenant: spec l4-mps-single has tenancy Single, so its units must be reserved for a tenant: write the tenant [tenancy]",
    ),
    "MPS packs as many units as GPUs have": (
        both(declare_all, swap("clusters/eu-1/stocks/l4-mps.yaml", "count: 32", "count: 33")),
        "clusters/eu-1/stocks/l4-mps.yaml:8:10: spec.count: 1 of 33 units do not fit on the 2 nodes of pool l4-mps (its stocks: l4-mps 33): they need 33 nvidia.com/gpu.shared (the nodes have 32): write at most 32, or more nodes [packing]",
    ),
    "DRA packs sizes together": (
        both(declare_all, swap("clusters/eu-1/stocks/l4-dra.yaml", "count: 4", "count: 5")),
        "clusters/eu-1/stocks/l4-dra.yaml:8:10: spec.count: 1 of 5 units do not fit on the 2 nodes of pool l4-dra (its stocks: l4-dra 5, l4-dra-pair 2): they need 9 gpu.allotment.dev/gpu (the nodes have 8): write at most 4, or more nodes [packing]",
    ),
    "nodes of two pools": (
        swap("clusters/eu-1/node-pools/l4-whole.yaml", "pool: l4-whole", "pool: l4-ts4\n      disk: large"),
        "clusters/eu-1/node-pools/l4-whole.yaml:15:5: spec.static.nodeSelector: nodes with disk=large, pool=l4-ts4 match both pool l4-ts4 and pool l4-whole: select the nodes of each pool by a different label [pool-nodes]",
    ),
    "a key of the device plugin that there isn't": (
        swap("clusters/eu-1/node-pools/l4-ts4.yaml", "pool: l4-ts4", "nvidia.com/device-plugin.config: ts-4"),
        "clusters/eu-1/node-pools/l4-ts4.yaml:19:5: spec.static.nodeSelector: 'nvidia.com/device-plugin.config' is not a label: write letters, digits, '-', '_', '.', at most 63, no '/' [label]",
    ),
    "a key of the device plugin among Karpenter's requirements": (
        swap(
            "clusters/us-1/node-pools/h100.yaml",
            "    requirements:\n",
            "    requirements:\n      - key: nvidia.com/device-plugin.config\n        operator: Exists\n",
        ),
        "clusters/us-1/node-pools/h100.yaml:17:14: spec.karpenter.requirements[0].key: nvidia.com/device-plugin.config is set to exclusive by spec.sharing: remove the label [pool-nodes]",
    ),
    "capacity type differs": (
        swap("clusters/us-1/node-pools/l40s-spot.yaml", "capacityType: Spot", "capacityType: OnDemand"),
        "clusters/us-1/stocks/l40s-spot.yaml:8:13: spec.nodePool: spec l40s-spot and pool l40s-spot differ: capacityType Spot and OnDemand; name a pool that agrees [stock-pool]",
    ),
    "single tenancy names its tenant": (
        swap("clusters/eu-1/stocks/l4-half-film.yaml", "  tenant: film-house\n", ""),
        "clusters/eu-1/stocks/l4-half-film.yaml:6:1: spec.tenant: spec l4-half has tenancy Single, so its units must be reserved for a tenant: write the tenant [tenancy]",
    ),
    "single tenancy has its pool": (
        lambda root: (
            copy(root, "clusters/eu-1/stocks/l4-half-film.yaml", "clusters/eu-1/stocks/l4-half-uni.yaml")
            or edit(root, "clusters/eu-1/stocks/l4-half-uni.yaml", "film-house", "uni-lab")
            or edit(root, "clusters/eu-1/stocks/l4-half-uni.yaml", "count: 6", "count: 1")
        ),
        "clusters/eu-1/stocks/l4-half-film.yaml:10:11: spec.tenant: pool l4-ts2-film would serve tenant film-house and, by stock l4-half-uni, uni-lab: with tenancy Single a pool serves a single tenant [tenancy]",
    ),
}

BASE_ACCESSOR = "  accessor:\n    exposure: Members\n"
OUTPUTS = "tenants/studio-kite/storages/outputs.yaml"
HOME = "tenants/studio-kite/storages/comfy-home.yaml"
ACCESSOR = {
    "files that anyone could change": (
        swap(OUTPUTS, "    exposure: Members\n", "    exposure: Public\n    mode: ReadWrite\n"),
        f"{OUTPUTS}:14:11: spec.accessor.mode: anyone could change the files, because the exposure is Public: write exposure Members, or mode ReadOnly [accessor]",
    ),
    "files that other tenants could change": (
        swap(SHARED, BASE_ACCESSOR, f"{BASE_ACCESSOR}    mode: ReadWrite\n"),
        f"{SHARED}:23:11: spec.accessor.mode: other tenants connect to this accessor to copy the storage (spec.sharedWith), and could change its files: write mode ReadOnly, or remove sharedWith [accessor]",
    ),
    "files of a volume for one writer that an instance mounts": (
        swap(HOME, "  size: 100Gi\n", "  size: 100Gi\n  accessor:\n    mode: ReadWrite\n"),
        f"{HOME}:11:11: spec.accessor.mode: storage comfy-home is ReadWriteOnce and running instance comfy mounts it: write state: Stopped in the instance, or mode ReadOnly, or use a ReadWriteMany storage; or copy files through the instance: `tar -c FILES | allot exec studio-kite/comfy -- tar -C /workspace -x` [accessor]",
    ),
    "a bucket whose files members could change": (
        swap(BUCKET, "  size: 1Ti\n", "  size: 1Ti\n  accessor:\n    mode: ReadWrite\n"),
        f"{BUCKET}:10:3: spec.accessor: objects is a bucket, which has no files: remove accessor, or choose a volume [bucket]",
    ),
}

TENANT = {
    "ReadWriteOnce twice": (
        lambda root: copy(root, COMFY, "tenants/studio-kite/instances/dup.yaml"),
        "tenants/studio-kite/instances/dup.yaml:13:13: spec.storages[0].name: storage comfy-home is ReadWriteOnce and instance comfy mounts it too: run only one instance, or use a ReadWriteMany storage [mount]",
    ),
    "ReadWriteOnce by replicas": (
        swap(COMFY, "  storages:", "  replicas: 2\n  storages:"),
        f"{COMFY}:14:13: spec.storages[0].name: storage comfy-home is ReadWriteOnce and the instance has 2 replicas: write replicas: 1, or use a ReadWriteMany storage [mount]",
    ),
    "storage of another cluster": (
        swap("tenants/studio-kite/storages/outputs.yaml", "cluster: eu-1", "cluster: us-1"),
        f"{WEBUI}:23:13: spec.storages[1].name: storage outputs is in cluster us-1, and the instance is in eu-1: use the same cluster for both [mount]",
    ),
    "mount below a mount": (
        swap(WEBUI, "/workspace/outputs", "/workspace/models/out"),
        f"{WEBUI}:24:18: spec.storages[1].mountPath: /workspace/models/out is inside /workspace/models, another mount: choose a path outside it [mount]",
    ),
    "storage too large for its kind": (
        swap(ADA_STORAGE, "size: 60Gi", "size: 3Ti"),
        f"{ADA_STORAGE}:9:9: spec.size: 3Ti is outside the range of block-ssd: write 10Gi to 2Ti [size]",
    ),
    "sharing not allowed": (
        swap(ADA, "gpuSpec: l4-quarter", "gpuSpec: a100-1g"),
        f"{ADA}:8:12: spec.gpuSpec: a100-1g is Mig, and plan starter allows TimeSlicing: choose another GPUSpec, or another plan [limit]",
    ),
    "MPS not allowed": (
        both(
            declare_all,
            swap(ADA, "gpuSpec: l4-quarter", "gpuSpec: l4-mps"),
        ),
        f"{ADA}:8:12: spec.gpuSpec: l4-mps is Mps, and plan starter allows TimeSlicing: choose another GPUSpec, or another plan [limit]",
    ),
    "DRA not allowed": (
        both(
            declare_all,
            swap(ADA, "gpuSpec: l4-quarter", "gpuSpec: l4-dra"),
        ),
        f"{ADA}:8:12: spec.gpuSpec: l4-dra is Dra, and plan starter allows TimeSlicing: choose another GPUSpec, or another plan [limit]",
    ),
    "exposure not allowed": (
        swap(ADA_STORAGE, "exposure: Members", "exposure: Public"),
        f"{ADA_STORAGE}:11:15: spec.accessor.exposure: plan starter doesn't allow exposure Public, only Namespace, Members [limit]",
    ),
    "nobody to log in": (
        swap("tenants/solo-ada/members.yaml", "      subject: 00u1ada\n", ""),
        f"{ADA}:9:3: spec.app: tenants/solo-ada/members.yaml names no group and no user with a subject, so nobody can log in: add a group or a subject [limit]",
    ),
    "registry with a longer name": (
        swap("tenants/ml-orbit/instances/pretrain.yaml", "registry.example/orbit", "registry.example.evil.io/orbit"),
        "tenants/ml-orbit/instances/pretrain.yaml:14:12: spec.container.image: plan enterprise doesn't allow the registry of 'registry.example.evil.io/orbit/trainer:2026.11.2@sha256:{digest}', only registry.example/ [image]",
    ),
    "quota of GPUs": (
        swap("platform/plans/team.yaml", "nvidia-l4: 8", "nvidia-l4: 3"),
        f"{KITE_PLAN}: running instances take 3.25 nvidia-l4 GPUs, plan team allows 3; the largest are webui-next 2, comfy 1, webui 0.25: stop some,"
        f" or run them on smaller units, {ANOTHER_PLAN.format('studio-kite gpus.nvidia-l4=VALUE')}",
    ),
    "quota of instances": (
        swap("platform/plans/starter.yaml", "instances: 3", "instances: 0"),
        f"tenants/solo-ada/tenant.yaml:8:9: spec.plan: 1 instance is declared, plan starter allows 0: remove 1, {ANOTHER_PLAN.format('solo-ada instances=VALUE')}",
    ),
    "quota of storage": (
        swap("platform/plans/team.yaml", "storage: 5Ti", "storage: 750Gi"),
        f"{KITE_PLAN}: storages take 1600Gi together, plan team allows 750Gi; the largest are outputs 500Gi, outputs-restored 500Gi,"
        f" base 200Gi: declare 850Gi less, {ANOTHER_PLAN.format('studio-kite storage=VALUE')}",
    ),
    "own quota replaces the plan's": (
        swap("tenants/film-house/tenant.yaml", "nvidia-a100-80gb: 4", "nvidia-a100-80gb: 0"),
        "tenants/film-house/tenant.yaml:12:25: spec.quota.gpus.nvidia-a100-80gb: running instances take ~0.857 nvidia-a100-80gb GPUs, tenant "
        "film-house's own quota allows 0; the largest are train-fox ~0.429, train-owl ~0.429: stop some, or run them on smaller units, or ask the platform team"
        " to raise it: `allot request quota film-house gpus.nvidia-a100-80gb=VALUE --reason TEXT` [quota]",
    ),
    "own quota of instances": (
        swap("tenants/uni-lab/tenant.yaml", "instances: 30", "instances: 2"),
        "tenants/uni-lab/tenant.yaml:13:16: spec.quota.instances: 4 instances are declared, tenant uni-lab's own quota allows 2: remove 2,"
        " or ask the platform team to raise it: `allot request quota uni-lab instances=VALUE --reason TEXT` [quota]",
    ),
    "budget": (
        swap("platform/plans/team.yaml", 'perMonth: "4000"', 'perMonth: "2000"'),
        "tenants/studio-kite/tenant.yaml:9:9: spec.plan: the declared resources cost 2276.90 EUR a month, but plan team allows 2000.00; the most expensive are"
        " instance webui-next 1226.40, instance comfy 613.20, instance webui 153.30: reduce the cost by 276.90, or ask the platform team "
        "for another plan [budget]",
    ),
    "shared memory": (
        swap("platform/specs/l4-quarter.yaml", "memory: 12Gi", "memory: 3Gi"),
        f"{ADA}:9:3: spec.app: the container's /dev/shm of 4Gi is more than the memory of a unit of l4-quarter, 3Gi: choose a larger GPUSpec [size]",
    ),
    "storage capacity": (
        swap("clusters/eu-1/cluster.yaml", "capacity: 400Ti", "capacity: 2Ti"),
        "clusters/eu-1/cluster.yaml:41:17: spec.storages[2].capacity: storages of shared-files take 4098Gi in eu-1, its capacity is 2Ti;"
        " the largest are film-house/characters 2Ti, studio-kite/outputs 500Gi, studio-kite/outputs-restored 500Gi [storage-capacity]",
    ),
    "domain within a domain": (
        swap(
            "clusters/us-1/cluster.yaml",
            "domain: us-1.gpu.northlight.example",
            "domain: us.eu-1.gpu.northlight.example",
        ),
        "clusters/us-1/cluster.yaml:10:11: spec.domain: us.eu-1.gpu.northlight.example is equal to or inside eu-1.gpu.northlight.example, the domain of cluster eu-1: choose a domain outside it [domain]",
    ),
}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        pytest.param(*case, id=name)
        for table in (REFERENCE, SOURCES, STOCK, ACCESSOR, TENANT)
        for name, case in table.items()
    ],
)
def test_a_rule_says_exactly(change: Change, line: str, sample: Path, allot: Allot) -> None:
    change(sample)
    result = allot("validate", "--repo", sample, "--as-of", DAY, "--no-memory")
    assert result.code == 1, result
    error_lines = list(errors(result))
    if "{digest}" in line:
        digest = error_lines[0].split("sha256:")[1][:64]
        line = line.replace("{digest}", digest[:-1] + digest[-1])
        error_lines = [error_line.replace(" (198 characters)", "") for error_line in error_lines]
    assert line in error_lines, "\n" + "\n".join(["wanted", line, "said", *error_lines])


def test_each_instance_that_mounts_a_storage_of_a_single_writer_is_named(sample: Path, allot: Allot) -> None:
    for name in ("dup", "third"):
        copy(sample, COMFY, f"tenants/studio-kite/instances/{name}.yaml")
    lines = [line for line in errors(allot("validate", "--repo", sample, "--as-of", DAY)) if line.endswith("[mount]")]
    fix = "run only one instance, or use a ReadWriteMany storage [mount]"
    others = {"comfy": "dup, third", "dup": "comfy, third", "third": "comfy, dup"}
    assert lines == [
        f"tenants/studio-kite/instances/{name}.yaml:13:13: spec.storages[0].name: storage comfy-home is ReadWriteOnce and instances"
        f" {words} mount it too: {fix}"
        for name, words in others.items()
    ]


def test_a_mount_of_a_storage_that_is_marked_for_deletion_gets_a_warning(sample: Path, allot: Allot) -> None:
    edit(sample, ADA_STORAGE, "  cluster: eu-1\n", "  cluster: eu-1\n  deletionPolicy: Delete\n")
    result = allot("validate", "--repo", sample, "--as-of", DAY)
    advice = "keep it with `allot set storage/solo-ada/models deletionPolicy-`, or mount another [mount]"
    assert result.code == 0
    assert [line for line in result.lines if line.endswith("[mount]")] == [
        f"{ADA}:15:13: spec.storages[0].name: warning: storage models is marked for deletion: {advice}"
    ]


ADA_MOUNT = f"{ADA}:16:18: spec.storages[0].mountPath: warning: "
ADA_FOLDERS = (
    "is not a folder of app stable-diffusion-webui 1.11.0, which has /workspace/models, /workspace/base, "
    "/workspace/outputs; mount the storage there, or name this path in container.args or container.env [app-folder]"
)


@pytest.mark.parametrize(
    ("path", "warnings"),
    [
        ("/models", [f"{ADA_MOUNT}/models {ADA_FOLDERS}"]),
        ("/workspace/models2", [f"{ADA_MOUNT}/workspace/models2 {ADA_FOLDERS}"]),
        ("/workspace/models/sd", []),
        ("/workspace", []),
        ("/workspace/outputs", []),
    ],
)
def test_a_storage_outside_the_folders_of_its_app_gets_a_warning(
    path: str, warnings: list[str], sample: Path, allot: Allot
) -> None:
    edit(sample, ADA, "mountPath: /workspace", f"mountPath: {path}")
    result = allot("validate", "--repo", sample, "--as-of", DAY)
    assert result.code == 0
    assert [line for line in result.lines if "app-folder" in line] == warnings


def test_an_instance_may_lead_its_app_to_a_folder_by_its_own_args(sample: Path, allot: Allot) -> None:
    edit(sample, ADA, "mountPath: /workspace", "mountPath: /models")
    edit(sample, ADA, "  storages:\n", "  container:\n    args:\n      - --ckpt-dir=/models\n  storages:\n")
    result = allot("validate", "--repo", sample, "--as-of", DAY)
    assert result.code == 0
    assert "app-folder" not in result.out


def test_an_app_without_folders_says_nothing_about_mounts(sample: Path, allot: Allot) -> None:
    app = sample / "platform/apps/stable-diffusion-webui.yaml"
    text = app.read_text(encoding="utf-8")
    app.write_text(text[: text.rindex("      folders:\n")], encoding="utf-8")
    edit(sample, ADA, "mountPath: /workspace", "mountPath: /models")
    assert "app-folder" not in allot("validate", "--repo", sample, "--as-of", DAY).out


@pytest.mark.parametrize(("folder", "name"), [("clusters/us-1", "us"), ("tenants/uni-lab", "ul")])
def test_a_file_in_a_folder_with_a_rejected_name_is_not_missing(
    folder: str, name: str, sample: Path, allot: Allot
) -> None:
    (sample / folder).rename((sample / folder).with_name(name))
    lines = allot("validate", "--repo", sample, "--as-of", DAY).lines
    assert [line for line in lines if f"name '{name}' has 2 characters: write 3 to " in line]
    assert not [line for line in lines if "is missing" in line]


def test_the_sample_is_fine(sample: Path, allot: Allot) -> None:
    result = allot("validate", "--repo", sample, "--as-of", DAY)
    assert (result.code, errors(result)) == (0, [])
    assert result.out.splitlines()[-1] == f"{count_declarations(sample)} files of 7 tenants: fine, 3 warnings"


def test_a_mig_managers_configuration_may_be_named_by_its_profile(sample: Path, allot: Allot) -> None:
    edit(sample, "clusters/eu-1/node-pools/a100-mig.yaml", "config: all-balanced", "config: all-1g.10gb")
    assert allot("validate", "--repo", sample, "--as-of", DAY).code == 0


def test_a_deprecated_version_names_the_command_of_its_replacement(sample: Path, allot: Allot) -> None:
    result = allot("validate", "--repo", sample, "--as-of", DAY)
    assert result.code == 0
    assert (
        "tenants/studio-kite/instances/webui.yaml:14:14: spec.app.version: warning: stable-diffusion-webui 1.10.1 is"
        " Deprecated: nothing new should use it, use 1.11.0 with `allot set instance/studio-kite/webui app.version=1.11.0`"
        " [lifecycle]" in result.lines
    )


def test_retired_offers_only_warn_who_uses_them_already(sample: Path, allot: Allot) -> None:
    edit(sample, "platform/specs/l4-quarter.yaml", "spec:\n", "spec:\n  lifecycle: Retired\n")
    result = allot("validate", "--repo", sample, "--as-of", DAY)
    assert result.code == 0
    assert (
        f"{ADA}:8:12: spec.gpuSpec: warning: GPUSpec l4-quarter is Retired: nothing new should use it [lifecycle]"
        in result.lines
    )
