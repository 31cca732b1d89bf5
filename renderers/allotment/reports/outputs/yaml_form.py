"""Converts the JSON output of a command to YAML with the same fields."""

from __future__ import annotations

import json

import yaml

from allotment.reports.outputs import as_json
from allotment.reports.outputs.output import Output

_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # libyaml is 10 times as fast


def as_yaml(output: Output) -> str:
    """Return an output as YAML in ASCII, with the fields and values of its JSON."""
    text: str = yaml.dump(json.loads(as_json(output)), Dumper=_DUMPER, sort_keys=False, width=4096)
    return text
