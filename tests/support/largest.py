"""A repository in which every list is as long, and every text as long, as validation allows: what it renders must fit the API."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from allotment.declared.kinds.gpu_storage import S3_KEYS

DIGEST = f"sha256:{'0' * 64}"
IMAGE = f"{'r' * 60}.example/{'i' * 200}:{'v' * (400 - 342)}@{DIGEST}"
TENANT, CLUSTER, INSTANCE, STORAGE = "t" * 20, "eu-1", "i" * 24, "s" * 32
TEXT, NAME = "ß" * 2000, "ä" * 100
MODEL = f"nvidia-{'m' * 25}"
SECRET, SECRET_KEY = "k" * 32, "y" * 250 + "000"
SPEC, POOL, PLAN = "g" * 32, "n" * 32, "p" * 32
LABELS = {f"{number:02}" + "k" * 61: "v" * 63 for number in range(20)}
OTHERS = 200  # tenants that a storage is shared with


class _Plain(yaml.SafeDumper):
    """Writes what comes twice twice: anchors aren't allowed."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def numbered(letter: str, count: int, length: int) -> list[str]:
    """Return names of a length, all different."""
    return [f"{letter * (length - 3)}{number:03}" for number in range(count)]


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _declare(root: Path, path: str, kind: str, name: str, spec: Any) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"name": name, "labels": LABELS}
    whole = {"apiVersion": "allotment.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
    file.write_text(yaml.dump(whole, Dumper=_Plain, allow_unicode=True, width=10_000), encoding="utf-8")


def _described(**more: Any) -> dict[str, Any]:
    return {"displayName": NAME, "description": TEXT, **more}


def _key(number: int) -> str:
    kind = b"ssh-ed25519"
    blob = len(kind).to_bytes(4, "big") + kind + (32).to_bytes(4, "big") + number.to_bytes(32, "big")
    head = f"ssh-ed25519 {base64.b64encode(blob).decode()} "
    return head + "c" * (200 - len(head))


def _members() -> dict[str, Any]:
    roles = ("Admin", "Member", "Viewer")
    groups = [{"name": name, "role": roles[at % 2]} for at, name in enumerate(numbered("G", 15, 100))]
    users: list[dict[str, Any]] = [
        {"name": name, "role": "Member", "login": f"l{'x' * 36}{at:03}", "subject": f"{'u' * 97}{at:03}"}
        for at, name in enumerate(numbered("u", 200, 32))
    ]
    users[0] |= {"role": "Admin", "sshKeys": [_key(number) for number in range(20)]}
    return _described(groups=groups, users=users)


def _container(*, ports: int, exposure: str) -> dict[str, Any]:
    names = ["http", *numbered("p", ports - 1, 15)]
    return {
        "image": IMAGE,
        "command": ["c" * 100] * 100,
        "args": ["a" * 100] * 500,
        "env": [{"name": f"{'E' * 250}{at:03}", "value": "v" * (200 if at else 32_768)} for at in range(200)],
        "ports": [
            {"name": name, "containerPort": 65_000 + at, "exposure": exposure, "basePath": "/" + "b" * 199}
            for at, name in enumerate(names)
        ],
        "probe": {"httpGet": {"path": "/" + "h" * 499, "port": "http"}, "startTimeout": "99h59m59s"},
        "shmSize": "1Gi",
    }


def _instance(exposure: str) -> dict[str, Any]:
    mounts = [
        {"name": STORAGE, "mountPath": f"/{'m' * 196}{at:03}", "subPath": f"{'d' * 197}{at:03}"} for at in range(30)
    ]
    container = _container(ports=20, exposure=exposure)
    container["env"][1] = {
        "name": container["env"][1]["name"],
        "valueFrom": {"secretKeyRef": {"name": SECRET, "key": SECRET_KEY}},
    }
    buckets = [{"name": name, "envPrefix": f"{'B' * 36}{at:03}_"} for at, name in enumerate(numbered("b", 10, 32))]
    return _described(
        cluster=CLUSTER,
        gpuSpec=SPEC,
        container=container,
        replicas=100,
        access=["SSH"],
        spread=["Zones", "Nodes"],
        storages=mounts,
        buckets=buckets,
    )


def _platform(root: Path) -> None:
    gpu = {"model": MODEL, "count": 1, "memory": "24Gi", "cudaCores": 1_000_000}
    prices = [{"from": "2026-01-01", "perHour": "999999999.999999"}]
    spec = _described(gpu=gpu, cpu=1, memory="9Gi", disk="9999999Ti", tenancy="Multi", prices=prices)
    _declare(
        root, f"platform/specs/{SPEC}.yaml", "GPUSpec", SPEC, {**spec, "sharing": {"timeSlicing": {"replicas": 64}}}
    )
    allow = {
        "spread": ["Zones", "Nodes"],
        "sharing": ["Exclusive", "TimeSlicing", "Mig"],
        "exposure": ["Members", "Public"],
        "imageRegistries": [IMAGE.partition("/")[0] + "/"],
    }
    quota = {"gpus": {MODEL: 1_000_000}, "instances": 1_000_000, "storages": 1_000_000, "storage": "9999999Ti"}
    plan = _described(quota={**quota, "snapshots": 1_000_000}, allow=allow)
    _declare(root, f"platform/plans/{PLAN}.yaml", "Plan", PLAN, plan)
    _declare(
        root,
        "platform/apps/largest.yaml",
        "App",
        "largest",
        _described(versions=[{"version": "1" * 32, "container": _container(ports=20, exposure="Public")}]),
    )


def _cluster(root: Path) -> None:
    file = root / f"clusters/{CLUSTER}/cluster.yaml"
    whole = _read(file)
    whole["metadata"]["labels"] = LABELS
    spec = whole["spec"]
    spec |= _described(domain=".".join(["d" * 63, "d" * 63, "d" * 61]))
    spec["destination"] = {"server": f"https://{'s' * 200}/{'p' * 44}"}
    spec["gateway"] = {
        **dict.fromkeys(("name", "namespace", "sectionName", "proxyNamespace"), "g" * 63),
        "managed": True,
        "certificate": {"secretName": "w" * 63},
        "timeouts": {"request": "8759h59m59s", "idle": "8759h59m59s"},
        "requestsPerSecond": 1_000_000,
    }
    spec["oidc"] = {
        "issuer": f"https://{'i' * 60}/{'p' * 161}",
        "clientID": "c" * 200,
        "cliClientID": "d" * 200,
        "endpoints": dict.fromkeys(("authorization", "token", "endSession"), f"https://{'e' * 60}/{'p' * 184}"),
        "scopes": [f"{number:02d}{'s' * 62}" for number in range(20)],
        "clientSecretRef": {"name": "x" * 63, "namespace": "g" * 63},
    }
    long = f"2606:{':'.join(['4700'] * 7)}/128"
    spec["network"] = {
        "nodeLocalDNS": ":".join(["fd12"] * 8),
        "denied": [long, *(f"8.8.{number}.0/24" for number in range(99))],
    }
    for storage in spec["storages"]:
        storage["capacity"] = "9999999Ti"
    spec["diskStorageClassName"] = "k" * 63
    spec["ssh"] = {"host": ".".join(["s" * 63] * 3 + ["s" * 61]), "port": 65_535, "hostKey": _key(0)}
    spec["secretStore"] = {"name": "v" * 63, "prefix": "/".join(["x" * 39] * 4 + ["x" * 40])}
    spec["secretStore"]["imagePull"] = {"path": "/".join(["z" * 39] * 4 + ["z" * 40]), "property": "r" * 253}
    file.write_text(yaml.dump(whole, Dumper=_Plain, allow_unicode=True, width=10_000), encoding="utf-8")
    pool = _described(
        node={"gpu": {"model": MODEL, "count": 64}, "cpu": 100_000, "memory": "9999999Ti"},
        sharing={"timeSlicing": {"replicas": 64}},
        static={"nodes": 1_000_000, "nodeSelector": LABELS},
    )
    _declare(root, f"clusters/{CLUSTER}/node-pools/{POOL}.yaml", "NodePool", POOL, pool)
    stock = _described(gpuSpec=SPEC, nodePool=POOL, count=1_000_000, warm=1_000_000)
    _declare(root, f"clusters/{CLUSTER}/stocks/{POOL}.yaml", "Stock", POOL, stock)


def _bought(root: Path) -> None:
    terms = [{"tags": {f"{'t' * 120}{at:03}": "v" * 256}} for at in range(30)]
    bought = {
        "maxNodes": 1_000_000,
        "requirements": [
            {
                "key": f"{'e' * 126}.{'e' * 125}/{'k' * 60}{at:03}",
                "operator": "In",
                "values": numbered("V", 15 if at else 100, 63),
            }
            for at in range(90)
        ],
        "ec2": {
            "role": "r" * 64,
            "amiSelectorTerms": terms,
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
        },
        "expireAfter": "8784h",
    }
    node = {"gpu": {"model": MODEL, "count": 64}, "cpu": 100_000, "memory": "9999999Ti"}
    named = {"group": f"{'g' * 126}.{'g' * 126}", "kind": "K" * 63, "name": "n" * 63}
    of_another = {key: value for key, value in bought.items() if key != "ec2"} | {"nodeClassRef": named}
    for name, karpenter in (("k" * 32, bought), ("l" * 32, of_another)):
        pool = _described(node=node, karpenter=karpenter, generation=1_000_000)
        _declare(root, f"clusters/us-1/node-pools/{name}.yaml", "NodePool", name, pool)


def _tenant(root: Path) -> None:
    folder = f"tenants/{TENANT}"
    quota = {"gpus": {MODEL: 1_000_000}, "instances": 1_000_000, "storage": "9999999Ti"}
    ranges = [f"2001:db8:{number:x}::/48" for number in range(1, 65)]
    _declare(root, f"{folder}/tenant.yaml", "Tenant", TENANT, _described(plan=PLAN, quota=quota, allowedCIDRs=ranges))
    _declare(root, f"{folder}/members.yaml", "Members", TENANT, _members())
    for letter, exposure in (("i", "Members"), ("j", "Public")):
        name = letter * 24
        _declare(root, f"{folder}/instances/{name}.yaml", "GPUInstance", name, _instance(exposure))
    app = _described(cluster=CLUSTER, gpuSpec=SPEC, app={"name": "largest", "version": "1" * 32})
    app["container"] = {"args": ["a" * 100] * 500, "env": _container(ports=1, exposure="Public")["env"]}
    _declare(root, f"{folder}/instances/{'a' * 24}.yaml", "GPUInstance", "a" * 24, app)
    on_hold = _described(cluster=CLUSTER, gpuSpec=SPEC, app={"name": "largest", "version": "1" * 32})
    on_hold["hold"] = {"reason": "r" * 200}
    _declare(root, f"{folder}/instances/{'h' * 24}.yaml", "GPUInstance", "h" * 24, on_hold)
    volume = {"cluster": CLUSTER, "storageSpec": "shared-files", "size": "50Gi"}
    prepare = {"attempt": 9999, "timeout": "8784h"}
    sources: dict[str, Any] = {
        "s": {"image": {"image": IMAGE, "command": ["c" * 100] * 100, "args": ["a" * 100] * 500}},
        "u": {"url": {"url": f"https://models.example/{'u' * 1977}", "sha256": "0" * 64, "path": "p" * 200}},
        "x": {
            "s3": {
                "endpoint": f"https://{'e' * 60}.example/{'p' * 176}",
                "bucket": "b" * 63,
                "prefix": "f" * 500,
                "region": "r" * 40,
                "secretRef": {"name": SECRET},
            }
        },
    }
    shared = [{"tenant": name} for name in numbered("o", OTHERS, 20)]
    for letter, source in sources.items():
        name = letter * 32
        spec = _described(**volume, prepare={"source": source, **prepare}, accessor={"exposure": "Members"})
        _declare(root, f"{folder}/storages/{name}.yaml", "GPUStorage", name, {**spec, "sharedWith": shared})
    for name in numbered("b", 10, 32):
        spec = _described(**{**volume, "storageSpec": "objects"})
        _declare(root, f"{folder}/storages/{name}.yaml", "GPUStorage", name, spec)
    keys = [
        {"name": name, "path": "/".join(["x" * 39] * 4 + ["x" * 40]), "property": "r" * 253}
        for name in (*numbered("y", 48, 253), *S3_KEYS)
    ]
    secret = _described(cluster=CLUSTER, keys=keys, refreshInterval="23h59m59s")
    _declare(root, f"{folder}/secrets/{SECRET}.yaml", "SecretReference", SECRET, secret)
    pull = {**secret, "type": "ImagePull", "keys": [{**keys[0], "name": ".dockerconfigjson"}]}
    _declare(root, f"{folder}/secrets/{'j' * 32}.yaml", "SecretReference", "j" * 32, pull)
    snapshot = "z" * 32
    _declare(root, f"{folder}/snapshots/{snapshot}.yaml", "GPUStorageSnapshot", snapshot, _described(storage="s" * 32))
    for name in numbered("o", OTHERS, 20):
        _declare(root, f"tenants/{name}/tenant.yaml", "Tenant", name, {"plan": PLAN})


def grow(root: Path) -> None:
    """Add to a copy of the sample what is as large as validation allows, and make its cluster `eu-1` so."""
    _platform(root)
    _cluster(root)
    _bought(root)
    _tenant(root)
