"""Signs requests to S3, by AWS Signature Version 4 with credentials of the environment.

Source: AWS' documentation, "Create a signed AWS API request". The request's path and query are already in their encoded form.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
from typing import NamedTuple
from urllib.parse import urlsplit

EMPTY = hashlib.sha256(b"").hexdigest()


class Credentials(NamedTuple):
    """An access key with its secret, and the region that it signs for."""

    key: str
    secret: str
    region: str


def signed(url: str, who: Credentials, now: datetime.datetime) -> dict[str, str]:
    """Return the headers of a GET with no body. `url` has its query sorted, as canonical requests have it."""
    parts = urlsplit(url)
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": parts.netloc, "x-amz-content-sha256": EMPTY, "x-amz-date": moment}
    names = ";".join(headers)
    lines = [f"{name}:{value}\n" for name, value in headers.items()]
    request = "\n".join(["GET", parts.path or "/", parts.query, "".join(lines), names, EMPTY])
    scope = f"{moment[:8]}/{who.region}/s3/aws4_request"
    hashed = hashlib.sha256(request.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashed}"
    key = b"AWS4" + who.secret.encode()
    for step in (moment[:8], who.region, "s3", "aws4_request"):
        key = hmac.new(key, step.encode(), hashlib.sha256).digest()
    proof = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    authorization = f"AWS4-HMAC-SHA256 Credential={who.key}/{scope},SignedHeaders={names},Signature={proof}"
    return {"Host": headers.pop("host"), **headers, "Authorization": authorization}
