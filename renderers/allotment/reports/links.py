"""Build the links to the log, the terminal and the graphs of an instance in Argo CD and Grafana."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from allotment.manifests import names
from allotment.manifests.links import graphs_page_url, node_page_url, percent_encode
from allotment.manifests.tenant.project_roles import INSTANCES_PART
from allotment.observed.status import Instance


class Consoles(NamedTuple):
    """The URLs of Argo CD and Grafana.

    `argocd` is empty if the URL of Argo CD is not declared. `grafana` has the URL of Grafana for each cluster that
    declares this URL.
    """

    argocd: str
    grafana: Mapping[str, str]


class InstanceLinks(NamedTuple):
    """The URLs of an instance's pages. A URL is empty if the page does not exist."""

    log: str = ""
    terminal: str = ""
    graphs: str = ""


def instance_links(consoles: Consoles, tenant: str, cluster: str, instance: Instance) -> InstanceLinks:
    """Return the links of an instance that a cluster reports.

    Argo CD shows the logs of all pods on the page of the Deployment, but a terminal only on the page of a pod.
    """
    name, pod = percent_encode(instance.name), percent_encode(instance.running_pod)
    namespace = percent_encode(names.namespace(tenant))
    application = percent_encode(names.application(tenant, cluster, INSTANCES_PART))
    log = terminal = graphs = ""
    if consoles.argocd and instance.pods:
        log = node_page_url(consoles.argocd, application, f"apps/Deployment/{namespace}/{name}", "logs")
    if consoles.argocd and pod:
        terminal = node_page_url(consoles.argocd, application, f"/Pod/{namespace}/{pod}", "exec")
    if grafana := consoles.grafana.get(cluster):
        graphs = graphs_page_url(grafana, percent_encode(cluster), namespace, name)
    return InstanceLinks(log, terminal, graphs)
