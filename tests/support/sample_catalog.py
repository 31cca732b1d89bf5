"""The catalog of the sample and its GPU specs."""

from __future__ import annotations

import datetime
from pathlib import Path

from allotment.adapters.folder_source import FolderSource
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.services.check.repository_check import check_repository
from tests.conftest import PROJECT

DAY = datetime.date(2026, 11, 21)


def catalog() -> Catalog:
    return check_repository(FolderSource(Path(PROJECT)), DAY).catalog


OFFERS = catalog()
SPECS = {name: declaration.model.spec for name, declaration in OFFERS.platform.of_kind(GPUSpec).items()}
