"""Remember the fixed text of accepted objects, so that the gate judges only the lines that a tenant chooses.

A frame is the text of an accepted object. Stand-ins replace the names of the tenant, the resource and the preparation
Job, and some lines are chosen: the tenant decides their value. A text matches a frame if it equals the frame after the
names of its owner replace the stand-ins, except in the chosen lines. A chosen line may differ only in its value, and
the value must match the slot of the line. `frame_learning` proves that the gate accepts every text that matches a
frame.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from allotment.isolation.slots import Slot, compile_slot
from allotment.manifests.yaml_text import Line, Malformed, parse_line

# The stand-ins of names are longer than any declared name, so no real text contains them. A real Job can have the
# suffix of the stand-in: `replace_names` in `frame_learning` refuses such a text.
STAND_IN = "stand-in-for-the-name-of-"
STAND_IN_TENANT = f"{STAND_IN}a-tenant"
STAND_IN_RESOURCE = f"{STAND_IN}an-instance-or-storage"
STAND_IN_JOB_SUFFIX = "--prepare-ffffffffff-9999"
JOB_SUFFIX = re.compile(r"--prepare-[0-9a-f]{10}-[0-9]{1,4}")
_NAMES = re.compile(f"({STAND_IN_TENANT}|{STAND_IN_RESOURCE}|{STAND_IN_JOB_SUFFIX})")
_NO_BOUNDARY: Mapping[str, Any] = {}
MAX_FRAMES = 1_500
MAX_FRAMES_OF_SCOPE = 64
# The most lines that a ChosenLine remembers, and the most characters of such a line.
MAX_ACCEPTED_LINES, MAX_ACCEPTED_LENGTH = 50, 300


class ChosenLine:
    """A line with a value of the tenant's choice. The value must have the form of `slot`.

    `accepted` has some of the accepted lines, because many tenants choose the same values. The acceptance of a line
    depends on the line alone.
    """

    __slots__ = ("accepted", "line", "slot")

    def __init__(self, line: Line, slot: Slot) -> None:
        self.line = line
        self.slot = slot
        self.accepted: set[str] = set()

    def accepts(self, text: str) -> bool:
        """Return whether a line differs at most in its value, and whether its value has the form."""
        line, own = parse_line(text), self.line
        if line.indent != own.indent or line.dash != own.dash or line.key != own.key:
            return False
        if not self.slot.matches(line.value, _NO_BOUNDARY):
            return False
        if len(text) <= MAX_ACCEPTED_LENGTH:
            if len(self.accepted) >= MAX_ACCEPTED_LINES:
                self.accepted.clear()
            self.accepted.add(text)
        return True


@lru_cache(maxsize=MAX_FRAMES)
def find_chosen_line(indent: int, dash: bool, key: str | None, slot: str) -> ChosenLine:
    """Return the chosen line with these properties. The frames share it, and the lines that it accepted."""
    return ChosenLine(Line(indent, dash, key, None), compile_slot(slot))


class Frame:
    """The lines of an accepted text, of which some are chosen. See the module's docstring."""

    __slots__ = ("_has_job", "_parts", "lines")

    def __init__(self, lines: Sequence[str | ChosenLine]) -> None:
        self.lines = tuple(lines)
        # Each part is a pair: a fixed text, split so that each stand-in is a separate piece, and the chosen line that
        # follows it (None in the last part).
        self._parts: list[tuple[list[str], ChosenLine | None]] = []
        fixed = ""
        for number, line in enumerate(lines):
            fixed += "\n" if number else ""
            if isinstance(line, str):
                fixed += line
            else:
                self._parts.append((_NAMES.split(fixed), line))
                fixed = ""
        self._parts.append((_NAMES.split(fixed), None))
        self._has_job = any(STAND_IN_JOB_SUFFIX in pieces for pieces, _ in self._parts)

    def matches(self, text: str, tenant: str, resource: str) -> bool:
        """Return whether a text matches this frame.

        Raises Malformed if a chosen line is not in the form that `dump` writes.
        """
        job = JOB_SUFFIX.search(text) if self._has_job else None
        owner_names = {STAND_IN_TENANT: tenant, STAND_IN_RESOURCE: resource}
        if job is not None:
            owner_names[STAND_IN_JOB_SUFFIX] = job[0]
        at = 0
        for pieces, chosen in self._parts:
            fixed = pieces[0] if len(pieces) == 1 else "".join([owner_names.get(piece, piece) for piece in pieces])
            if not text.startswith(fixed, at):
                return False
            at += len(fixed)
            if chosen is None:
                break
            end = text.find("\n", at)
            line = text[at:end] if end >= 0 else text[at:]
            if line not in chosen.accepted and not chosen.accepts(line):
                return False
            at += len(line)
        return at == len(text)


def join_frames(frames: Iterable[Frame]) -> Frame:
    """Return the frame of a file from the frames of its objects."""
    lines: list[str | ChosenLine] = []
    for frame in frames:
        lines += ["---", *frame.lines] if lines else frame.lines
    return Frame(lines)


Scope = tuple[str, str, str]  # the cluster, the part of the tree, and the name or stand-in of the resource


class FrameCache:
    """The frames of accepted texts, by scope and number of lines.

    The number of frames is limited: in all, and with the same scope and number of lines. A full cache drops the frames
    of the scope and number of lines that it has had for the longest time.
    """

    def __init__(self) -> None:
        self._frames: dict[tuple[Scope, int], list[Frame]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def find(self, scope: Scope, text: str, tenant: str, resource: str) -> Frame | None:
        """Return the first frame that a text matches; None if there is none, or if a chosen line is malformed."""
        frames = self._frames.get((scope, text.count("\n") + 1), ())
        try:
            return next((frame for frame in frames if frame.matches(text, tenant, resource)), None)
        except Malformed:
            return None

    def add(self, scope: Scope, frame: Frame) -> None:
        """Remember the frame of an accepted text."""
        while self._count >= MAX_FRAMES:
            self._count -= len(self._frames.pop(next(iter(self._frames))))
        frames = self._frames.setdefault((scope, len(frame.lines)), [])
        if len(frames) >= MAX_FRAMES_OF_SCOPE:
            frames.pop(0)
            self._count -= 1
        frames.append(frame)
        self._count += 1
