"""Load the Lua scripts with which Argo CD checks the health of objects: one file per kind, `<group>_<Kind>.lua`."""

from __future__ import annotations

from importlib.resources import files

# All policies of Envoy Gateway have a status of the same form, so one script checks all of them.
_POLICY = "gateway.envoyproxy.io_SecurityPolicy"
_SAME_STATUS = ("BackendTrafficPolicy", "ClientTrafficPolicy", "EnvoyExtensionPolicy")


def load_scripts() -> dict[str, str]:
    """Return the script of each kind, by the name of the kind in Argo CD's settings, such as `apps_Deployment`."""
    files_by_kind = {
        file.name.removesuffix(".lua"): file for file in files(__name__).iterdir() if file.name.endswith(".lua")
    }
    scripts = {kind: file.read_text(encoding="utf-8") for kind, file in files_by_kind.items()}
    scripts |= {f"gateway.envoyproxy.io_{kind}": scripts[_POLICY] for kind in _SAME_STATUS}
    return dict(sorted(scripts.items()))
