"""AddOn: a third-party program that clusters run beside Allotment, pinned to a version."""

import json
import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from allotment.declared.addresses import HttpsUrl
from allotment.declared.kinds.declaration import Declaration, Spec, StrictModel, check_one_of
from allotment.declared.references import ClusterReference
from allotment.declared.values import KubernetesName, SubPath, json_schema, match_pattern, raise_rule_error
from allotment.problems import quote_value

OCI_PREFIX = "oci://"
LAST_WAVE = 9
MAX_VALUES_CHARACTERS = 64 * 1024  # in all values together, because the API server limits the size of an Application
MAX_VALUES_DEPTH = 16
RESERVED_NAMESPACES = ("argocd", "default", "kube-node-lease", "kube-public")
RESERVED_PREFIXES = ("allotment", "t-")

# An address must not contain `*`, `?`, `[` or `{`: the AppProjects of Argo CD interpret these characters as patterns.
_REPOSITORY = re.compile(r"(?:https|oci)://[a-z0-9][a-z0-9.-]*(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~-]+)*/?")
_CHART = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
VERSION = re.compile(
    r"v?(?:0|[1-9][0-9]{0,8})\.(?:0|[1-9][0-9]{0,8})\.(?:0|[1-9][0-9]{0,8})"
    r"(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
COMMIT = re.compile(r"[0-9a-f]{40}")
_GROUP = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*)?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")


def _check_namespace(value: str) -> str:
    if value in RESERVED_NAMESPACES or value.startswith(RESERVED_PREFIXES):
        whose = "a tenant's" if value.startswith("t-") else "not for add-ons"
        raise_rule_error(
            "reserved", f"namespace {quote_value(value)} is {whose}: write a namespace that only the add-on uses"
        )
    return value


def _check_values(value: Any) -> dict[str, Any]:
    """Return the values of a chart unchanged; raise if a manifest cannot contain them."""
    if not isinstance(value, dict):
        raise_rule_error("type", f"{quote_value(value)} is not a mapping: write the chart's values as `key: value`")
    _check_depth(value, 1)
    if len(text := json.dumps(value, ensure_ascii=False)) > MAX_VALUES_CHARACTERS:
        raise_rule_error("size", f"the values have {len(text):,} characters: write at most {MAX_VALUES_CHARACTERS:,}")
    return value


def _check_depth(value: Any, depth: int) -> None:
    if depth > MAX_VALUES_DEPTH:
        raise_rule_error("depth", f"the values nest deeper than {MAX_VALUES_DEPTH} levels: flatten them")
    if isinstance(value, dict):
        for child in value.values():
            _check_depth(child, depth + 1)
    elif isinstance(value, list):
        for child in value:
            if isinstance(child, list) or child == {}:
                raise_rule_error(
                    "type",
                    f"{quote_value(child)} can't be a list's entry: write a text, a number or a mapping with keys",
                )
            _check_depth(child, depth + 1)


Version = Annotated[
    str,
    BeforeValidator(match_pattern(VERSION, "version", "one exact version such as 1.21.2 or v1.21.2, no range", 100)),
    json_schema("string", VERSION, "1.21.2", maxLength=100),
]
ChartRepository = Annotated[
    str,
    BeforeValidator(match_pattern(_REPOSITORY, "url", "an https:// or oci:// address without user and query")),
    json_schema("string", _REPOSITORY, "https://charts.jetstack.io", maxLength=253),
]
ChartName = Annotated[
    str,
    BeforeValidator(match_pattern(_CHART, "name", "a chart's name: a-z, 0-9, '-', at most 63", 63)),
    json_schema("string", _CHART, maxLength=63),
]
Digest = Annotated[
    str,
    BeforeValidator(match_pattern(DIGEST, "digest", "sha256: and 64 hexadecimal digits")),
    json_schema("string", DIGEST),
]
Commit = Annotated[
    str,
    BeforeValidator(match_pattern(COMMIT, "version", "a commit's 40 hexadecimal digits: branches and tags move")),
    json_schema("string", COMMIT),
]
AddOnNamespace = Annotated[KubernetesName, AfterValidator(_check_namespace)]
Values = Annotated[dict[str, Any], BeforeValidator(_check_values), WithJsonSchema({"type": "object"})]


class Chart(StrictModel):
    """A Helm chart in a chart repository or an OCI registry."""

    repo_url: ChartRepository = Field(
        alias="repoURL",
        description="The https:// URL of a chart repository, or the oci:// URL of the registry folder that contains the"
        " chart.",
    )
    name: ChartName = Field(description="The name of the chart in the repository.")
    version: Version = Field(description="The exact version of the chart, spelled as in the repository.")
    digest: Digest | None = Field(
        default=None,
        description="The digest of an oci:// chart. Argo CD pulls the chart by this digest, even if its tag has moved."
        " Not allowed with an https:// chart, because Argo CD ignores the digests of chart repositories.",
    )

    @model_validator(mode="after")
    def _check_digest(self) -> Self:
        if self.digest is not None and not self.repo_url.startswith(OCI_PREFIX):
            raise_rule_error(
                "digest", "Argo CD checks no digest of an https:// chart: remove it, or take the chart from oci://"
            )
        return self


