"""What an instance's published pod template keeps: a pod that runs isn't restarted because we write its template
otherwise today.

Once it carried the tenant's plan as a label. Nothing reads that on a pod, so what was published with it keeps it, as
it was, until its template changes for another reason or nothing runs of it.
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
_SEPARATOR = b"---\n"  # of a file's first object, the Deployment


def with_pod_template_of(data: bytes, previous: bytes) -> bytes:
    """Return an instance's file with the pod template of its predecessor, where the two differ in nothing but the
    plan's label and pods run of both."""
    was, is_now = (_POD_TEMPLATE.search(content.partition(_SEPARATOR)[0]) for content in (previous, data))
    if was is None or is_now is None or _LABEL_LINE.sub(rb"\1", was[0], count=1) != is_now[0]:
        return data
    if any(_NO_REPLICAS_LINE.search(content.partition(_SEPARATOR)[0]) for content in (previous, data)):
        return data
    return data[: is_now.start()] + was[0] + data[is_now.end() :]
