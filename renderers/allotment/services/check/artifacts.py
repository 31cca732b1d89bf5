"""The artifacts of a check: values that it builds from valid tenants, in the processes that have read these tenants."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from allotment.preparation.runtime_state import RuntimeState
from allotment.services.check.cpu_budget import CpuBudget, Rejection

if TYPE_CHECKING:
    from allotment.declared.inventory import Catalog, ScopeDeclarations

A = TypeVar("A")


class ValidTenant(NamedTuple):
    """A tenant without errors, its runtime state, and the rest of its budget."""

    declarations: ScopeDeclarations
    runtime_state: RuntimeState
    budget: CpuBudget


class ArtifactBuilder(Protocol[A]):
    """Builds an artifact of each valid tenant, such as its manifests. A later pass would parse all files again."""

    def load_modules(self) -> None:
        """Load the modules that `build_artifacts` needs, so that the worker processes need not load them."""

    def build_artifacts(self, catalog: Catalog, tenants: list[ValidTenant]) -> list[A | Rejection | None]:
        """Return the artifact of each tenant; None for a tenant without an artifact, a Rejection for a rejected tenant."""


class ArtifactHook(NamedTuple, Generic[A]):
    """A builder of artifacts, and the function that receives them.

    `store` receives the name and the artifact of each tenant that the check reads, in the order of names. The artifact is
    None if the tenant has none. If an error of the platform or of a cluster prevents all artifacts, the check calls neither.
    """

    builder: ArtifactBuilder[A]
    store: Callable[[str, A | None], object]