class ManifestFolder(StrictModel):
    """A folder of plain or Kustomize manifests in a Git repository."""

    repo_url: HttpsUrl = Field(alias="repoURL", description="The URL of the Git repository.")
    path: SubPath = Field(description="The path of the folder in the repository.")
    revision: Commit = Field(
        description="The full 40-digit commit ID. Branches and tags are not allowed, because they move."
    )


class ClusterResource(StrictModel):
    """A cluster-scoped kind of object."""

    group: Annotated[
        str,
        BeforeValidator(match_pattern(_GROUP, "name", "an API group by its name, no '*'; \"\" is the core group")),
        json_schema("string", _GROUP, maxLength=253),
    ] = Field(description='The API group, such as rbac.authorization.k8s.io. "" is the core group.')
    kind: Annotated[
        str,
        BeforeValidator(match_pattern(_KIND, "name", "a kind by its name, such as ClusterRole, no '*'", 63)),
        json_schema("string", _KIND, maxLength=63),
    ] = Field(description="The kind, such as ClusterRole.")

    @model_validator(mode="after")
    def _refuse_namespaces(self) -> Self:
        if (self.group, self.kind) == ("", "Namespace"):
            raise_rule_error(
                "reserved",
                "an add-on that creates namespaces could change the namespace of a tenant: Allotment creates the add-on's namespace",
            )
        return self


class AddOnSpec(Spec):
    """The source of the add-on (exactly one of chart and manifests), its clusters, and the objects that it may create."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("chart", "manifests")
    chart: Chart | None = None
    manifests: ManifestFolder | None = None
    namespace: AddOnNamespace = Field(
        description="The namespace that the add-on is installed in. Allotment creates it, unless it is kube-system."
    )
    other_namespaces: list[AddOnNamespace] = Field(
        default=[],
        max_length=10,
        description="Other namespaces that the add-on may create objects in, such as kube-system for a Role.",
    )
    clusters: list[ClusterReference] = Field(
        default=[],
        min_length=1,
        max_length=100,
        description="The names of the Clusters that run the add-on. Default: all clusters.",
    )
    wave: Annotated[int, Field(ge=0, le=LAST_WAVE)] = Field(
        default=0,
        description="Add-ons are created in the order of their waves, once all lower waves are healthy. Install the"
        " add-on that defines a kind in a lower wave than the add-ons that use it.",
    )
    cluster_resources: list[ClusterResource] = Field(
        default=[],
        max_length=50,
        description="The cluster-scoped kinds that the add-on may create. Argo CD rejects all others.",
    )
    values: Values | None = Field(
        default=None, description="The values of the chart, as in its values.yaml. Their keys and order are preserved."
    )
    _check_one_of = model_validator(mode="after")(check_one_of)

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.manifests is not None and self.values:
            raise_rule_error("value", "values apply only to a chart, not to manifests: remove them")
        spaces = [self.namespace, *self.other_namespaces]
        kinds = [f"{resource.kind} of {quote_value(resource.group)}" for resource in self.cluster_resources]
        for noun, entries in (("namespace", spaces), ("cluster", self.clusters), ("kind", kinds)):
            if twice := next((entry for at, entry in enumerate(entries) if entry in entries[:at]), None):
                raise_rule_error("duplicate", f"{noun} {twice} is written twice: remove one")
        return self

    @property
    def version(self) -> str:
        """The version of the chart, or the commit of the manifests."""
        if self.chart is not None:
            return self.chart.version
        assert self.manifests is not None
        return self.manifests.revision

    def is_installed_in(self, cluster: str) -> bool:
        """Return whether a cluster runs the add-on."""
        return not self.clusters or cluster in self.clusters


class AddOn(Declaration):
    """A third-party program that clusters run beside Allotment: a Helm chart or a folder of manifests, pinned to a version.

    Argo CD installs the add-on in each of its clusters, in a separate AppProject. The AppProject allows only the source
    and the namespaces of the add-on, and the cluster-scoped kinds in `clusterResources`. `allot add-on upgrade` writes
    another version into the file. If you remove the file, Argo CD stops managing the add-on. The installed objects, the
    kinds that the add-on defines, and their data remain until somebody uninstalls them.
    """

    kind: Literal["AddOn"]
    spec: AddOnSpec
