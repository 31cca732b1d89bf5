"""A usage log grows by a line per interval, and continues the log of an earlier month."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.manifests.yaml_text import Malformed
from allotment.observed import usage_log
from allotment.observed.status import ImplausibleStatus, UsageInterval
from allotment.observed.usage_log import UsageLogHeader, append_usage, parse_usage_log

NOVEMBER = UsageLogHeader("eu-1", "kite", "2026-11-30T23:00:00Z")
DECEMBER = UsageLogHeader("eu-1", "kite", "2026-12-01T00:00:00Z", "c0ffee")


def interval(name: str = "webui", hour: int = 10) -> UsageInterval:
    start, end = f"2026-11-21T{hour:02d}:00:00Z", f"2026-11-21T{hour:02d}:30:00Z"
    return UsageInterval("GPUInstance", name, f"u-{hour}", start, end, gpu_spec="l4", labels={"team": "art"})


def test_a_log_has_a_line_per_interval_after_its_header() -> None:
    data = append_usage(None, NOVEMBER, [interval()])
    longer = append_usage(data, UsageLogHeader("eu-1", "kite", "2026-11-30T23:59:59Z", "c0ffee"), [interval(hour=11)])
    assert longer.startswith(data)
    assert [json.loads(line).get("uid") for line in longer.splitlines()] == [None, "u-10", "u-11"]
    assert parse_usage_log(longer) == (NOVEMBER, [interval(), interval(hour=11)])


def test_a_month_has_a_log_of_its_own() -> None:
    data = append_usage(None, NOVEMBER, [interval()])
    assert parse_usage_log(append_usage(data, DECEMBER, [interval(hour=11)])) == (DECEMBER, [interval(hour=11)])
    begun = append_usage(None, DECEMBER, [interval()])
    assert append_usage(begun, NOVEMBER, [interval(hour=11)]).startswith(begun), "the clock was set back"


def test_a_large_or_unreadable_log_is_continued_in_another(monkeypatch: pytest.MonkeyPatch) -> None:
    data = append_usage(None, NOVEMBER, [interval()])
    monkeypatch.setattr(usage_log, "MAX_LOG_BYTES", len(data))
    later = UsageLogHeader("eu-1", "kite", "2026-11-30T23:10:00Z", "c0ffee")
    for previous in (data, b"", b"\xff\n", b"[]", b"{}\n", b'{"kind":"Other","cluster":"a","tenant":"b","since":""}'):
        assert parse_usage_log(append_usage(previous, later, [interval()])).header == later


@given(st.text(), st.dictionaries(st.text(), st.text()))
def test_any_text_is_read_back(text: str, labels: dict[str, str]) -> None:
    start = "2026-11-21T10:00:00Z"
    each = UsageInterval("GPUStorage", text, text, start, start, size=text, storage_spec=text, labels=labels)
    assert parse_usage_log(append_usage(None, NOVEMBER, [each])).intervals == [each]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"kind":"GPUInstance"}', "missing required field"),
        (b"\xff", "no UsageLog"),
        (b'{"kind":"a","name":"b","uid":"c","startTime":"yesterday","endTime":"today"}', "isn't RFC 3339"),
        (b'{"kind":"a","name":"b","uid":"c","startTime":"2026-11-21T10:00:00Z"}', "'c' ends before it starts"),
        (b'{"kind":"a","name":"b","uid":"c","startTime":"","endTime":"2026-11-21T10:00:00Z"}', "'c' has no start"),
        (
            b'{"kind":"a","name":"b","uid":"c","startTime":"0001-01-01T00:00:00Z","endTime":"2026-11-21T10:00:00Z"}',
            "0001",
        ),
        (
            b'{"kind":"a","name":"b","uid":"c","startTime":"2026-11-21T10:00:00","endTime":"2026-11-21T10:00:00"}',
            "time zone",
        ),
        (b'{"kind":"a","name":"b","uid":"c","startTime":"2026-11-21T10:00:00Z","labels":["x"]}', "no UsageLog"),
        (b'{"kind":"a","name":"b","uid":"c","startTime":"2026-11-21T10:00:00Z","labels":{"x":1}}', "no UsageLog"),
    ],
)
def test_parse_usage_log_refuses_an_invalid_line(line: bytes, message: str) -> None:
    with pytest.raises((Malformed, ImplausibleStatus), match=message):
        parse_usage_log(append_usage(None, NOVEMBER, [interval()]) + line + b"\n")


@pytest.mark.parametrize("since", ["", "yesterday", "2026-11-30T23:00:00", "9999-12-31T23:00:00Z"])
def test_a_header_without_a_time_is_refused(since: str) -> None:
    with pytest.raises(ImplausibleStatus, match="isn't RFC 3339"):
        parse_usage_log(append_usage(None, UsageLogHeader("eu-1", "kite", since), []))
