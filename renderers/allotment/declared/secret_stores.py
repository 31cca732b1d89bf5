"""Define the types of values that locate a secret in a store: paths, keys and properties."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from allotment.declared.values import json_schema, match_pattern, raise_rule_error

# A segment begins with a letter or digit, so no segment is `.`, `..` or empty.
_SEGMENT = r"[A-Za-z0-9][A-Za-z0-9._-]*"
STORE_PATH = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT}){{0,4}}")
# Kubernetes refuses the keys `.` and `..`, and keys that begin with `..`.
SECRET_KEY = re.compile(r"(?!\.\.|\.$)[-._a-zA-Z0-9]+")
# A name of a key is short. A value that a provider generates is long, and random.
SECRET_VALUE = re.compile(r"[0-9a-f]{20,}|(?=.*[0-9])(?=.*[a-z])(?=.*[A-Z]).{20,}")
# Stores read a property as an expression: without other characters, it can only name a field.
_PROPERTY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
MAX_PATH_LENGTH = 200
# Kubernetes requires exactly this key in a Secret with the credentials of container registries.
DOCKER_CONFIG_KEY = ".dockerconfigjson"


def _refuse_value(name: str) -> str:
    if SECRET_VALUE.fullmatch(name):
        raise_rule_error(
            "secret",
            f"this looks like a value: it has {len(name)} random characters, and Git history keeps it: revoke the secret,"
            " and write a short name such as token",
        )
    return name


StorePath = Annotated[
    str,
    BeforeValidator(
        match_pattern(
            STORE_PATH,
            "path",
            "1 to 5 segments joined by '/', such as team/huggingface; a segment has letters, digits, '.', '_' and '-',"
            " and begins with a letter or digit",
            MAX_PATH_LENGTH,
        )
    ),
    json_schema("string", STORE_PATH, "team/huggingface", maxLength=MAX_PATH_LENGTH),
]
SecretKey = Annotated[
    str,
    BeforeValidator(
        match_pattern(
            SECRET_KEY, "key-name", "at most 253 letters, digits, '-', '_' and '.', without '..' at the start"
        )
    ),
    AfterValidator(_refuse_value),
    json_schema("string", SECRET_KEY, "token", maxLength=253),
]
SecretProperty = Annotated[
    str,
    BeforeValidator(
        match_pattern(
            _PROPERTY,
            "key-name",
            "the name of a field: letters, digits, '.', '_' and '-', with a letter, digit or '_' first",
        )
    ),
    json_schema("string", _PROPERTY, "token", maxLength=253),
]
