"""What Argo CD needs to begin with: a root for each cluster that deletes nothing, links for each forge, no one's rights."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.conftest import PROJECT, Allot, edit, golden
from tests.support.published import Place, git

from allotment.declared.tenant_resources import RESOURCE_KINDS
from allotment.manifests.yaml_text import load

SCHEMAS = PROJECT / "tests/schemas"


def objects(allot: Allot, root: Path) -> dict[str, dict[str, Any]]:
    result = allot("bootstrap", "--repo", root)
    assert (result.code, result.err) == (0, "")
    return {manifest["metadata"]["name"]: manifest for manifest in load(result.out.encode())}


def test_a_root_for_each_cluster_and_none_deletes(sample: Path, allot: Allot) -> None:
    manifests = objects(allot, sample)
    roots = {name: manifest for name, manifest in manifests.items() if manifest["kind"] == "Application"}
    assert set(roots) == {"allotment--root--eu-1", "allotment--root--us-1"}
    for name, root in roots.items():
        assert root["spec"]["source"] == {
            "repoURL": "https://github.com/northlight-example/gpus",
            "targetRevision": f"refs/heads/rendered/{name.removeprefix('allotment--root--')}",
            "path": "control",
            "directory": {"include": "*.rendered.yaml"},
        }
        assert root["spec"]["project"] in manifests
        assert "finalizers" not in root["metadata"]
        assert root["metadata"]["annotations"]["argocd.argoproj.io/sync-options"] == "Delete=false"


def test_every_object_fits_its_schema_and_lies_in_argo_cds_namespace(sample: Path, allot: Allot) -> None:
    for manifest in objects(allot, sample).values():
        assert manifest["metadata"]["namespace"] == "argocd"
        if manifest["kind"] != "ConfigMap":
            schema = json.loads((SCHEMAS / f"argoproj.io_v1alpha1_{manifest['kind']}.json").read_text())["schema"]
            jsonschema.Draft202012Validator(schema).validate(manifest)
        else:
            assert all(isinstance(value, str) for value in manifest["data"].values())
            assert manifest["metadata"]["labels"]["app.kubernetes.io/part-of"] == "argocd"


def test_by_default_nobody_sees_anything(sample: Path, allot: Allot) -> None:
    assert objects(allot, sample)["argocd-rbac-cm"]["data"] == {"policy.default": "", "scopes": "[groups]"}


@pytest.mark.parametrize(
    ("forge", "file", "folder"),
    [
        ("GitHub", "/blob/main/", "/tree/main/"),
        ("GitLab", "/-/blob/main/", "/-/tree/main/"),
        ("Gitea", *["/src/branch/main/"] * 2),
        ("Forgejo", *["/src/branch/main/"] * 2),
    ],
)
def test_links_lead_to_declarations_on_each_forge(
    forge: str, file: str, folder: str, sample: Path, allot: Allot
) -> None:
    edit(sample, "platform/platform.yaml", "forge: GitHub", f"forge: {forge}")
    data = objects(allot, sample)["argocd-cm"]["data"]
    application, *_ = yaml.safe_load(data["application.links"])
    resources = [link for link in yaml.safe_load(data["resource.links"]) if link["title"] == "Declaration"]
    assert application["url"].startswith(f"https://github.com/northlight-example/gpus{folder}tenants/")
    links = [re.fullmatch(r"(.*/tenants/)\{\{.*?\}\}/([a-z-]+)/\{\{.*?\}\}\.yaml", link["url"]) for link in resources]
    assert [link and link.groups() for link in links] == [
        (f"https://github.com/northlight-example/gpus{file}tenants/", kind.plural) for kind in RESOURCE_KINDS.values()
    ]
    assert all("allotment.dev/" in link["if"] for link in [application, *resources])


def test_graphs_are_linked_where_a_cluster_names_them(sample: Path, allot: Allot) -> None:
    edit(sample, "clusters/us-1/cluster.yaml", "monitoring:", "description: none")
    edit(
        sample,
        "clusters/us-1/cluster.yaml",
        "    grafanaURL: https://grafana.northlight.example/d/gpus/instances\n",
        "",
    )
    data = objects(allot, sample)["argocd-cm"]["data"]
    for what, variables in (("application", "&var-namespace=t-{{"), ("resource", "&var-instance={{")):
        (graphs,) = [link for link in yaml.safe_load(data[f"{what}.links"]) if link["title"] == "Graphs"]
        assert graphs["url"].startswith("https://grafana.northlight.example/d/gpus/instances?var-cluster=eu-1&")
        assert variables in graphs["url"]
        assert "application.metadata.labels['allotment.dev/cluster'] == 'eu-1'" in graphs["if"]


def test_this_repositorys_own_is_in_its_folder(sample: Path, allot: Allot) -> None:
    result = allot("bootstrap", "--repo", sample)
    golden(PROJECT / "argo/bootstrap.yaml", result.out)


def test_a_broken_offer_is_told_and_a_broken_tenant_is_no_matter(sample: Path, allot: Allot) -> None:
    edit(sample, "tenants/solo-ada/instances/webui.yaml", "l4-quarter", "l4-quater")
    assert objects(allot, sample)
    edit(sample, "clusters/us-1/cluster.yaml", "domain: us-1.gpu", "domain: eu-1.gpu")
    result = allot("bootstrap", "--repo", sample)
    assert (result.code, result.out) == (1, "")
    assert "[domain]" in result.err
    assert "l4-quater" not in result.err


def test_a_branch_names_no_repository_for_argo_cd(published: Place, allot: Allot) -> None:
    merged = allot("bootstrap", "--repo", published.root).out
    edit(
        published.root,
        "platform/platform.yaml",
        "url: https://github.com/northlight-example/gpus",
        "url: https://evil.test/x/y",
    )
    author = ("-c", "user.name=Eve", "-c", "user.email=eve@evil.test")
    git(published.root, *author, "commit", "-qam", "Name another repository")
    result = allot("bootstrap", "--repo", published.root)
    assert (result.code, result.out) == (0, merged)
    commit = git(published.root, "rev-parse", "--short=12", "origin/main")
    assert result.err == f"reads the merged commit {commit} of origin\n"
    git(published.root, "remote", "rename", "origin", "upstream")
    refused = allot("bootstrap", "--repo", published.root)
    assert (refused.code, "`git remote rename upstream origin`" in refused.err) == (2, True)
