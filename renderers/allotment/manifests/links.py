"""Build URLs of pages in Argo CD and Grafana.

Callers percent-encode the names that they pass (`percent_encode`), but not templates that Argo CD fills in.
"""

from __future__ import annotations

from allotment.manifests import names

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")  # RFC 3986, 2.3


def percent_encode(name: str) -> str:
    """Return a name, percent-encoded as a part of a URL."""
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in name.encode())


def node_page_url(argocd_url: str, application: str, node: str, tab: str) -> str:
    """Return the URL of a resource's page in Argo CD, opened at a tab; `node` is group/kind/namespace/name."""
    base = argocd_url.rstrip("/")
    return f"{base}/applications/{names.ARGO_NAMESPACE}/{application}?node={node}/0&tab={tab}"


def graphs_page_url(grafana_url: str, cluster: str, namespace: str, instance: str = "") -> str:
    """Return the URL of the dashboard of a namespace, or of an instance in it."""
    page = f"{grafana_url}?var-cluster={cluster}&var-namespace={namespace}"
    return f"{page}&var-instance={instance}" if instance else page
