"""Builds the public pages: the home page, the catalog, how to start, and the data of the forms."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from allotment.capacity.pricing import format_hourly
from allotment.edits.storage_creation import name_folder, rank_access
from allotment.portal.pages.page_renderer import Page, render_page
from allotment.portal.pages.site_facts import GpuSpecEntry, SiteFacts


class _SpecSummary(NamedTuple):
    """A GPUSpec with the free units of all clusters. `price` is per hour, the same in all clusters; None if it isn't sold yet."""

    title: str
    gpu_text: str
    gpu_memory: str
    memory_note: str
    price: Decimal | None
    free: int
    total: int


def build_public_pages(site: SiteFacts, tenant: str | None = None) -> Iterator[Page]:
    """Yield the pages that everybody may read. `tenant` is the only tenant with pages; None stands for all tenants."""
    yield render_page("index.html", "home.html.j2", site=site, offers=_summarize_specs(site))
    yield render_page("start/index.html", "start.html.j2", site=site)
    yield render_page("tenants/index.html", "tenants.html.j2", site=site, tenant=tenant)
    # A server sends this page for any path, so its links start at the root.
    yield render_page("404.html", "not_found.html.j2", root="/", site=site, tenant=tenant)
    yield render_page(
        "catalog/index.html",
        "catalog.html.j2",
        site=site,
        gpu_texts=[describe_gpus(spec.gpus, spec.model) for spec in site.gpu_specs],
    )
    yield Page("catalog/offers.json", json.dumps(describe_offers(site), ensure_ascii=False).encode())


def describe_gpus(gpus: Fraction, model: str) -> str:
    """Return the GPUs of a unit as text, such as `1 nvidia-l4` or `1/4 nvidia-l4`."""
    return f"{gpus} {model}"


def describe_offers(site: SiteFacts) -> dict[str, Any]:
    """Return the offers for the forms. Money is exact decimal text, GPUs are fractions, and sizes are in bytes.

    A form proposes the first possible offer. So the cheapest GPUSpecs come first, and the Active versions of an app.
    """
    return {
        "currency": site.currency,
        "clusters": [
            {
                "name": cluster.name,
                "label": cluster.name if cluster.title == cluster.name else f"{cluster.title} ({cluster.name})",
                "ssh": cluster.has_ssh,
                "public": cluster.has_public_ports,
                "lifecycle": cluster.lifecycle,
            }
            for cluster in site.clusters
        ],
        "gpuSpecs": [describe_gpu_spec(spec, site.currency) for spec in sorted(site.gpu_specs, key=_rank_price)],
        "storageSpecs": [
            {
                "cluster": spec.cluster,
                "name": spec.name,
                "label": f"{spec.name}: {spec.access}, {_format_price(spec.price)} {site.currency} per GiB and month",
                "access": spec.access,
                "rank": rank_access(spec.access),
                "price": None if spec.price is None else str(spec.price),
                "minSize": spec.min_size,
                "maxSize": spec.max_size,
                "free": spec.free_bytes,
                "changesThisMonth": spec.changes_this_month,
                "lifecycle": spec.lifecycle,
            }
            for spec in site.storage_specs
        ],
        "apps": [
            {
                "name": app.name,
                "title": app.choice_title,
                "versions": [
                    {
                        "version": version.version,
                        "title": version.title,
                        "exposures": version.exposures,
                        "shmSize": version.shm_size,
                        "folders": [
                            {
                                "path": folder.path,
                                "name": name_folder(folder.path),
                                "description": folder.description or "",
                                "optional": folder.optional,
                            }
                            for folder in version.folders
                        ],
                    }
                    for version in sorted(app.versions, key=lambda version: version.lifecycle != "Active")
                    if version.lifecycle in ("Active", "Deprecated")
                ],
            }
            for app in site.apps
        ],
    }


def _rank_price(spec: GpuSpecEntry) -> Decimal:
    return Decimal("Infinity") if spec.price is None else spec.price


def _format_price(price: Decimal | None) -> str:
    return "–" if price is None else str(price)


def describe_gpu_spec(spec: GpuSpecEntry, currency: str) -> dict[str, Any]:
    """Return an offer of a GPUSpec for the forms."""
    price = "–" if spec.price is None else format_hourly(spec.price)
    memory = f"{spec.gpu_memory}{f' {spec.memory_note}' if spec.memory_note else ''}"
    return {
        "cluster": spec.cluster,
        "name": spec.name,
        "label": f"{spec.name}: {describe_gpus(spec.gpus, spec.model)}, {memory}, {price} {currency} per hour",
        "model": spec.model,
        "gpus": [spec.gpus.numerator, spec.gpus.denominator],
        "memory": spec.memory,
        "sharing": spec.sharing,
        "price": None if spec.price is None else str(spec.price),
        "free": spec.free,
        "changesThisMonth": spec.changes_this_month,
        "lifecycle": spec.lifecycle,
    }


def _summarize_specs(site: SiteFacts) -> list[_SpecSummary]:
    """Return the Active GPUSpecs, each once, in the order of the catalog."""
    by_name: dict[str, list[GpuSpecEntry]] = {}
    for spec in site.gpu_specs:
        if spec.lifecycle == "Active":
            by_name.setdefault(spec.name, []).append(spec)
    return [
        _SpecSummary(
            title=specs[0].title,
            gpu_text=describe_gpus(specs[0].gpus, specs[0].model),
            gpu_memory=specs[0].gpu_memory,
            memory_note=specs[0].memory_note,
            price=specs[0].price,
            free=sum(spec.free for spec in specs),
            total=sum(spec.total for spec in specs),
        )
        for specs in by_name.values()
    ]
