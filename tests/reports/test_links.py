"""The links of an instance lead to its log, a terminal and its graphs, whatever its names hold."""

from __future__ import annotations

from allotment.observed.rollout import ResourceRef, RolloutStage
from allotment.observed.status import Instance
from allotment.reports.links import Consoles, InstanceLinks, instance_links
from allotment.reports.rollout import Rollout, render_comment

CONSOLES = Consoles("https://argocd.example/", {"eu-1": "https://grafana.example/d/gpus"})
RUNS = Instance("webui", "b1", "Running", "ProbesAnswered", pods=1, running_pod="webui-5d4-x")


def test_log_terminal_and_graphs() -> None:
    page = "https://argocd.example/applications/argocd/solo-ada--eu-1--compute"
    assert instance_links(CONSOLES, "solo-ada", "eu-1", RUNS) == InstanceLinks(
        f"{page}?node=apps/Deployment/t-solo-ada/webui/0&tab=logs",
        f"{page}?node=/Pod/t-solo-ada/webui-5d4-x/0&tab=exec",
        "https://grafana.example/d/gpus?var-cluster=eu-1&var-namespace=t-solo-ada&var-instance=webui",
    )


def test_a_link_that_leads_nowhere_is_left_out() -> None:
    stopped = Instance("webui", "b1", "Stopped", "StoppedAsDeclared")
    assert instance_links(Consoles("", {}), "solo-ada", "eu-1", RUNS) == InstanceLinks()
    links = instance_links(CONSOLES, "solo-ada", "eu-1", stopped)
    assert (links.log, links.terminal, bool(links.graphs)) == ("", "", True)
    assert instance_links(CONSOLES, "solo-ada", "us-1", RUNS).graphs == ""


def test_hostile_names_are_percent_encoded_and_inject_no_markdown() -> None:
    name = ") [x](https://evil.example) | @ada &tab=exec/\n<b>"
    hostile = Instance(name, "b1", "Running", "", pods=1, running_pod=name)
    links = instance_links(CONSOLES, "solo-ada", "eu-1", hostile)
    encoded = "%29%20%5Bx%5D%28https%3A%2F%2Fevil.example%29%20%7C%20%40ada%20%26tab%3Dexec%2F%0A%3Cb%3E"
    assert links.log.endswith(f"?node=apps/Deployment/t-solo-ada/{encoded}/0&tab=logs")
    assert links.terminal.endswith(f"?node=/Pod/t-solo-ada/{encoded}/0&tab=exec")
    assert links.graphs.endswith(f"&var-instance={encoded}")
    text = render_comment(
        Rollout(
            "c" * 40,
            ("eu-1",),
            [(ResourceRef("instance", "solo-ada", "x", "eu-1", "b1"), RolloutStage("done", "x"), links)],
        ),
        60_000,
    )
    assert text.splitlines()[-1].endswith(
        f" [log]({links.log}) [terminal]({links.terminal}) [graphs]({links.graphs}) |"
    )
