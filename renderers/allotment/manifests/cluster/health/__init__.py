"""Load the health checks for Argo CD, written in Lua: one file per kind, named `<group>_<Kind>.lua` as in its settings."""

from __future__ import annotations

from importlib.resources import files


def load_scripts() -> dict[str, str]:
    """Return the script of every check, by the name of its kind, such as `apps_Deployment`."""
    scripts = [file for file in files(__name__).iterdir() if file.name.endswith(".lua")]
    return {file.name.removesuffix(".lua"): file.read_text(encoding="utf-8") for file in sorted(scripts, key=str)}
