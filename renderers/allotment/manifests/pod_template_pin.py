"""Keep the published pod template of an instance, so that a new version of Allotment restarts no running pod.

Older versions rendered the tenant's plan as a label of the pods. Nothing reads this label. A published template keeps
the label until the template changes for another reason, or the instance has no pods.
"""

from __future__ import annotations

import re

from allotment.manifests.names import PLAN

_POD_TEMPLATE = re.compile(rb"^  template:\n(?:   .*\n)+", re.MULTILINE)
_NO_REPLICAS_LINE = re.compile(rb"^  replicas: 0$", re.MULTILINE)
_LABEL_LINE = re.compile(
    rb"(  template:\n    metadata:\n      labels:\n(?:        .*\n)*?)        %s: [a-z0-9-]+\n"
    % re.escape(PLAN).encode()
)
_SEPARATOR = b"---\n"  # follows the first object of a file, the Deployment


def with_pod_template_of(data: bytes, previous: bytes) -> bytes:
    """Return an instance's file `data`, either unchanged or with the pod template of the `previous` file.

    The template is taken from `previous` if the two templates differ only in the plan label, and if the Deployments in
    both files have replicas.
    """
    old, new = (_POD_TEMPLATE.search(content.partition(_SEPARATOR)[0]) for content in (previous, data))
    if old is None or new is None or _LABEL_LINE.sub(rb"\1", old[0], count=1) != new[0]:
        return data
    if any(_NO_REPLICAS_LINE.search(content.partition(_SEPARATOR)[0]) for content in (previous, data)):
        return data
    return data[: new.start()] + old[0] + data[new.end() :]
