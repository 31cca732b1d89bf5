"""Signature Version 4, against the examples that AWS publishes ("Authenticating Requests: Using the Authorization Header")."""

from __future__ import annotations

import datetime

import pytest

from allotment.programs.signature import Credentials, signed

WHO = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1")
THEN = datetime.datetime(2013, 5, 24, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("url", "signature"),
    [
        ("?lifecycle=", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("?max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)
def test_as_aws_signs(url: str, signature: str) -> None:
    headers = signed(f"https://examplebucket.s3.amazonaws.com/{url}", WHO, THEN)
    assert headers["x-amz-date"] == "20130524T000000Z"
    assert headers["Authorization"].endswith(
        f"20130524/us-east-1/s3/aws4_request,SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature={signature}"
    )
