"""What was published, without a repository: the files of each cluster's branch, as a step of a publish reads them."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from functools import cached_property

from tests.conftest import DAY

from allotment.adapters.declaration_source import Source
from allotment.branches.branch import Branch
from allotment.declared.inventory import compute_blob_id
from allotment.preparation.runtime_state import RuntimeStates, all_prepared_state
from allotment.services.check.artifacts import ArtifactHook
from allotment.services.check.check_options import CheckOptions
from allotment.services.check.repository_check import RepositoryCheck, check_repository
from allotment.services.publish.published_trees import PublishedTrees
from allotment.services.publish.rendered_tenant import RenderedTenant, build_rendered_tenant
from allotment.services.publish.renderer import Renderer


class Written(Branch):
    """A branch that holds some files, by path, and whose last commit is ours; with none, nothing was ever published."""

    def __init__(self, cluster: str, texts: Mapping[str, bytes]) -> None:
        published = "1" * 40 if texts else None
        super().__init__(None, cluster, published, published, None)  # type: ignore[arg-type]  # no repository is asked
        self._texts = texts

    @cached_property
    def files(self) -> dict[str, str]:
        """The blob of every file."""
        return {path: compute_blob_id(data) for path, data in self._texts.items()}

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return self._texts[path]


def before(files: Mapping[str, bytes], clusters: Iterable[str] = ("eu-1", "us-1")) -> PublishedTrees:
    """Return what was published, of files by `<cluster>/<path>`."""
    return PublishedTrees(
        {
            cluster: Written(
                cluster,
                {path.partition("/")[2]: data for path, data in files.items() if path.startswith(f"{cluster}/")},
            )
            for cluster in clusters
        }
    )


def checked(source: Source, runtime_states: RuntimeStates = all_prepared_state) -> RepositoryCheck:
    """Return what is declared, checked and rendered; by itself as if all of it were prepared."""
    return check_and_render(source, runtime_states)[0]


def check_and_render(
    source: Source, runtime_states: RuntimeStates = all_prepared_state
) -> tuple[RepositoryCheck, dict[str, dict[str, bytes]]]:
    """Return the check of a source, and the rendered files of each tenant by path."""
    rendered: dict[str, dict[str, bytes]] = {}

    def store(tenant: str, files: dict[str, bytes] | None) -> None:
        rendered[tenant] = files or {}

    options = CheckOptions(processes=1, runtime_states=runtime_states)
    hook = ArtifactHook(Renderer[dict[str, bytes]](dict), store)
    return check_repository(source, datetime.date.fromisoformat(DAY), options, hook=hook), rendered


def render_files(source: Source, tenant: str = "solo-ada") -> dict[str, bytes]:
    """Return the rendered files of a tenant by path."""
    return check_and_render(source)[1][tenant]


def of_files(files: Mapping[str, bytes], was: PublishedTrees) -> RenderedTenant:
    """Return what a tenant is rendered to, of its files."""
    return build_rendered_tenant(was.compare_rendered(files.items()), ())
