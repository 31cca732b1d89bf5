"""Fetches the discovery document of an identity provider, with one GET request."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from http import HTTPStatus

import msgspec
import urllib3

from allotment.adapters.http_connections import create_connection_pool
from allotment.adapters.http_responses import (
    CONNECT_SECONDS,
    ApiUnavailable,
    close_response,
    error_text,
    parse_http_date,
    read_body,
)
from allotment.adapters.request_limit import limit_request
from allotment.diagnosis.login import DiscoveryDocument, DiscoveryResponse, discovery_url
from allotment.problems import escape_unprintable

READ_SECONDS = 5.0
REQUEST_SECONDS = 15.0  # of the whole request
MAX_BYTES = 1 << 20  # bytes of a document; usual documents have some 5 KB


def fetch_discovery_document(issuer: str, now: datetime.datetime) -> DiscoveryResponse:
    """Return the discovery document of an issuer, or the reason why there is none.

    `now` is the time by the cluster's clock. A redirect is not followed, because its target is not the declared issuer.
    """
    url = discovery_url(issuer)
    begun = time.monotonic()
    try:
        with limit_request(REQUEST_SECONDS), create_connection_pool(url) as pool:
            answer = pool.request(
                "GET",
                url,
                headers={"Accept": "application/json"},
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
                preload_content=False,
                retries=False,
                redirect=False,
            )
            lead = _clock_lead(answer.headers, now, time.monotonic() - begun)
            if answer.status != HTTPStatus.OK:
                close_response(answer)
                return DiscoveryResponse(failure=f"it answers {answer.status}", clock_lead=lead)
            return _decode_document(read_body(answer, READ_SECONDS, MAX_BYTES), lead)
    except ApiUnavailable as error:
        return DiscoveryResponse(failure=str(error))
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        return DiscoveryResponse(failure=error_text(error))


def _decode_document(body: bytes, lead: float | None) -> DiscoveryResponse:
    try:
        return DiscoveryResponse(msgspec.json.decode(body, type=DiscoveryDocument), clock_lead=lead)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return DiscoveryResponse(
            failure=f"its answer can't be read: {escape_unprintable(str(error), 200)}", clock_lead=lead
        )


def _clock_lead(headers: Mapping[str, str], now: datetime.datetime, round_trip: float) -> float | None:
    """Return the seconds by which the server's clock is ahead of `now`, the time of the request; None if it is unknown.

    If the Date header of the response is a time between the request and the response, return 0. A cache keeps the Date
    header of the origin server and adds an Age header, so the server's time is the sum of both.
    """
    stamp = parse_http_date(headers.get("Date", ""))
    if stamp is None:
        return None
    age = headers.get("Age", "")
    lead = stamp + (int(age) if age.isascii() and age.isdigit() and len(age) < 9 else 0) - now.timestamp()
    return lead - min(max(lead, 0.0), round_trip)
