"""Remember the fixed text of accepted objects, so that the gate judges only the lines that a tenant chooses.

A frame is the text of an accepted object. Stand-ins replace the names of the tenant, the resource and the preparation
Job, and some lines are chosen: the tenant decides their value. A text has the form of a frame if it equals the frame
with the names of its owner, and if each chosen line has the same indentation, dash and key, and a value of the form that
the pattern demands there. `frame_learning` proves that the gate accepts every text that has the form of a frame.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from allotment.isolation.slots import Slot
from allotment.manifests.yaml_text import Line, Malformed, parse_line

# Stand-ins are longer than any declared name, so a text with stand-ins cannot be mistaken for a real text.
STAND_IN = "stand-in-for-the-name-of-"
STAND_IN_TENANT = f"{STAND_IN}a-tenant"
STAND_IN_RESOURCE = f"{STAND_IN}an-instance-or-storage"
STAND_IN_JOB_SUFFIX = "--prepare-ffffffffff-9999"
JOB_SUFFIX = re.compile(r"--prepare-[0-9a-f]{10}-[0-9]{1,4}")
_NAMES = re.compile(f"({STAND_IN_TENANT}|{STAND_IN_RESOURCE}|{STAND_IN_JOB_SUFFIX})")
_JOB_LINE = f"  name: {STAND_IN_RESOURCE}{STAND_IN_JOB_SUFFIX}"
_NO_BOUNDARY: Mapping[str, Any] = {}
MAX_FRAMES = 1_500
MAX_FRAMES_OF_SCOPE = 64


class ChosenLine(NamedTuple):
    """A line whose value the tenant chooses. The value must have the form of `slot`."""

    line: Line
    slot: Slot

    def matches(self, text: str) -> bool:
        """Return whether a line differs at most in its value, and whether its value has the form."""
        line, own = parse_line(text), self.line
        return (
            line.indent == own.indent
            and line.dash == own.dash
            and line.key == own.key
            and self.slot.matches(line.value, _NO_BOUNDARY)
        )


class Frame:
    """The lines of an accepted text, of which some are chosen. See the module's docstring."""

    __slots__ = ("_chosen", "_constant", "_get_constant", "_job_line", "_named", "_named_pieces", "lines")

    def __init__(self, lines: Sequence[str | ChosenLine]) -> None:
        self.lines = tuple(sys.intern(line) if type(line) is str else line for line in lines)
        fixed = [(number, line) for number, line in enumerate(lines) if isinstance(line, str)]
        self._chosen = [(number, line) for number, line in enumerate(lines) if isinstance(line, ChosenLine)]
        self._named = [number for number, line in fixed if _NAMES.search(line)]
        self._named_pieces = _NAMES.split("\n".join(line for _, line in fixed if _NAMES.search(line)))
        self._job_line = lines.index(_JOB_LINE) if _JOB_LINE in lines else None
        self._get_constant = itemgetter(*(number for number, line in fixed if not _NAMES.search(line)))
        self._constant = self._get_constant(self.lines)

    def matches(self, lines: list[str], tenant: str, resource: str) -> bool:
        """Return whether the lines of a text have the form of this frame. There must be as many as the frame has.

        Raises Malformed if a chosen line is not in the form that `dump` writes.
        """
        if self._get_constant(lines) != self._constant:
            return False
        job_suffix = ""
        if self._job_line is not None:
            match = JOB_SUFFIX.search(lines[self._job_line])
            if match is None:
                return False
            job_suffix = match[0]
        owner_names = {STAND_IN_TENANT: tenant, STAND_IN_RESOURCE: resource, STAND_IN_JOB_SUFFIX: job_suffix}
        expected_text = "".join([owner_names.get(piece, piece) for piece in self._named_pieces])
        if "\n".join([lines[number] for number in self._named]) != expected_text:
            return False
        return all(chosen.matches(lines[number]) for number, chosen in self._chosen)


def join_frames(frames: Iterable[Frame]) -> Frame:
    """Return the frame of a file from the frames of its objects."""
    lines: list[str | ChosenLine] = []
    for frame in frames:
        lines += ["---", *frame.lines] if lines else frame.lines
    return Frame(lines)


Scope = tuple[str, str, str]  # the cluster, the part of the tree, and the name or stand-in of the resource


class FrameCache:
    """The frames of accepted texts, by scope and number of lines. Both numbers of frames are limited."""

    def __init__(self) -> None:
        self._frames: dict[tuple[Scope, int], list[Frame]] = {}
        self.verdicts: dict[Frame, bool] = {}

    def find(self, scope: Scope, text: str, tenant: str, resource: str) -> Frame | None:
        """Return a frame of which a text has the form."""
        lines = text.split("\n")
        frames = self._frames.get((scope, len(lines)), ())
        try:
            return next((frame for frame in frames if frame.matches(lines, tenant, resource)), None)
        except Malformed:
            return None

    def add(self, scope: Scope, frame: Frame) -> None:
        """Remember the frame of an accepted text."""
        if len(self.verdicts) >= MAX_FRAMES:
            self._frames.clear()
            self.verdicts.clear()
        frames = self._frames.setdefault((scope, len(frame.lines)), [])
        if len(frames) >= MAX_FRAMES_OF_SCOPE:
            del self.verdicts[frames.pop(0)]
        frames.append(frame)
        self.verdicts[frame] = True
