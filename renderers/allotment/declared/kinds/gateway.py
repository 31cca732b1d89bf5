"""Gateway: the Gateway of a cluster that routes people's requests to instances, and its limits."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.kinds.add_on import RESERVED_NAMESPACES, RESERVED_PREFIXES
from allotment.declared.kinds.declaration import StrictModel, check_one_of
from allotment.declared.values import Duration, KubernetesName, format_duration

HTTP_LISTENER = "http-redirect"
_FOREIGN_NAMESPACES = (*RESERVED_NAMESPACES, "kube-system", "nvidia-device-plugin")


class CertificateIssuer(StrictModel):
    """The issuer of cert-manager that signs the certificate of the Gateway."""

    kind: Literal["ClusterIssuer", "Issuer"] = Field(
        default="ClusterIssuer", description="The kind of the issuer. An Issuer is in the namespace of the Gateway."
    )
    name: KubernetesName = Field(description="The name of the issuer.")


class GatewayCertificate(StrictModel):
    """The certificate for *.<domain>: exactly one of issuer and secretName."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("issuer", "secret_name")
    issuer: CertificateIssuer | None = Field(
        default=None,
        description="cert-manager creates and renews the certificate with this issuer. The issuer must solve DNS01"
        " challenges, because the certificate is for all hosts of the domain.",
    )
    secret_name: KubernetesName | None = Field(
        default=None,
        description="A Secret of the type kubernetes.io/tls that you keep in the namespace of the Gateway.",
    )
    _check_one_of = model_validator(mode="after")(check_one_of)


class AccessLog(StrictModel):
    """The access log that the proxies write to their standard output, an entry in JSON for each request."""

    retention_days: Annotated[int, Field(ge=1, le=3650)] = Field(
        default=30,
        description="How long the log store keeps an entry, in days. The proxy pods have this number in the"
        " annotation allotment.dev/access-log-retention-days, and each entry has it as retention_days. The log store must"
        " apply it.",
    )


class GatewayTimeouts(StrictModel):
    """The timeouts of a request to an instance or an accessor."""

    request: Duration | None = Field(
        default=None,
        description="The longest time from the end of a request to the end of its response. It does not limit a WebSocket."
        " Default: unlimited, because an app may compute for minutes before it answers.",
    )
    idle: Duration | None = Field(
        default=None,
        description="The longest time in which neither side of a request or a WebSocket sends anything. Default: unlimited"
        " without timeouts.request, otherwise the longer of 1h and timeouts.request.",
    )

    @model_validator(mode="after")
    def _check_idle(self) -> Self:
        if self.request is not None and self.idle is not None and self.idle < self.request:
            raise PydanticCustomError(
                "gateway",
                "idle {idle} is shorter than request {request}, and would end an app that computes in silence: write idle"
                " {request} or more, or remove one of them",
                {"idle": format_duration(self.idle), "request": format_duration(self.request)},
            )
        return self


class Gateway(StrictModel):
    """The Gateway that routes traffic to instances."""

    name: KubernetesName = Field(description="The name of the Gateway.")
    namespace: KubernetesName = Field(description="The namespace of the Gateway.")
    section_name: KubernetesName = Field(description="The name of the HTTPS listener for *.<domain>.")
    proxy_namespace: KubernetesName | None = Field(
        default=None,
        description="The namespace of the Gateway's proxy pods. The network policies of tenants admit traffic from this"
        " namespace only. Default: the namespace of the Gateway.",
    )
    managed: bool = Field(
        default=False,
        description="true: Allotment renders the Gateway, with its namespace, class, proxies, certificate, access log,"
        " redirect from HTTP to HTTPS, and HSTS. false: you create the Gateway.",
    )
    certificate: GatewayCertificate | None = Field(
        default=None, description="The certificate of a managed Gateway. Required with managed: true."
    )
    replicas: Annotated[int, Field(ge=1, le=100)] | None = Field(
        default=None, description="The number of proxy pods of a managed Gateway. Default: 2."
    )
    proxy_protocol: bool | None = Field(
        default=None,
        description="true: the load balancer in front of a managed Gateway sends the PROXY protocol, so that the Gateway"
        " knows the addresses of people. Default: false, the load balancer leaves these addresses as they are.",
    )
    access_log: AccessLog | None = Field(
        default=None, description="The access log of a managed Gateway. Default: retentionDays 30."
    )
    timeouts: GatewayTimeouts = Field(default=GatewayTimeouts())
    requests_per_second: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None,
        description="The maximum number of requests per second to one URL, at each proxy. Only requests that may reach the"
        " container count, so none without a required login. The Gateway answers 429 to further requests. Default: unlimited.",
    )

    @model_validator(mode="after")
    def _check_managed(self) -> Self:
        if not self.managed:
            settings = {
                "certificate": self.certificate,
                "replicas": self.replicas,
                "proxyProtocol": self.proxy_protocol,
                "accessLog": self.access_log,
            }
            declared = [name for name, value in settings.items() if value is not None]
            if declared:
                raise PydanticCustomError(
                    "gateway",
                    "only a managed Gateway has {names}: write managed: true, or remove {names}",
                    {"names": ", ".join(declared)},
                )
        elif self.certificate is None:
            raise PydanticCustomError(
                "gateway", "a managed Gateway needs a certificate: write certificate.issuer or certificate.secretName"
            )
        elif self.namespace in _FOREIGN_NAMESPACES or self.namespace.startswith(RESERVED_PREFIXES):
            raise PydanticCustomError(
                "gateway",
                "namespace '{name}' is reserved: write a namespace for the managed Gateway alone, such as edge",
                {"name": self.namespace},
            )
        elif self.section_name == HTTP_LISTENER:
            raise PydanticCustomError(
                "gateway",
                "'{name}' is the name of the listener that redirects HTTP: choose another sectionName, such as https",
                {"name": HTTP_LISTENER},
            )
        return self

    @property
    def effective_proxy_namespace(self) -> str:
        """The namespace of the proxy pods."""
        return self.proxy_namespace or self.namespace
