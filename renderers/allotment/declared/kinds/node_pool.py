"""NodePool: a group of identical GPU nodes."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.kinds.declaration import Declaration, Spec, StrictModel, check_one_of
from allotment.declared.kinds.sharing import GpuModel, PoolSharing
from allotment.declared.values import GIBI, Count, Cpu, Duration, KubernetesName, Labels, Size, pattern_field


class NodeGpu(StrictModel):
    """The GPUs of a node."""

    model: GpuModel = Field(description="The model of the GPUs, as in GPUSpecs, such as nvidia-l4.")
    count: Annotated[int, Field(ge=1, le=64)] = Field(description="The number of GPUs of a node.")


class Node(StrictModel):
    """The resources of a node that units can use: the allocatable resources minus the requests of DaemonSets."""

    gpu: NodeGpu
    cpu: Cpu = Field(description="The CPU cores that pods may request on a node.")
    memory: Size = Field(description="The memory that pods may request on a node.")


class StoragePods(StrictModel):
    """The resources on each node that are reserved for preparation Jobs and file accessors. Units can't use them."""

    cpu: Annotated[Cpu, Field(ge=500)] = Field(
        description="The CPU cores on each node, in addition to `node.cpu`. A preparation Job requests 500m."
    )
    memory: Annotated[Size, Field(ge=GIBI)] = Field(
        description="The memory on each node, in addition to `node.memory`. A preparation Job requests 1Gi."
    )


class StaticNodes(StrictModel):
    """Nodes that exist already.

    They must have the taint nvidia.com/gpu. They must also have the configuration label of NVIDIA's device plugin,
    except with `sharing.dra`.
    """

    nodes: Count = Field(description="The number of nodes.")
    node_selector: Labels = Field(min_length=1, description="The labels that select these nodes, and no others.")


class Requirement(StrictModel):
    """A Karpenter requirement: a condition on a node label."""

    key: Annotated[
        str,
        pattern_field(
            r"^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*/)?"
            r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$",
            "a label key such as karpenter.k8s.aws/instance-family",
            max_length=316,
        ),
    ] = Field(description="The key of the label, such as karpenter.k8s.aws/instance-family.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = Field(
        description="The operator that compares the value of the label with `values`."
    )
    values: list[
        Annotated[
            str,
            pattern_field(
                r"^(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$",
                "a label value: letters, digits, '.', '_' and '-', at most 63",
            ),
        ]
    ] = Field(
        default=[], max_length=100, description="The values to compare with. Gt and Lt take a single whole number."
    )


Tags = Annotated[dict[str, Annotated[str, Field(max_length=256)]], Field(min_length=1, max_length=20)]


class SelectorTerm(StrictModel):
    """Selects objects of the cloud by their fields. Karpenter requires at least one field."""

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if not self.model_dump(exclude_none=True, exclude={"owner"}):  # an owner alone is not enough
            names = ", ".join(str(field.alias) for name, field in type(self).model_fields.items() if name != "owner")
            raise PydanticCustomError("one-of", "selects nothing: give at least one of {names}", {"names": names})
        return self


class SubnetTerm(SelectorTerm):
    """Selects subnets by ID or tags."""

    id: Annotated[str, pattern_field("^subnet-[0-9a-z]{1,40}$", "an ID such as subnet-0a1b2c3d")] | None = Field(
        default=None, description="The ID of a subnet, such as subnet-…."
    )
    tags: Tags | None = Field(default=None, description="The tags of the subnets.")


class SecurityGroupTerm(SelectorTerm):
    """Selects security groups by ID, name or tags."""

    id: Annotated[str, pattern_field("^sg-[0-9a-z]{1,40}$", "an ID such as sg-0a1b2c3d")] | None = Field(
        default=None, description="The ID of a security group, such as sg-…."
    )
    name: Annotated[str, Field(min_length=1, max_length=255)] | None = Field(
        default=None, description="The name of a security group."
    )
    tags: Tags | None = Field(default=None, description="The tags of the security groups.")


class AmiTerm(SelectorTerm):
    """Selects machine images by alias, by ID, by SSM parameter, or by name, owner and tags."""

    alias: (
        Annotated[
            str, pattern_field("^[a-z0-9]+@.+$", "a family and a version such as al2023@v20260901", max_length=30)
        ]
        | None
    ) = Field(default=None, description="The family and version of an image, such as al2023@v20260901.")
    id: Annotated[str, pattern_field("^ami-[0-9a-z]{1,40}$", "an ID such as ami-0a1b2c3d")] | None = Field(
        default=None, description="The ID of a machine image, such as ami-…."
    )
    name: Annotated[str, Field(min_length=1, max_length=255)] | None = Field(
        default=None, description="The name of a machine image."
    )
    owner: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="The account that owns the images."
    )
    ssm_parameter: Annotated[str, Field(min_length=1, max_length=512)] | None = Field(
        default=None, description="The SSM parameter that contains the ID of an image."
    )
    tags: Tags | None = Field(default=None, description="The tags of the images.")


