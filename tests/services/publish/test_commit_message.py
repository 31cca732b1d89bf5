"""What a publish's commit says: each thing that changed and whose it is, in our words and nobody's text."""

from __future__ import annotations

from allotment.branches.rendered_branches import BRAKE_APPROVED_LINE
from allotment.services.publish.commit_message import MAX_LINES, format_commit_message

ONE, OTHER = 40 * "a", 40 * "b"


def test_format_commit_message_names_each_change_and_its_tenant() -> None:
    changes = {
        "control/argo/s/solo-ada.rendered.yaml": "A",
        "control/namespaces/s/solo-ada.rendered.yaml": "M",
        "control/platform.rendered.yaml": "M",
        "platform/stock/l4-quarter.rendered.yaml": "M",
        "tenants/solo-ada/compute/webui.rendered.yaml": "A",
        "tenants/solo-ada/storage/allotment--programs-0a1b.rendered.yaml": "A",
        "tenants/uni-lab/storage/course--leaving.rendered.yaml": "A",
        "tenants/uni-lab/storage/course.rendered.yaml": "D",
    }
    assert format_commit_message(
        "eu-1", changes, OTHER, {"Source-Commit": ONE, "Status-Commit": ""}, approved=True
    ) == (
        "Publish eu-1: 4 added, 3 changed, 1 removed\n"
        "\n"
        "platform: 2 files changed\n"
        "solo-ada: instance webui added\n"
        "solo-ada: namespace changed\n"
        "solo-ada: programs added\n"
        "solo-ada: project and Applications added\n"
        "uni-lab: course--leaving added\n"
        "uni-lab: storage course removed\n"
        "\n"
        f"Replaces {OTHER}, which Allotment didn't write.\n"
        "\n"
        f"{BRAKE_APPROVED_LINE}\n"
        f"Source-Commit: {ONE}\n"
    )


def test_of_very_many_it_says_how_many_more() -> None:
    changes = {f"tenants/solo-ada/compute/web-{number}.rendered.yaml": "M" for number in range(60)}
    text = format_commit_message("eu-1", changes, None, {"Source-Commit": ONE}, approved=False)
    assert text.count("solo-ada: instance web-") == MAX_LINES
    assert f"\nand {60 - MAX_LINES} more\n\nSource-Commit: {ONE}\n" in text
