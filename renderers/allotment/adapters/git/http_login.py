"""Logs in at a Git server with a token of a forge. The token is only in memory and in the environment of Git."""

from __future__ import annotations

import base64
import os

from allotment.problems import hide_in_errors


class HttpLogin:
    """A name and a secret for HTTP. `repr` shows neither, because some forges take the token as the name."""

    def __init__(self, name: str, secret: str) -> None:
        self._pair = base64.b64encode(f"{name}:{secret}".encode()).decode("ascii")
        hide_in_errors(secret, self._pair)

    def __repr__(self) -> str:
        return "HttpLogin(…)"

    def environment(self, url: str) -> dict[str, str]:
        """Return the environment variables with which Git logs in at `url`, and at no other URL.

        Git follows no redirect, because it would send the header to the other server too. Git also asks no program for
        a password.
        """
        settings = (
            (f"http.{url}.extraHeader", ""),  # the checkout of a CI job may have another login for the host
            (f"http.{url}.extraHeader", f"Authorization: Basic {self._pair}"),
            # A setting for a URL precedes a setting for all URLs, which a person may have.
            ("http.followRedirects", "false"),
            (f"http.{url}.followRedirects", "false"),
            ("credential.helper", ""),
            (f"credential.{url}.helper", ""),
        )
        count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
        variables = {"GIT_CONFIG_COUNT": str(count + len(settings)), "GIT_ASKPASS": os.devnull}
        for number, (name, value) in enumerate(settings, count):
            variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        return variables