class Ec2(StrictModel):
    """An EC2NodeClass of Karpenter. The fields have the same names and meanings as in EC2NodeClass."""

    role: Annotated[str, Field(min_length=1, max_length=64)] = Field(description="The IAM role of the nodes.")
    ami_family: Literal["AL2023", "Bottlerocket", "Custom"] = Field(
        default="AL2023",
        description="The family of the machine image. Custom requires an image that is selected by ID.",
    )
    ami_selector_terms: list[AmiTerm] = Field(min_length=1, max_length=30)
    subnet_selector_terms: list[SubnetTerm] = Field(min_length=1, max_length=30)
    security_group_selector_terms: list[SecurityGroupTerm] = Field(min_length=1, max_length=30)


class NodeClassRef(StrictModel):
    """A reference to an existing node class of any cloud that Karpenter supports, such as an AKSNodeClass."""

    group: Annotated[
        str,
        pattern_field(
            r"^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+$",
            "an API group such as karpenter.azure.com",
            max_length=253,
        ),
    ] = Field(description="The API group of the node class, such as karpenter.azure.com.")
    kind: Annotated[str, pattern_field(r"^[A-Z][A-Za-z0-9]{0,62}$", "a kind such as AKSNodeClass")] = Field(
        description="The kind of the node class, such as AKSNodeClass."
    )
    name: KubernetesName = Field(description="The name of the node class.")


class Karpenter(StrictModel):
    """Nodes that Karpenter creates and deletes. Their node class is exactly one of ec2 and nodeClassRef."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("ec2", "node_class_ref")
    max_nodes: Count = Field(
        description="The maximum number of nodes. Karpenter creates the replacement of a node before it deletes the"
        " node, so allow one node more than the stocks fill."
    )
    requirements: list[Requirement] = Field(default=[], max_length=90)
    ec2: Ec2 | None = None
    node_class_ref: NodeClassRef | None = None
    expire_after: Duration | None = Field(
        default=None,
        description="The age at which a node accepts no new instances. The node is deleted once its instances have"
        " stopped, without a replacement before. Default: never. To replace the nodes in turn, increase `generation`"
        " instead.",
    )
    _check_one_of = model_validator(mode="after")(check_one_of)


class NodePoolSpec(Spec):
    """The resources of the nodes, and their source: exactly one of static and karpenter."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("static", "karpenter")
    node: Node
    sharing: PoolSharing | None = Field(
        default=None, description="How units share the GPUs of every node. Default: no sharing."
    )
    capacity_type: Literal["OnDemand", "Spot"] = Field(
        default="OnDemand",
        description="Whether the cloud provider may reclaim the nodes at any time (Spot). Units need a GPUSpec of the"
        " same capacity type.",
    )
    storage_pods: StoragePods | None = Field(
        default=None,
        description="The resources on each node for preparation Jobs and file accessors of the cluster. If a pool sets"
        " this field, they run only on nodes of such pools. Static pools only. Default: they run on nodes without GPUs.",
    )
    static: StaticNodes | None = None
    karpenter: Karpenter | None = None
    generation: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None,
        description="Increase the number to replace all nodes of a Karpenter pool in turn. An instance with a single"
        " replica stays on its node until it stops. An instance with several replicas moves a replica at a time.",
    )
    _check_one_of = model_validator(mode="after")(check_one_of)

    @model_validator(mode="after")
    def _check_shape(self) -> Self:
        if self.generation is not None and self.karpenter is None:
            raise PydanticCustomError(
                "pool-shape", "generation is given, but only pools of Karpenter replace their nodes: remove it"
            )
        if self.storage_pods is not None and self.karpenter is not None:
            raise PydanticCustomError(
                "pool-shape",
                "storagePods is given, and Karpenter would buy GPU nodes for preparation Jobs: remove it, and give Karpenter"
                " a NodePool of nodes without GPUs",
            )
        if self.karpenter is not None and self.sharing is not None and self.sharing.dra is not None:
            raise PydanticCustomError(
                "pool-shape",
                "sharing is dra, and Karpenter doesn't count DRA devices: its nodes would never become ready; make the "
                "pool static, or choose another way of sharing",
            )
        return self

    @property
    def node_limit(self) -> int:
        """The number of static nodes, or the maximum number of Karpenter nodes."""
        if self.static is not None:
            return self.static.nodes
        return self.karpenter.max_nodes if self.karpenter else 0


class NodePool(Declaration):
    """A group of identical GPU nodes, which either exist already (static) or are created by Karpenter.

    Stocks declare how many units of which GPUSpecs the nodes provide.
    """

    kind: Literal["NodePool"]
    spec: NodePoolSpec
