"""Builds regular expressions for the folders at which an instance can mount a storage. A field of a form takes them as its pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable

from allotment.declared.values import ABSOLUTE_PATH, MAX_MOUNT_PATH, SYSTEM_PATHS

FOLDER_HINT = "a path such as /workspace/models, outside the folders of the system and of other storages"
_PUNCTUATION = re.compile(r"[.+]")
_PATH_IN_TEXT = re.compile(r"/[A-Za-z0-9._@+/-]+")


def build_free_folder_pattern(folders: Iterable[str]) -> str:
    """Return the pattern of a folder outside the system and the folders of other storages. It doesn't contain them either."""
    inside, around = _join((*SYSTEM_PATHS, *folders)), _join(_list_parents(folders))
    path = ABSOLUTE_PATH.pattern.replace("-]", r"\-]")
    return rf"(?!.{{{MAX_MOUNT_PATH + 1}}})(?!.*/\.\.?(?:/|$))(?!(?:{inside})(?:/|$))(?!(?:{around})$){path}"


def build_app_folder_pattern(folders: Iterable[str], texts: Iterable[str]) -> str:
    """Return the pattern of a folder for which the rule app-folder has no warning.

    `folders` are the folders of the app. `texts` are the arguments and the values of the variables of the instance.
    """
    paths = [path.rstrip("/") for text in texts for path in _PATH_IN_TEXT.findall(text)]
    return rf"(?:{_join(folders)})(?:/.*)?|{_join((*paths, *_list_parents((*folders, *paths))))}"


def _list_parents(folders: Iterable[str]) -> list[str]:
    return sorted({folder[:at] for folder in folders for at, letter in enumerate(folder) if letter == "/" and at})


def _join(paths: Iterable[str]) -> str:
    return "|".join(_PUNCTUATION.sub(r"\\\g<0>", path) for path in paths)
