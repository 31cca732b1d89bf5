"""Lists the pods of a tenant and reads the logs of their containers, with the rights of the caller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import urllib3

from allotment.adapters.http_responses import ApiUnavailable, close_response, error_text
from allotment.observed import decoding
from allotment.observed.objects import Pod

if TYPE_CHECKING:
    from allotment.adapters.cluster.api import ApiServer

LIST_SECONDS = 30
_CHUNK_BYTES = 64 << 10


class LogOptions(NamedTuple):
    """The part of a log to read.

    - `container` is the container; empty for the only container of a pod.
    - `follow` waits for more lines until the container ends.
    - `previous` selects the run of the container before its last restart.
    - `since_seconds` selects the lines of the last seconds, and `tail_lines` the last lines; None for all.
    """

    container: str = ""
    follow: bool = False
    previous: bool = False
    since_seconds: int | None = None
    tail_lines: int | None = None


def list_pods(api: ApiServer, namespace: str, selector: str) -> list[Pod]:
    """Return the pods of a namespace with the labels of `selector`. Raises ApiError or ApiUnavailable."""
    return select_pods(api, {"labelSelector": selector}, namespace)


def select_pods(api: ApiServer, query: Mapping[str, str], namespace: str = "") -> list[Pod]:
    """Return the pods of a namespace, or of all namespaces, with the selectors of `query`.

    Raises ApiError or ApiUnavailable.
    """
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    data = api.read(path, query, "application/json", LIST_SECONDS)
    try:
        objects = decoding.PODS.decode_page(data).objects
    except decoding.UnreadableResponse:
        raise ApiUnavailable("the response is no list of pods") from None
    return [pod for pod in objects if isinstance(pod, Pod)]


def stream_log(api: ApiServer, namespace: str, pod: str, options: LogOptions) -> Iterator[bytes]:
    """Yield the log of a container in pieces of any length. Raises ApiError or ApiUnavailable."""
    query = {
        "container": options.container,
        "follow": "true" if options.follow else "",
        "previous": "true" if options.previous else "",
        "sinceSeconds": "" if options.since_seconds is None else str(options.since_seconds),
        "tailLines": "" if options.tail_lines is None else str(options.tail_lines),
    }
    answer = api.open(
        f"/api/v1/namespaces/{namespace}/pods/{pod}/log",
        {key: value for key, value in query.items() if value},
        "*/*",
        None if options.follow else LIST_SECONDS,
        reads_reason=True,
    )
    try:
        while piece := answer.read1(_CHUNK_BYTES):
            yield piece
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ApiUnavailable(error_text(error)) from None
    finally:
        close_response(answer)
