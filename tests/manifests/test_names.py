"""Names: injective, and short enough for one DNS label."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.manifests.names import application, files_host, instance_host, namespace

NAME = st.from_regex(r"[a-z](?:-?[a-z0-9]){2,19}", fullmatch=True)
PORT = (st.just("http") | st.from_regex(r"[a-z](?:-?[a-z0-9]){2,6}", fullmatch=True)).filter(
    lambda port: port != "files"
)
THING = st.tuples(st.sampled_from(["port", "files"]), NAME, PORT, NAME)


def host(thing: tuple[str, str, str, str]) -> str:
    kind, name, port, tenant = thing
    return instance_host(name, port, tenant, "d.example") if kind == "port" else files_host(name, tenant, "d.example")


@settings(max_examples=1000)
@given(THING, THING)
def test_hosts_are_injective(one: tuple[str, str, str, str], other: tuple[str, str, str, str]) -> None:
    def same(a: tuple[str, str, str, str], b: tuple[str, str, str, str]) -> bool:
        return (a[0], a[1], a[3], a[2] if a[0] == "port" else "") == (b[0], b[1], b[3], b[2] if b[0] == "port" else "")

    assert (host(one) == host(other)) == same(one, other)


def test_the_longest_names_fit() -> None:
    tenant, instance, cluster, storage, port = "t" * 20, "i" * 24, "c" * 24, "s" * 32, "p" * 15
    assert len(instance_host(instance, port, tenant, "d").split(".")[0]) == 63
    assert len(files_host(storage, tenant, "d").split(".")[0]) <= 63
    assert len(application(tenant, cluster, "storage")) <= 63
    assert len(namespace(tenant)) <= 63
