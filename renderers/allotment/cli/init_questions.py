"""The questions of `allot init`, in their order, and their explanations."""

from __future__ import annotations

from typing import NamedTuple


class Question(NamedTuple):
    """A question about an option, and its explanation, which the answer `?` prints."""

    text: str
    explanation: str


QUESTIONS = {
    "forge": Question(
        "The kind of forge that hosts the repository",
        "The service or server for Git repositories and pull requests. Allotment writes the CI file for this kind of forge.",
    ),
    "url": Question(
        "The clone URL of the repository, https://…",
        "Create an empty repository at the forge, and copy its address for `git clone`, such as"
        " https://github.com/acme/gpus. CI and Argo CD read the repository there.",
    ),
    "cluster": Question(
        "The first cluster's name",
        "The name of the folder of the cluster, and a part of the host of each instance. It needs no name in Kubernetes.",
    ),
    "domain": Question(
        "The parent domain of all instances",
        "A domain with DNS records that you can set, such as gpu.acme.dev. Instances are served at"
        " https://NAME--TENANT.CLUSTER.DOMAIN.",
    ),
    "oidc_issuer": Question(
        "The OIDC issuer for logins, https://…",
        "The address of your OpenID Connect provider, such as https://id.acme.dev. People log in there before they open an"
        " instance.",
    ),
    "admin": Question(
        "Your login at the forge; you approve changes to the platform",
        "The name of your account at the forge, such as alice. It becomes the first member of the team `platform`.",
    ),
    "program": Question(
        "The pinned source of Allotment for CI: git+https://…@COMMIT, a wheel's URL#sha256=…, an image@sha256:…",
        """CI and people install exactly this version of Allotment, so the source can't change later:
  git+https://HOST/PATH@COMMIT         a commit of a Git repository that CI can read without a password; enough at the start
  https://HOST/NAME.whl#sha256=HASH    a wheel and its hash, as `make dist` in a checkout of Allotment prints them
  HOST/NAME@sha256:DIGEST              a container image by its digest
Without a source yet, push the checkout of Allotment to your forge, and write its address with the commit.""",
    ),
}
