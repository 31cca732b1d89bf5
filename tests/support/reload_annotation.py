"""The annotation that restarts a pod after a change of a secret."""

from __future__ import annotations

RELOAD = "secret.reloader.stakater.com/reload"
