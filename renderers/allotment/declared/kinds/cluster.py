"""Cluster: a Kubernetes cluster that runs instances and storages."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.addresses import Cidr, Domain, Host, HttpsUrl, HttpUrl, IpAddress, IssuerUrl, OidcScope
from allotment.declared.kinds.declaration import CatalogSpec, Declaration, StrictModel, check_one_of, unique_by
from allotment.declared.kinds.gateway import Gateway
from allotment.declared.references import StorageSpecReference
from allotment.declared.secret_stores import SecretProperty, StorePath
from allotment.declared.values import Count, KubernetesName, Size, SshKey, pattern_field


class Destination(StrictModel):
    """The cluster as registered in Argo CD: exactly one of name and server."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("name", "server")
    name: (
        Annotated[
            str,
            pattern_field(
                r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
                "letters, digits, '.', '_' and '-', at most 63, a letter or digit first",
            ),
        ]
        | None
    ) = Field(default=None, description="The name of the cluster in `argocd cluster list`.")
    server: HttpsUrl | None = Field(default=None, description="The URL of the API server, as registered in Argo CD.")
    _check_one_of = model_validator(mode="after")(check_one_of)


class SecretRef(StrictModel):
    """A reference to a Secret."""

    name: KubernetesName = Field(description="The name of the Secret.")
    namespace: KubernetesName = Field(
        description="The namespace of the Secret, which must be the namespace of the Gateway."
    )


class OidcEndpoints(StrictModel):
    """The endpoints of the provider, as in its discovery document."""

    authorization: HttpsUrl = Field(description="The value of authorization_endpoint.")
    token: HttpsUrl = Field(description="The value of token_endpoint.")
    end_session: HttpsUrl | None = Field(
        default=None,
        description="The value of end_session_endpoint. Default: a logout ends the session at the Gateway, but not at the"
        " provider.",
    )


class Oidc(StrictModel):
    """The OpenID Connect provider that authenticates people at the Gateway."""

    issuer: IssuerUrl = Field(description="The URL of the issuer, exactly as in the `iss` claim of its tokens.")
    client_id: Annotated[
        str, pattern_field(r"^[\x21-\x7e]+$", "printable ASCII characters without spaces", min_length=1, max_length=200)
    ] = Field(alias="clientID", description="The client ID of this cluster's Gateway at the issuer.")
    cli_client_id: (
        Annotated[
            str,
            pattern_field(r"^[\x21-\x7e]+$", "printable ASCII characters without spaces", min_length=1, max_length=200),
        ]
        | None
    ) = Field(
        default=None,
        alias="cliClientID",
        description="The client ID of `allot login` at the same issuer: a public client without a secret, for the authorization"
        " code flow with PKCE, with the redirect URI http://localhost/callback on any port. With it, the Gateway also admits"
        " programs of members, which send an ID token as a bearer token. It removes the header Authorization from all requests"
        " to Members ports, so these containers receive no token. Default: only browsers can log in.",
    )
    client_secret_ref: SecretRef = Field(
        description="The Secret that contains the client secret under the key client-secret."
    )
    jwks_uri: HttpsUrl | None = Field(
        default=None,
        alias="jwksURI",
        description="The URL of the issuer's public keys. Default: <issuer>/.well-known/jwks.json.",
    )
    endpoints: OidcEndpoints | None = Field(
        default=None,
        description="The endpoints of the provider. Declare them so that an outage of the provider does not end sessions before"
        " their ID token expires. Default: Envoy Gateway reads them from the provider whenever an object changes, and denies"
        " everybody if it can't.",
    )
    callback_host: Host | None = Field(
        default=None,
        description="The one host below spec.domain to which the provider returns people after a login, such as"
        " login.<domain>. Register only https://<callbackHost>/oauth2/callback at the provider. A login then counts for all"
        " hosts of the cluster, so no port may be Public. Default: each host has its own login and its own callback.",
    )
    scopes: list[OidcScope] = Field(
        default=[],
        max_length=20,
        description="The scopes that a login requests, in addition to openid, such as groups and offline_access. Default:"
        " openid only.",
    )

    @property
    def effective_jwks_uri(self) -> str:
        """The URL of the issuer's public keys."""
        return self.jwks_uri or f"{self.issuer.rstrip('/')}/.well-known/jwks.json"


