"""NodePool: GPU nodes that are all alike."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.kinds.declaration import Declaration, Spec, StrictModel, check_one_of
from allotment.declared.kinds.sharing import GpuModel, PoolSharing
from allotment.declared.values import GIBI, Count, Cpu, Duration, KubernetesName, Labels, Size


class NodeGpu(StrictModel):
    """The GPUs of one node."""

    model: GpuModel = Field(description="As GPUSpecs name it, such as nvidia-l4.")
    count: Annotated[int, Field(ge=1, le=64)] = Field(description="How many GPUs a node has.")


class Node(StrictModel):
    """What one node has to give: allocatable, less what DaemonSets take."""

    gpu: NodeGpu
    cpu: Cpu = Field(description="Cores that pods may request on a node.")
    memory: Size = Field(description="Memory that pods may request on a node.")


class StoragePods(StrictModel):
    """Room for the pods of storages on each node: preparation Jobs and file accessors. Units never get it."""

    cpu: Annotated[Cpu, Field(ge=500)] = Field(
        description="Cores on each node beside `node.cpu`. Each preparation Job requests 500m."
    )
    memory: Annotated[Size, Field(ge=GIBI)] = Field(
        description="Memory on each node beside `node.memory`. Each preparation Job requests 1Gi."
    )


class StaticNodes(StrictModel):
    """Nodes that somebody else keeps. They carry the taint nvidia.com/gpu, and the device plugin's label but under DRA."""

    nodes: Count = Field(description="How many there are.")
    node_selector: Labels = Field(min_length=1, description="Labels that these nodes, and no others, carry.")


class Requirement(StrictModel):
    """A Karpenter requirement: a label that nodes carry, and what it says."""

    key: Annotated[
        str,
        Field(
            pattern=r"^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*/)?"
            r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$",
            max_length=316,
        ),
    ] = Field(description="The label, such as karpenter.k8s.aws/instance-family.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = Field(
        description="How the label's value is compared with `values`."
    )
    values: list[Annotated[str, Field(pattern=r"^(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$")]] = Field(
        default=[], max_length=100, description="What it is compared with; of Gt and Lt one whole number."
    )


Tags = Annotated[dict[str, Annotated[str, Field(max_length=256)]], Field(min_length=1, max_length=20)]


class SubnetTerm(StrictModel):
    """Subnets by id or by tags."""

    id: Annotated[str, Field(pattern="^subnet-[0-9a-z]{1,40}$")] | None = Field(
        default=None, description="A subnet's id, subnet-…."
    )
    tags: Tags | None = Field(default=None, description="Tags that the subnet carries.")


class SecurityGroupTerm(StrictModel):
    """Security groups by id, name or tags."""

    id: Annotated[str, Field(pattern="^sg-[0-9a-z]{1,40}$")] | None = Field(
        default=None, description="A security group's id, sg-…."
    )
    name: Annotated[str, Field(min_length=1, max_length=255)] | None = Field(
        default=None, description="A security group's name."
    )
    tags: Tags | None = Field(default=None, description="Tags that the security group carries.")


class AmiTerm(StrictModel):
    """Machine images by alias, id, parameter, or by name, owner and tags."""

    alias: Annotated[str, Field(pattern="^[a-z0-9]+@.+$", max_length=30)] | None = Field(
        default=None, description="A family and version, such as al2023@v20260901."
    )
    id: Annotated[str, Field(pattern="^ami-[0-9a-z]{1,40}$")] | None = Field(
        default=None, description="A machine image's id, ami-…."
    )
    name: Annotated[str, Field(min_length=1, max_length=255)] | None = Field(
        default=None, description="A machine image's name."
    )
    owner: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="The account that owns images of that name."
    )
    ssm_parameter: Annotated[str, Field(min_length=1, max_length=512)] | None = Field(
        default=None, description="The parameter that holds an image's id."
    )
    tags: Tags | None = Field(default=None, description="Tags that the image carries.")


