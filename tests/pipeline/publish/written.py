"""What was published, without a repository: the files of each cluster's branch, as a step of a publish reads them."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from functools import cached_property

from tests.conftest import DAY

from allotment.adapters.git.branch import Branch
from allotment.adapters.source import Source
from allotment.declared.inventory import blob_id
from allotment.pipeline.check.survey import Survey, survey
from allotment.pipeline.publish.before import Before
from allotment.pipeline.publish.rendered import Rendered, of_made
from allotment.pipeline.render import Renderer
from allotment.readiness.standing import Standings, all_prepared


class Written(Branch):
    """A branch that holds some files, by path, and whose last commit is ours; with none, nothing was ever published."""

    def __init__(self, cluster: str, texts: Mapping[str, bytes]) -> None:
        published = "1" * 40 if texts else None
        super().__init__(None, cluster, published, published, None)  # type: ignore[arg-type]  # no repository is asked
        self._texts = texts

    @cached_property
    def files(self) -> dict[str, str]:
        """The blob of every file."""
        return {path: blob_id(data) for path, data in self._texts.items()}

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return self._texts[path]


def before(files: Mapping[str, bytes], clusters: Iterable[str] = ("eu-1", "us-1")) -> Before:
    """Return what was published, of files by `<cluster>/<path>`."""
    return Before(
        {
            cluster: Written(
                cluster,
                {path.partition("/")[2]: data for path, data in files.items() if path.startswith(f"{cluster}/")},
            )
            for cluster in clusters
        }
    )


def checked(source: Source, standings: Standings = all_prepared) -> Survey:
    """Return what is declared, checked and rendered; by itself as if all of it were prepared."""
    day = datetime.date.fromisoformat(DAY)
    return survey(source, day, render=Renderer(dict), processes=1, standings=standings)


def of_files(files: Mapping[str, bytes], was: Before) -> Rendered:
    """Return what a tenant is rendered to, of its files."""
    return of_made(was.made(files.items()), ())