class ObjectStore(StrictModel):
    """The object store that holds the buckets."""

    endpoint: HttpUrl | None = Field(
        default=None,
        description="The value of AWS_ENDPOINT_URL in instances. Default: none; instances use BUCKET_HOST and BUCKET_PORT.",
    )
    namespace: KubernetesName | None = Field(
        default=None,
        description="The namespace of the object store's pods, if it runs in the cluster. Only instances that declare a"
        " bucket may connect to it.",
    )


class ClusterStorage(StrictModel):
    """A StorageSpec that this cluster has."""

    storage_spec: StorageSpecReference = Field(description="A StorageSpec of the platform.")
    storage_class_name: KubernetesName = Field(description="Its reclaim policy is Retain.")
    capacity: Size = Field(description="The maximum total size of all storages of this kind.")
    cloning: Literal["Volume", "Copy"] = Field(
        default="Copy",
        description="How a storage is cloned. Volume: by the CSI driver, within seconds. Copy: file by file.",
    )
    volume_snapshot_class_name: KubernetesName | None = Field(
        default=None, description="Its deletion policy is Retain. Default: no snapshots in this cluster."
    )
    object_store: ObjectStore | None = Field(default=None, description="Of buckets.")


class Monitoring(StrictModel):
    """The dashboards that show metrics of the instances in the cluster."""

    grafana_url: HttpsUrl = Field(
        alias="grafanaURL",
        description="The URL of a dashboard with the variables cluster, namespace and instance, such as"
        " https://grafana.example/d/gpus/instances.",
    )


class Network(StrictModel):
    """Configures the addresses that the pods of tenants may connect to."""

    denied: list[Cidr] = Field(
        default=[],
        max_length=100,
        description="Your public addresses that no tenant may connect to, such as those of nodes, API servers and"
        " offices. Private addresses and the metadata services of clouds are always denied.",
    )
    node_local_dns: IpAddress | None = Field(
        default=None,
        alias="nodeLocalDNS",
        description="The address at which NodeLocal DNSCache listens on every node. The pods of tenants may send DNS"
        " queries there. Default: none; they query the pods of kube-dns.",
    )


class PlatformImagePull(StrictModel):
    """The place of the platform's credential for private container registries. All tenants pull images with it."""

    path: StorePath = Field(
        description="The path of a Docker config JSON in the store, such as platform/registry, outside the prefix of the"
        " tenants. Each tenant can run every image that this credential can pull, and read its files."
    )
    property_: SecretProperty | None = Field(
        default=None,
        alias="property",
        description="The field to read if the value in the store is a JSON object. Default: the whole value.",
    )


class SecretStore(StrictModel):
    """The secret store of the cluster, which External Secrets Operator reads for SecretReferences.

    A tenant's SecretReferences read only below the path <prefix>/<tenant> of the store.
    """

    name: KubernetesName = Field(description="The name of the ClusterSecretStore.")
    prefix: StorePath = Field(
        default="tenants",
        description="The path in the store that has a folder for each tenant. The path at which Vault mounts its engine"
        " is no part of it.",
    )
    restarts_instances: bool = Field(
        default=False,
        description="Whether Stakater Reloader runs in the cluster and restarts instances that declare"
        " `onSecretChange: Restart`.",
    )
    image_pull: PlatformImagePull | None = Field(
        default=None,
        description="Default: pods pull images only with the credentials of their own tenant.",
    )

    @model_validator(mode="after")
    def _check_image_pull_path(self) -> Self:
        path = self.image_pull.path if self.image_pull is not None else None
        if path is not None and (f"{path}/".startswith(f"{self.prefix}/") or f"{self.prefix}/".startswith(f"{path}/")):
            raise PydanticCustomError(
                "image-pull-path",
                "secretStore.imagePull.path {path} and secretStore.prefix {prefix} overlap, so that a tenant could read or"
                " write the platform's credential: write a path outside the prefix, such as platform/registry",
                {"path": path, "prefix": self.prefix},
            )
        return self