class Ec2(StrictModel):
    """An EC2NodeClass: fields as there."""

    role: Annotated[str, Field(min_length=1, max_length=64)] = Field(description="The IAM role that nodes have.")
    ami_family: Literal["AL2023", "Bottlerocket", "Custom"] = Field(
        default="AL2023", description="What the machine image is made of; Custom needs an image by id."
    )
    ami_selector_terms: list[AmiTerm] = Field(min_length=1, max_length=30)
    subnet_selector_terms: list[SubnetTerm] = Field(min_length=1, max_length=30)
    security_group_selector_terms: list[SecurityGroupTerm] = Field(min_length=1, max_length=30)


class NodeClassRef(StrictModel):
    """A node class that somebody else keeps, of whatever cloud Karpenter runs in, such as an AKSNodeClass."""

    group: Annotated[
        str,
        Field(pattern=r"^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+$", max_length=253),
    ] = Field(description="The API group of its kind, such as karpenter.azure.com.")
    kind: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]{0,62}$")] = Field(
        description="Its kind, such as AKSNodeClass."
    )
    name: KubernetesName = Field(description="The node class's own name.")


class Karpenter(StrictModel):
    """Nodes that Karpenter buys and gives back, made as a node class says: exactly one of ec2 and nodeClassRef."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("ec2", "node_class_ref")
    max_nodes: Count = Field(
        description="The most that are bought at a time. A node is replaced by another that comes before it goes, so"
        " write one more than the stocks fill."
    )
    requirements: list[Requirement] = Field(default=[], max_length=90)
    ec2: Ec2 | None = None
    node_class_ref: NodeClassRef | None = None
    expire_after: Duration | None = Field(
        default=None,
        description="The age from which a node takes nothing new and goes once its instances stop, with no other before"
        " it; absent: never. Raise `generation` to replace nodes one at a time.",
    )
    _check_one_of = model_validator(mode="after")(check_one_of)


class NodePoolSpec(Spec):
    """What the nodes are, and where they come from: exactly one of static and karpenter."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("static", "karpenter")
    node: Node
    sharing: PoolSharing | None = Field(
        default=None, description="How all GPUs of every node are divided; absent: not at all."
    )
    capacity_type: Literal["OnDemand", "Spot"] = Field(
        default="OnDemand", description="Spot nodes may be taken away at any time; GPUSpecs of the same type lie here."
    )
    storage_pods: StoragePods | None = Field(
        default=None,
        description="Preparation Jobs and file accessors of this cluster run on these nodes, where no node without GPUs takes"
        " them; static pools only. Absent: they run on nodes without GPUs.",
    )
    static: StaticNodes | None = None
    karpenter: Karpenter | None = None
    generation: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None,
        description="Of Karpenter's nodes: raise it, and each is replaced, one at a time: an instance of one copy stays until it"
        " stops, of several copies one after the other moves.",
    )
    _check_one_of = model_validator(mode="after")(check_one_of)

    @model_validator(mode="after")
    def _check_shape(self) -> Self:
        if self.generation is not None and self.karpenter is None:
            raise PydanticCustomError(
                "pool-shape", "generation is given, but nobody replaces the nodes of a static pool by it: remove it"
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
                "sharing is dra and the nodes are Karpenter's, which counts no devices of DRA: a node that it bought for"
                " them would never be ready; write static, or another way of sharing",
            )
        return self

    @property
    def node_limit(self) -> int:
        """The most nodes that the pool has or may buy."""
        if self.static is not None:
            return self.static.nodes
        return self.karpenter.max_nodes if self.karpenter else 0


class NodePool(Declaration):
    """GPU nodes that are all alike, either kept by somebody else (static) or bought by Karpenter.

    Units of GPUSpecs lie on them, as many as the Stocks say.
    """

    kind: Literal["NodePool"]
    spec: NodePoolSpec
