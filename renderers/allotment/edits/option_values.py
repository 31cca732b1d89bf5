"""Parses the values of options, such as NAME:/path, and collects their problems."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from allotment.declared.reading import suggest_name
from allotment.problems import OperationRefused, quote_value

_MOUNT = re.compile(r"(?P<name>[^:]+):(?P<path>/[^:]*)(?P<access>:ro|:rw)?")
_NEW_STORAGE = re.compile(r"(?P<name>[^:]+):(?P<size>[^:]+):(?P<path>/[^:]*)(?P<access>:ro|:rw)?")
_PORT = re.compile(r"(?:(?P<name>[^:]+):)?(?P<number>[0-9]{1,9})(?:/(?P<protocol>http|tcp))?", re.IGNORECASE)
_FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_WHOLE_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


class MountText(NamedTuple):
    """A storage and its path in the container. `size` is empty if the storage exists already."""

    name: str
    size: str
    path: str
    read_only: bool

    def build_mount(self) -> dict[str, Any]:
        """Return the mount as an entry of `spec.storages`."""
        return {"name": self.name, "mountPath": self.path, **({"readOnly": True} if self.read_only else {})}


class OptionParser:
    """Parses option values. `problems` has a line for each wrong value; the result of a wrong value is empty."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def check_texts(self, values: Mapping[str, Any]) -> None:
        """Raise OperationRefused if a text has a character that no declaration can have. A value is a text or a tuple."""
        for name, value in values.items():
            for text in value if isinstance(value, tuple) else (value,):
                if isinstance(text, str) and _FORBIDDEN.search(text):
                    raise OperationRefused(
                        f"--{name.replace('_', '-')}: {quote_value(text)} has a control character, or is not UTF-8: remove it"
                    )

    def parse_mount(self, text: str, option: str = "--storage") -> MountText | None:
        """Return the mount in a text such as `models:/workspace/models:ro`."""
        if match := _MOUNT.fullmatch(text):
            return MountText(match["name"], "", match["path"], match["access"] == ":ro")
        self.problems.append(
            f"{option}: {quote_value(text)} is not in the format NAME:/PATH[:ro], such as models:/workspace/models"
        )
        return None

    def parse_new_storage(self, text: str) -> MountText | None:
        """Return the storage in a text such as `models:50Gi:/workspace/models`."""
        if match := _NEW_STORAGE.fullmatch(text):
            return MountText(match["name"], match["size"], match["path"], match["access"] == ":ro")
        self.problems.append(
            f"--new-storage: {quote_value(text)} is not in the format NAME:SIZE:/PATH[:ro],"
            " such as models:50Gi:/workspace/models"
        )
        return None

    def parse_port(self, text: str, exposure: str) -> dict[str, Any]:
        """Return the port in a text such as `http:8080` or `redis:6379/tcp`. A port without a name is `http`."""
        match = _PORT.fullmatch(text)
        if match is None:
            self.problems.append(
                f"--port: {quote_value(text)} is not in the format [NAME:]NUMBER[/tcp], such as http:8080"
            )
            return {}
        port: dict[str, Any] = {"name": match["name"] or "http", "containerPort": int(match["number"])}
        if (match["protocol"] or "").upper() == "TCP":
            return {**port, "protocol": "TCP"}
        return {**port, **({"exposure": exposure} if exposure else {})}

    def parse_pairs(self, option: str, texts: Iterable[str], pair: str = "KEY=VALUE") -> dict[str, str]:
        """Return the pairs in texts. `pair` names their format in errors."""
        pairs: dict[str, str] = {}
        for text in texts:
            key, separator, value = text.partition("=")
            if not key or not separator:
                self.problems.append(f"{option}: {quote_value(text)} is not in the format {pair}")
            elif key in pairs:
                self.problems.append(f"{option}: {quote_value(key)} occurs twice: omit one of them")
            else:
                pairs[key] = value
        return pairs

    def parse_count(self, option: str, text: str, most: int) -> int:
        """Return the whole number from 1 to `most` in a text; 1 if the text is wrong."""
        if _WHOLE_NUMBER.fullmatch(text) and int(text) <= most:
            return int(text)
        self.problems.append(f"{option}: {quote_value(text)} is not a whole number from 1 to {most}")
        return 1

    def choose(self, option: str, text: str, choices: Iterable[str]) -> str:
        """Return the choice that a text names in any case; empty if it names none."""
        listed = list(choices)
        chosen = next((choice for choice in listed if choice.lower() == text.lower()), "")
        if not chosen:
            self.problems.append(f"{option}: {quote_value(text)} is not one of {', '.join(listed)}")
        return chosen

    def check_name(self, option: str, name: str, names: Collection[str], owner: str) -> bool:
        """Return whether a name is among `names`. Otherwise, note a problem with the similar or the known names."""
        if name in names:
            return True
        hint = suggest_name(name, names) or "; there are none"
        self.problems.append(f"{option}: {owner} {quote_value(name)}{hint}")
        return False

    def add_refusal(self, option: str, error: OperationRefused) -> None:
        """Note the message of an error as a problem."""
        self.problems.append(f"{option}: {error}")

    def raise_problems(self) -> None:
        """Raise OperationRefused with all problems, if there are any."""
        if self.problems:
            raise OperationRefused("\n".join(dict.fromkeys(self.problems)))
