"""Names the extra of the Python package `allotment` that installs a missing module."""

from __future__ import annotations

EXTRAS = {
    "asyncssh": "access",
    "github": "forges",
    "gitlab": "forges",
    "icalendar": "portal",
    "jinja2": "portal",
    "kubernetes": "cluster",
    "lsprotocol": "editor",
    "markupsafe": "portal",
    "pygls": "editor",
    "requests": "forges",
    "websocket": "access",
}
"""The extra that installs each optional module. `cluster` installs `websocket` too."""


def explain_missing_module(error: ModuleNotFoundError) -> str | None:
    """Return the error message for a module of an extra that is not installed; None for any other module."""
    module = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(module)
    if extra is None:
        return None
    return (
        f"this needs the Python module {module}, which is not installed: install Allotment as allotment[{extra}], or as"
        " allotment[all] for every command"
    )