class Ssh(StrictModel):
    """The SSH gateway of the cluster, which connects people to their instances: `allot ssh-gateway`."""

    host: Host = Field(description="The host to which people connect, such as ssh.<domain>.")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(default=22, description="The TCP port of the host.")
    host_key: SshKey | None = Field(
        default=None,
        description="The SSH public key of the host, such as ssh-ed25519 AAAA…. `allot instance open --ssh` prints it, so"
        " that people can compare it at their first login.",
    )


class KarpenterSettings(StrictModel):
    """The configuration of Karpenter in the cluster."""

    feature_gates: list[Literal["NodeOverlay"]] = Field(
        default=[],
        max_length=10,
        description="The feature gates that are enabled in Karpenter but disabled by default. Without NodeOverlay, a"
        " pool of GPU slices can't grow, because Karpenter doesn't know the capacity of its nodes.",
    )


class Reporter(StrictModel):
    """The reporter, which writes the cluster's status."""

    public_key: SshKey = Field(
        description="The SSH public key of the reporter, such as ssh-ed25519 AAAA…. Status commits that this key didn't"
        " sign are ignored."
    )


class ClusterSpec(CatalogSpec):
    """The addresses, storage classes and services of the cluster."""

    destination: Destination
    domain: Domain = Field(
        description="The parent domain of the instances' hostnames. It must not be a subdomain of another cluster's domain."
    )
    gateway: Gateway
    oidc: Oidc
    storages: Annotated[list[ClusterStorage], unique_by("storage_spec")] = Field(default=[])
    disk_storage_class_name: KubernetesName = Field(
        description="The StorageClass of the units' disks. Its reclaim policy must be Delete."
    )
    network: Network = Field(default=Network())
    monitoring: Monitoring | None = None
    secret_store: SecretStore | None = Field(
        default=None, description="Default: tenants can't declare SecretReferences in this cluster."
    )
    ssh: Ssh | None = Field(
        default=None, description="Default: instances in this cluster can't declare `access: [SSH]`."
    )
    karpenter: KarpenterSettings = Field(default=KarpenterSettings())
    max_cordoned_nodes: Count = Field(
        default=3,
        description="The maximum number of nodes that Cordons take out of service on one day.",
    )
    reporter: Reporter | None = Field(
        default=None, description="Default: status commits aren't signed, and everyone who may push them is trusted."
    )

    @model_validator(mode="after")
    def _check_secret_namespace(self) -> Self:
        if self.oidc.client_secret_ref.namespace != self.gateway.namespace:
            raise PydanticCustomError(
                "gateway",
                "oidc.clientSecretRef.namespace is {namespace}, but the Secret must be in the namespace of the Gateway: write"
                " {expected}",
                {"namespace": self.oidc.client_secret_ref.namespace, "expected": self.gateway.namespace},
            )
        return self

    @model_validator(mode="after")
    def _check_cli_client(self) -> Self:
        if self.oidc.cli_client_id == self.oidc.client_id:
            raise PydanticCustomError(
                "cli-client",
                "oidc.cliClientID is {client}, which is also oidc.clientID: the client of the Gateway has a secret, and that of"
                " `allot login` must have none: register a second, public client",
                {"client": self.oidc.client_id},
            )
        return self

    @model_validator(mode="after")
    def _check_callback_host(self) -> Self:
        host = self.oidc.callback_host
        label, _, parent = (host or "").partition(".")
        if host is not None and (parent != self.domain or "--" in label):
            raise PydanticCustomError(
                "callback-host",
                "oidc.callbackHost {host} must be one label below {domain}, without '--': write login.{domain}",
                {"host": host, "domain": self.domain},
            )
        return self

    @property
    def portal_host(self) -> str:
        """The host of the portal, if the platform declares that this cluster serves it. No instance has this host."""
        return f"portal.{self.domain}"


class Cluster(Declaration):
    """A Kubernetes cluster that instances and storages run on.

    The folders beside the file declare its nodes as NodePools, and their units as Stocks.
    """

    kind: Literal["Cluster"]
    spec: ClusterSpec
