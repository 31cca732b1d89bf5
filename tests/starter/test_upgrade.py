"""The difference between the generated files of two versions."""

from __future__ import annotations

from allotment.starter.upgrade import diff_files, generated_files


def test_peoples_files_are_not_generated() -> None:
    files = dict.fromkeys(
        ("README.md", ".gitignore", "platform/platform.yaml", "tenants/README.md", ".gitlab-ci.yml", "schemas/A.json"),
        b"",
    )
    assert generated_files(files) == {".gitlab-ci.yml": b"", "schemas/A.json": b""}


def test_short_files_show_their_lines_and_long_ones_their_number() -> None:
    old = {".gitlab-ci.yml": b"a\nb\n", "schemas/A.json": b"{\n}\n", "schemas/B.json": b"{}\n", "same": b"1"}
    new = {".gitlab-ci.yml": b"a\nc\n", "schemas/A.json": b"{\n1\n}\n", "schemas/C.json": b"1\n2\n", "same": b"1"}
    assert diff_files(old, new) == {
        ".gitlab-ci.yml": "--- a/.gitlab-ci.yml\n+++ b/.gitlab-ci.yml\n@@ -1,2 +1,2 @@\n a\n-b\n+c",
        "schemas/A.json": "schemas/A.json: changed, 1 line more, 0 fewer",
        "schemas/B.json": "schemas/B.json: removed, 0 lines more, 1 fewer",
        "schemas/C.json": "schemas/C.json: added, 2 lines more, 0 fewer",
    }
