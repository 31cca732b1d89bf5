"""Cluster: where instances and storages run."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from allotment.declared.addresses import Cidr, Domain, HttpsUrl, HttpUrl, IssuerUrl
from allotment.declared.kinds.declaration import CatalogSpec, Declaration, StrictModel, check_one_of, unique_by
from allotment.declared.references import StorageSpecReference
from allotment.declared.values import KubernetesName, Size, SshKey


class Destination(StrictModel):
    """The cluster as Argo CD knows it: exactly one of name and server."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("name", "server")
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")] | None = Field(
        default=None, description="As `argocd cluster list` says it."
    )
    server: HttpsUrl | None = Field(default=None, description="The address of its API server, as Argo CD has it.")
    _check_one_of = model_validator(mode="after")(check_one_of)


class Gateway(StrictModel):
    """The Gateway that instances are reached through."""

    name: KubernetesName = Field(description="The Gateway's own name.")
    namespace: KubernetesName = Field(description="The namespace that it lies in.")
    section_name: KubernetesName = Field(description="The HTTPS listener, for *.<domain>.")


class SecretRef(StrictModel):
    """A Secret."""

    name: KubernetesName = Field(description="The Secret's own name.")
    namespace: KubernetesName = Field(description="The namespace that it lies in: the Gateway's.")


class Oidc(StrictModel):
    """Who logs people in at the Gateway."""

    issuer: IssuerUrl = Field(description="As its tokens say it in `iss`, to the letter.")
    client_id: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")] = Field(
        alias="clientID", description="What the issuer calls this cluster's Gateway."
    )
    client_secret_ref: SecretRef = Field(description="A Secret with the key client-secret.")
    jwks_uri: HttpsUrl | None = Field(
        default=None,
        alias="jwksURI",
        description="Where the issuer's keys lie; absent: <issuer>/.well-known/jwks.json.",
    )


class ObjectStore(StrictModel):
    """Where instances reach their buckets."""

    endpoint: HttpUrl | None = Field(
        default=None, description="What they get as AWS_ENDPOINT_URL; absent: BUCKET_HOST and BUCKET_PORT alone say it."
    )
    namespace: KubernetesName | None = Field(
        default=None, description="Of the store's own pods, where it runs in the cluster: opened to who has a bucket."
    )


class ClusterStorage(StrictModel):
    """A StorageSpec that this cluster has."""

    storage_spec: StorageSpecReference = Field(description="A StorageSpec of the platform.")
    storage_class_name: KubernetesName = Field(description="Its reclaim policy is Retain.")
    capacity: Size = Field(description="The most that all storages of this kind may take together.")
    cloning: Literal["Volume", "Copy"] = Field(
        default="Copy",
        description="How one becomes another's clone: Volume, by the CSI driver, within seconds; Copy, file by file.",
    )
    volume_snapshot_class_name: KubernetesName | None = Field(
        default=None, description="Its deletion policy is Retain; absent: no snapshots here."
    )
    object_store: ObjectStore | None = Field(default=None, description="Of buckets.")


class Monitoring(StrictModel):
    """Where people see graphs of what runs in the cluster."""

    grafana_url: HttpsUrl = Field(
        alias="grafanaURL",
        description="A dashboard with the variables cluster, namespace and instance, such as https://grafana.example/d/gpus/instances.",
    )


class Network(StrictModel):
    """What tenants' pods may reach."""

    denied: list[Cidr] = Field(
        default=[],
        max_length=100,
        description="Public addresses of your own that no tenant may reach: nodes, API server, offices. Private ones"
        " and clouds' metadata services are denied already.",
    )


class KarpenterSettings(StrictModel):
    """How the cluster's Karpenter is set up."""

    feature_gates: list[Literal["NodeOverlay"]] = Field(
        default=[],
        max_length=10,
        description="Gates that are on there, though they are off by default. Without NodeOverlay no pool of slices"
        " grows: Karpenter doesn't know what a node of it will have.",
    )


class Reporter(StrictModel):
    """Who writes the cluster's status."""

    public_key: SshKey = Field(description="Only what this key has signed is believed, such as ssh-ed25519 AAAA….")


class ClusterSpec(CatalogSpec):
    """How the cluster is reached and what it has."""

    destination: Destination
    domain: Domain = Field(
        description="Instances are served at labels below it; no cluster's domain lies within another's."
    )
    gateway: Gateway
    oidc: Oidc
    storages: Annotated[list[ClusterStorage], unique_by("storage_spec")] = Field(default=[])
    disk_storage_class_name: KubernetesName = Field(
        description="Of the units' own disks; its reclaim policy is Delete."
    )
    network: Network = Field(default=Network())
    monitoring: Monitoring | None = None
    karpenter: KarpenterSettings = Field(default=KarpenterSettings())
    reporter: Reporter | None = Field(
        default=None, description="Absent: status commits aren't signed, and whoever may push there is believed."
    )


class Cluster(Declaration):
    """A Kubernetes cluster that instances and storages run on.

    Its nodes are declared as NodePools, what they hold ready as Stocks, in the folders beside it.
    """

    kind: Literal["Cluster"]
    spec: ClusterSpec
