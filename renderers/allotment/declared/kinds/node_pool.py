"""NodePool: GPU nodes that are all alike."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from allotment.declared.kinds.declaration import Declaration, Spec, Strict, one_of
from allotment.declared.kinds.sharing import GpuModel, PoolSharing
from allotment.declared.values import Count, Cpu, Duration, Labels, Size


class NodeGpu(Strict):
    """The GPUs of one node."""

    model: GpuModel
    count: Annotated[int, Field(ge=1, le=64)]


class Node(Strict):
    """What one node has to give: allocatable, less what DaemonSets take."""

    gpu: NodeGpu
    cpu: Cpu
    memory: Size


class StaticNodes(Strict):
    """Nodes that somebody else keeps. They carry the taint nvidia.com/gpu and the device plugin's label."""

    nodes: Count
    node_selector: Labels = Field(min_length=1, description="Labels that these nodes, and no others, carry.")


class Requirement(Strict):
    """A Karpenter requirement: a label that nodes carry, and what it says."""

    key: Annotated[
        str,
        Field(
            pattern=r"^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*/)?"
            r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$",
            max_length=316,
        ),
    ]
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: list[Annotated[str, Field(pattern=r"^(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$")]] = Field(
        default=[], max_length=100
    )


Tags = Annotated[dict[str, Annotated[str, Field(max_length=256)]], Field(min_length=1, max_length=20)]


class SubnetTerm(Strict):
    """Subnets by id or by tags."""

    id: Annotated[str, Field(pattern="^subnet-[0-9a-z]{1,40}$")] | None = None
    tags: Tags | None = None


class SecurityGroupTerm(Strict):
    """Security groups by id, name or tags."""

    id: Annotated[str, Field(pattern="^sg-[0-9a-z]{1,40}$")] | None = None
    name: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    tags: Tags | None = None


class AmiTerm(Strict):
    """Machine images by alias, id, parameter, or by name, owner and tags."""

    alias: Annotated[str, Field(pattern="^[a-z0-9]+@.+$", max_length=30)] | None = None
    id: Annotated[str, Field(pattern="^ami-[0-9a-z]{1,40}$")] | None = None
    name: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    owner: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    ssm_parameter: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    tags: Tags | None = None


class Ec2(Strict):
    """An EC2NodeClass: fields as there."""

    role: Annotated[str, Field(min_length=1, max_length=64)]
    ami_family: Literal["AL2023", "Bottlerocket", "Custom"] = "AL2023"
    ami_selector_terms: list[AmiTerm] = Field(min_length=1, max_length=30)
    subnet_selector_terms: list[SubnetTerm] = Field(min_length=1, max_length=30)
    security_group_selector_terms: list[SecurityGroupTerm] = Field(min_length=1, max_length=30)


class Karpenter(Strict):
    """Nodes that Karpenter buys and gives back."""

    max_nodes: Count
    requirements: list[Requirement] = Field(default=[], max_length=90)
    ec2: Ec2
    expire_after: Duration = Field(default=720 * 3600, description="The age at which a node is replaced.")


class NodePoolSpec(Spec):
    """What the nodes are, and where they come from: exactly one of static and karpenter."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("static", "karpenter")
    node: Node
    sharing: PoolSharing | None = Field(
        default=None, description="How all GPUs of every node are divided; absent: not at all."
    )
    capacity_type: Literal["OnDemand", "Spot"] = "OnDemand"
    static: StaticNodes | None = None
    karpenter: Karpenter | None = None
    _exactly_one = model_validator(mode="after")(one_of)

    @property
    def most_nodes(self) -> int:
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
