"""Define the types of field values, such as names, counts, sizes, money, durations and images.

The fields of the models are annotated with these types. Each type accepts a single notation, and its Python value is
exact: `Size` is in bytes, `Cpu` in millicores, `Duration` in seconds, and `Money` is a Decimal. If a value is wrong,
the validators in this module raise `PydanticCustomError(rule, message)`.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import pkgutil
import re
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, NoReturn

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from allotment.problems import quote_value

MEBI, GIBI, TEBI = 1024**2, 1024**3, 1024**4

NAME_PATTERN = "^[a-z](?:-?[a-z0-9])*$"
IMAGE_PATTERN = r"^[a-z0-9][a-zA-Z0-9._:/-]*@sha256:[0-9a-f]{64}$"
RULES_BY_PATTERN = {  # the rule and message for a value that does not match the pattern
    NAME_PATTERN: ("name", "write a-z, 0-9 and single '-', a letter first, no '-' last"),
}

_SIZE = re.compile(r"([1-9][0-9]{0,6})(Mi|Gi|Ti)")
_SIZE_UNITS = {"Mi": MEBI, "Gi": GIBI, "Ti": TEBI}
_MILLI_CPU = re.compile(r"([1-9][0-9]{0,6})m")
_MONEY = re.compile(r"(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,6})?")
_DURATION = re.compile(r"(?:([0-9]{1,5})h)?(?:([0-9]{1,5})m)?(?:([0-9]{1,5})s)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_IMAGE_NAME = re.compile(r"[a-z0-9][a-z0-9._:-]*(?:/[a-z0-9][a-z0-9._-]*)*")
_IMAGE_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ENV_PREFIX = re.compile(r"(?:(?!NVIDIA_|CUDA_MPS_)[A-Z][A-Z0-9_]{0,38}_)?")
_BASE_PATH = re.compile(r"/(?:[A-Za-z0-9._~-]+(?:/[A-Za-z0-9._~-]+)*/?)?")
ABSOLUTE_PATH = re.compile(r"(?:/[A-Za-z0-9._@+-]+)+")
SUB_PATH = re.compile(r"[A-Za-z0-9._@+-]+(?:/[A-Za-z0-9._@+-]+)*")
_LABEL_KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
# A branch name that `git check-ref-format` accepts, except the branches that Allotment writes. Each lookahead reads the
# text only once, so that a long text can't make the match slow.
_BRANCH = re.compile(
    r"(?!HEAD$)(?!(?:rendered|status|recover)(?:/|$))(?!.*(?:\.\.|\.lock(?:/|$)|\.$))"
    r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*"
)
_TIME_ZONE = re.compile(r"[A-Za-z]+(?:/[A-Za-z0-9_+-]+){0,2}")
_KUBERNETES_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
MIN_RSA_BITS = 2048
_ED25519_BYTES = 32
_FIELDS_BY_KEY_TYPE = {"ssh-ed25519": 2}  # all other types have 3
_SSH_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)|sk-ssh-ed25519@openssh\.com) ([A-Za-z0-9+/]+={0,2})(?: [\x21-\x7e]+)?"
)
MAX_MOUNT_PATH = 200
SYSTEM_PATHS = (
    "/dev",
    "/proc",
    "/sys",
    "/etc",
    "/bin",
    "/sbin",
    "/usr",
    "/lib",
    "/lib64",
    "/boot",
    "/run",
    "/var/run",
    "/scratch",
)


def raise_rule_error(rule: str, message: str) -> NoReturn:
    """Raise the error of a rule. The message may contain braces."""
    raise PydanticCustomError(rule, message.replace("{", "{{").replace("}", "}}"))


def _check_text(value: Any, want: str, rule: str = "type") -> str:
    if isinstance(value, str):
        return value
    return raise_rule_error(rule, f"{quote_value(value)} is not text: write {want}")


def _parse_size(value: Any) -> int:
    text = _check_text(value, "a size such as 16Gi", "quantity")
    if match := _SIZE.fullmatch(text):
        return int(match[1]) * _SIZE_UNITS[match[2]]
    return raise_rule_error(
        "quantity", f"{quote_value(text)} is not a size: write a whole number with Mi, Gi or Ti, such as 16Gi"
    )


def _parse_cpu(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 100_000:
        return value * 1000
    if isinstance(value, str) and (match := _MILLI_CPU.fullmatch(value)):
        return int(match[1])
    return raise_rule_error(
        "quantity",
        f"{quote_value(value)} is not an amount of CPU: write whole cores such as 8, or millicores such as 500m",
    )


def _parse_money(value: Any) -> Decimal:
    if isinstance(value, str) and _MONEY.fullmatch(value):
        return Decimal(value)
    return raise_rule_error(
        "money", f'{quote_value(value)} is not an amount: write a quoted decimal with at most 6 places, such as "0.24"'
    )


def _parse_duration(value: Any) -> int:
    text = _check_text(value, "a duration such as 1h30m", "duration")
    match = _DURATION.fullmatch(text)
    seconds = (
        sum(int(part or 0) * unit for part, unit in zip(match.groups(), (3600, 60, 1), strict=True)) if match else 0
    )
    if not seconds:
        raise_rule_error(
            "duration", f"{quote_value(text)} is not a duration: write hours, minutes and seconds, such as 1h30m"
        )
    if seconds > 366 * 86400:
        raise_rule_error("duration", f"{quote_value(text)} is longer than a year")
    return seconds


def _parse_date(value: Any) -> datetime.date:
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            pass
    return raise_rule_error("date", f'{quote_value(value)} is not a date: write a quoted day such as "2026-01-31"')


@cache
def _list_time_zones() -> frozenset[str]:
    """Return the known time zones. They come from the package `tzdata`, so they are the same on every machine."""
    names = pkgutil.get_data("tzdata", "zones")
    assert names is not None  # the loader of the package can read files
    return frozenset(names.decode("ascii").split())


def _parse_time_zone(value: Any) -> str:
    want = "an IANA time zone such as Europe/Berlin"
    text = _check_text(value, want)
    if text in _list_time_zones():
        return text
    return raise_rule_error("time-zone", f"{quote_value(text)} is not a known time zone: write {want}")


def _parse_image(value: Any) -> str:
    text = _check_text(value, "an image with its digest", "image")
    name, at, digest = text.partition("@")
    base, _, tag = name.rpartition(":")
    if not base or "/" in tag:
        base, tag = name, ""
    if tag == "latest":
        raise_rule_error("image", f"{quote_value(text)} names 'latest', which moves: write a version and the digest")
    if not at or not _DIGEST.fullmatch(digest):
        raise_rule_error(
            "image", f"{quote_value(text)} has no digest: write name:version@sha256:… with 64 hexadecimal digits"
        )
    if len(text) > 400 or not _IMAGE_NAME.fullmatch(base) or (tag and not _IMAGE_TAG.fullmatch(tag)):
        raise_rule_error(
            "image", f"{quote_value(text)} is not an image reference: write registry/name:version@sha256:…"
        )
    return text


def _parse_registry(value: Any) -> str:
    text = _check_text(value, "a registry with a '/' at its end", "image")
    if not text.endswith("/") or not _IMAGE_NAME.fullmatch(text[:-1]):
        raise_rule_error(
            "image",
            f"{quote_value(text)} is not a registry prefix: write a host and path with '/' at the end, such as registry.example/",
        )
    return text


def match_pattern(pattern: re.Pattern[str], rule: str, want: str, most: int = 253) -> Any:
    """Return a validator for strings that match a pattern and have at most `most` characters.

    `want` describes an allowed value in the error message.
    """

    def check(value: Any) -> str:
        text = _check_text(value, want, rule)
        if len(text) > most or not pattern.fullmatch(text):
            raise_rule_error(rule, f"{quote_value(text)} is not allowed here: write {want}")
        return text

    return check


def _check_base_path(value: Any) -> str:
    text = _check_text(value, "a path such as /lab", "path")
    if len(text) > 200 or not _BASE_PATH.fullmatch(text) or ".." in text:
        raise_rule_error(
            "path",
            f"{quote_value(text)} is not a base path: write / or letters, digits, '-', '_', '.', '~' between single '/'",
        )
    return text


def _check_mount_path(value: Any) -> str:
    text = _check_text(value, "a path such as /workspace/models", "path")
    if (
        len(text) > MAX_MOUNT_PATH
        or not ABSOLUTE_PATH.fullmatch(text)
        or any(part in (".", "..") for part in text.split("/"))
    ):
        raise_rule_error(
            "path",
            f"{quote_value(text)} is not an absolute path: write a path such as /workspace/models, without '..' or a '/' at the end",
        )
    if any(text == system_path or text.startswith(f"{system_path}/") for system_path in SYSTEM_PATHS):
        raise_rule_error(
            "path", f"{quote_value(text)} belongs to the system or the platform: mount below /workspace, for example"
        )
    return text


def _check_sub_path(value: Any) -> str:
    text = _check_text(value, "a path such as models/v1", "path")
    if len(text) > 200 or not SUB_PATH.fullmatch(text) or any(part in (".", "..") for part in text.split("/")):
        raise_rule_error(
            "path",
            f"{quote_value(text)} is not a path inside the storage: write a path such as models/v1, without '..'",
        )
    return text


def _read_key_fields(blob: bytes) -> list[bytes]:
    """Return the fields of a public key, such as its type, exponent and modulus; empty if the key is malformed.

    Each field follows its length in four bytes. Source: RFC 4253, 6.6.
    """
    fields, at = list[bytes](), 0
    while at + 4 <= len(blob):
        length = int.from_bytes(blob[at : at + 4], "big")
        fields.append(blob[at + 4 : at + 4 + length])
        at += 4 + length
    return fields if at == len(blob) else []


def _parse_ssh_key(value: Any) -> str:
    if isinstance(value, str) and "PRIVATE KEY" in value:
        raise_rule_error(
            "ssh-key",
            "this is a private key, and Git keeps it: never use it again, create another key pair, and write its public key, one line as in"
            " id_ed25519.pub",
        )
    text = _check_text(value, "a public key", "ssh-key")
    match = _SSH_KEY.fullmatch(text)
    if match and len(text) <= 2000:
        try:
            blob = base64.b64decode(match[2], validate=True)
        except (binascii.Error, ValueError):
            blob = b""
        is_canonical = base64.b64encode(blob).decode() == match[2]  # so that two texts can't be the same key
        fields = _read_key_fields(blob) if is_canonical else []
        if len(fields) == _FIELDS_BY_KEY_TYPE.get(match[1], 3) and fields[0] == match[1].encode():
            bits = int.from_bytes(fields[2], "big").bit_length() if match[1] == "ssh-rsa" else MIN_RSA_BITS
            if bits < MIN_RSA_BITS:
                raise_rule_error(
                    "ssh-key",
                    f"an RSA key of {bits} bits is too short: use ssh-ed25519, or RSA of {MIN_RSA_BITS} bits",
                )
            if match[1] != "ssh-ed25519" or len(fields[1]) == _ED25519_BYTES:
                return text
    return raise_rule_error(
        "ssh-key",
        f"{quote_value(text)} is not a public key: write one line as in id_ed25519.pub, without options before it, and without blanks in its comment",
    )


def _check_labels(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise_rule_error("type", f"{quote_value(value)} is not a mapping: write label: value pairs")
    for key, text in value.items():
        if not _LABEL_KEY.fullmatch(key):
            raise_rule_error(
                "label", f"{quote_value(key)} is not a label: write letters, digits, '-', '_', '.', at most 63, no '/'"
            )
        if not isinstance(text, str) or not _LABEL_VALUE.fullmatch(text):
            raise_rule_error(
                "label",
                f"{quote_value(text)} is not a label value: write text of letters, digits, '-', '_', '.', at most 63",
            )
    if len(value) > 20:
        raise_rule_error("label", f"{len(value)} labels are too many: write at most 20")
    return value


def json_schema(kind: str, pattern: re.Pattern[str] | None, *examples: object, **more: object) -> WithJsonSchema:
    """Return the JSON Schema of a type, as an annotation."""
    schema: dict[str, Any] = {"type": kind, **more}
    if pattern is not None:
        schema["pattern"] = f"^(?:{pattern.pattern})$"
    if examples:
        schema["examples"] = list(examples)
    return WithJsonSchema(schema)


def pattern_field(pattern: str, valid: str, **constraints: Any) -> Any:
    """Return the pydantic Field for a text that matches a pattern. `valid` describes the valid texts in the error."""
    RULES_BY_PATTERN[pattern] = ("pattern", f"write {valid}")
    return Field(pattern=pattern, **constraints)


def name_field(longest: int, shortest: int = 3) -> Any:
    """Return the pydantic Field for a name of `shortest` to `longest` characters."""
    return Field(pattern=NAME_PATTERN, min_length=shortest, max_length=longest)


Count = Annotated[int, Field(ge=1, le=1_000_000)]
CountOrZero = Annotated[int, Field(ge=0, le=1_000_000)]
Size = Annotated[int, BeforeValidator(_parse_size), json_schema("string", _SIZE, "16Gi")]
Cpu = Annotated[
    int,
    BeforeValidator(_parse_cpu),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": f"^(?:{_MILLI_CPU.pattern})$"}]}
    ),
]
Money = Annotated[Decimal, BeforeValidator(_parse_money), json_schema("string", _MONEY, "0.24")]
Duration = Annotated[int, BeforeValidator(_parse_duration), json_schema("string", _DURATION, "1h30m")]
Date = Annotated[datetime.date, BeforeValidator(_parse_date), json_schema("string", _DATE, "2026-01-01")]
Image = Annotated[
    str, BeforeValidator(_parse_image), WithJsonSchema({"type": "string", "pattern": IMAGE_PATTERN, "maxLength": 400})
]
Registry = Annotated[str, BeforeValidator(_parse_registry), json_schema("string", None, "registry.example/")]
EnvPrefix = Annotated[
    str,
    BeforeValidator(
        match_pattern(
            _ENV_PREFIX, "env", "a prefix such as DATA_: A-Z, 0-9 and '_', '_' last, and not NVIDIA_ or CUDA_MPS_", 40
        )
    ),
    json_schema("string", _ENV_PREFIX, maxLength=40),
]
BasePath = Annotated[str, BeforeValidator(_check_base_path), json_schema("string", _BASE_PATH, maxLength=200)]
MountPath = Annotated[
    str, BeforeValidator(_check_mount_path), json_schema("string", ABSOLUTE_PATH, maxLength=MAX_MOUNT_PATH)
]
SubPath = Annotated[str, BeforeValidator(_check_sub_path), json_schema("string", SUB_PATH, maxLength=200)]
SshKey = Annotated[str, BeforeValidator(_parse_ssh_key), json_schema("string", None, maxLength=2000)]
Labels = Annotated[
    dict[str, str],
    BeforeValidator(_check_labels),
    WithJsonSchema(
        {"type": "object", "additionalProperties": {"type": "string", "maxLength": 63}, "maxProperties": 20}
    ),
]
BranchName = Annotated[
    str,
    BeforeValidator(
        match_pattern(
            _BRANCH,
            "branch",
            "a branch such as main: valid in Git, and without the reserved prefixes rendered/, status/ and recover/",
            100,
        )
    ),
    json_schema("string", _BRANCH, "main", maxLength=100),
]
TimeZone = Annotated[str, BeforeValidator(_parse_time_zone), json_schema("string", _TIME_ZONE, "Europe/Berlin")]
KubernetesName = Annotated[
    str,
    BeforeValidator(match_pattern(_KUBERNETES_NAME, "name", "a Kubernetes name: a-z, 0-9, '-', at most 63")),
    json_schema("string", _KUBERNETES_NAME, maxLength=63),
]
Text = Annotated[str, Field(max_length=2000)]
LineOfText = Annotated[
    str,
    pattern_field(
        r"^[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?$", "a single line of text", max_length=200
    ),
]
Login = Annotated[
    str,
    pattern_field(
        r"^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,38}[A-Za-z0-9_])?(?:#[1-9][0-9]{0,17})?$",
        "a login of the forge such as ada-k, or ada-k#4711 with the user ID",
    ),
]  # such as ada-k, or ada-k#4711 with the ID at the forge
GroupName = Annotated[
    str,
    pattern_field(
        r"^[A-Za-z0-9](?:[A-Za-z0-9 ._:@/-]{0,98}[A-Za-z0-9])?$",
        "letters, digits, spaces, '.', '_', ':', '@', '/' and '-', at most 100, a letter or digit first and last",
    ),
]  # of the identity provider
ResourceName = Annotated[
    str, Field(pattern=NAME_PATTERN, max_length=32)
]  # without a ReferenceTo, because the resource may belong to another tenant


def parse_size(text: str) -> int:
    """Return the bytes of a size in declared notation, such as 20Gi."""
    return _parse_size(text)


def format_size(size: int) -> str:
    """Return a number of bytes as the shortest exact quantity: 17179869184 → 16Gi."""
    for unit, factor in (("Ti", TEBI), ("Gi", GIBI), ("Mi", MEBI)):
        if size % factor == 0 and size:
            return f"{size // factor}{unit}"
    return str(size)


def format_decimal(amount: Fraction) -> str:
    """Return an amount as a decimal: 13/4 → 3.25. If the decimal never ends, it is rounded and marked: 6/7 → ~0.857."""
    remainder = amount.denominator
    for prime in (2, 5):
        while remainder % prime == 0:
            remainder //= prime
    if remainder != 1:
        return f"~{float(amount):.3f}"
    return f"{(Decimal(amount.numerator) / Decimal(amount.denominator)).normalize():f}"


def format_duration(seconds: float) -> str:
    """Return whole seconds in declared notation, such as 1h30m."""
    parts = zip((int(seconds) // 3600, int(seconds) // 60 % 60, int(seconds) % 60), "hms", strict=True)
    return "".join(f"{amount}{unit}" for amount, unit in parts if amount) or "0s"


def format_cpu(millicores: int) -> str:
    """Return millicores in Kubernetes notation: 8000 → 8, 500 → 500m."""
    return str(millicores // 1000) if millicores % 1000 == 0 else f"{millicores}m"
