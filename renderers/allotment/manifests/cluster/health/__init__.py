"""Load the health checks for Argo CD, written in Lua: one file per kind, named `<group>_<Kind>.lua` as in its settings."""

from __future__ import annotations

from importlib.resources import files

# Each policy of Envoy Gateway has the same status.
_POLICY = "gateway.envoyproxy.io_SecurityPolicy"
_SAME_STATUS = ("BackendTrafficPolicy", "ClientTrafficPolicy", "EnvoyExtensionPolicy")


def load_scripts() -> dict[str, str]:
    """Return the script of every check, by the name of its kind, such as `apps_Deployment`."""
    files_by_kind = {
        file.name.removesuffix(".lua"): file for file in files(__name__).iterdir() if file.name.endswith(".lua")
    }
    scripts = {kind: file.read_text(encoding="utf-8") for kind, file in files_by_kind.items()}
    scripts |= {f"gateway.envoyproxy.io_{kind}": scripts[_POLICY] for kind in _SAME_STATUS}
    return dict(sorted(scripts.items()))
