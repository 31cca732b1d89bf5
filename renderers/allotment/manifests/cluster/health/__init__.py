"""Health checks for Argo CD, in its Lua: one file a kind, named `<group>_<Kind>.lua` as its configuration names it."""

from __future__ import annotations

from importlib.resources import files


def load_scripts() -> dict[str, str]:
    """Return every check's script by the name of its kind, such as `apps_Deployment`."""
    scripts = [file for file in files(__name__).iterdir() if file.name.endswith(".lua")]
    return {file.name.removesuffix(".lua"): file.read_text(encoding="utf-8") for file in sorted(scripts, key=str)}
