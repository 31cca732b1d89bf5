"""A shell completes the names that the commands of the platform team take."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from allotment.cli.main import allot as program


@pytest.mark.parametrize(
    ("words", "incomplete", "names"),
    [
        (("tenant", "suspend"), "s", ["solo-ada", "studio-kite"]),
        (("tenant", "create", "blue-fox", "--plan"), "", ["enterprise", "starter", "team"]),
        (("member", "add"), "solo", ["solo-ada"]),
        (("member", "remove", "solo-ada"), "", ["ada"]),
        (("member", "remove", "--group", "studio-kite"), "kite-c", ["kite-clients"]),
        (("member", "remove", "nope"), "", []),
        (("spec", "price"), "l4-", ["l4-half", "l4-quarter", "l4-whole"]),
        (("spec", "retire", "l4-half"), "l40", ["l40s-spot"]),
        (("stock", "remove"), "us", ["us-1/h100-eight", "us-1/h100-one", "us-1/l40s-spot"]),
        (("stock", "add", "us-1/h100-more", "--node-pool"), "l4", ["l4-ts2-film", "l4-ts4", "l4-whole", "l40s-spot"]),
        (("stock", "add", "us-1/h100-more", "--spec"), "h", ["h100-eight", "h100-one"]),
        (("member", "add", "solo-ada", "ben", "--role"), "", ["Admin", "Member", "Viewer"]),
    ],
)
def test_names_are_completed(
    words: tuple[str, ...], incomplete: str, names: list[str], sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sample)
    completer = ShellComplete(program, {}, "allot", "_ALLOT_COMPLETE")
    assert [item.value for item in completer.get_completions([*words], incomplete)] == names
