"""What reaches a container through the real gateway, and who gets there: Envoy Gateway, Envoy, logins at an issuer, Chromium."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from allotment.manifests import names
from allotment.manifests.login import ACCESS_TOKEN_COOKIE, ID_TOKEN_COOKIE
from allotment.manifests.tenant.exposure import AFFINITY_COOKIE
from tests.conftest import edit
from tests.controlplane import gateway, internet, issuer, rendered
from tests.controlplane.fixtures import Node
from tests.e2e.conftest import Render
from tests.e2e.node import access
from tests.e2e.node.access import Doors, host
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.node]
INSTANCE, FILES = host("webui", "solo-ada"), host("models--files", "solo-ada")
KITE, KITE_FILES = host("webui", "studio-kite"), host("outputs--files", "studio-kite")
PUBLIC, GROUP, PREVIEW = host("demo", "ml-orbit"), host("group-a", "uni-lab"), host("preview", "film-house")
SECOND = host("second", "solo-ada")
ROUTE_KINDS = {"gateway.networking.k8s.io/v1": "HTTPRoute", "gateway.envoyproxy.io/v1alpha1": "SecurityPolicy"}
BLANKS = 55_000  # with the cookies of a login less than 60 KiB, the most that Envoy accepts as headers
ADA, STRANGER, STUDENT, ARTIST = "00u1ada", "stranger", "student", "artist"
PEOPLE: dict[str, dict[str, Any]] = {
    ADA: {},
    "00u1mio": {},
    "lead": {"groups": ["kite-leads"]},
    "designer": {"groups": ["kite-designers", "others"]},
    "client": {"groups": ["kite-clients"]},
    STRANGER: {"groups": ["others"]},
    STUDENT: {"groups": ["uni-students"]},
    ARTIST: {"groups": ["film-artists"]},
    "late": {"groups": ["kite-leads"], "exp": 1_700_000_000},
    "foreign": {"groups": ["kite-leads"], "aud": "another-client"},
}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
SAME_HOST = "The request comes from a page of another host.\n"


@pytest.fixture(scope="module")
def doors(real_node: Node, render: Render, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """Return the rendered routes of some tenants with pods behind them, once the gateway serves them."""
    root = tmp_path_factory.mktemp("access") / "repo"
    access.declare(root)
    issuer.introduce(internet.folder(real_node.world), PEOPLE)
    with access.open_doors(real_node, render(root, "eu-1"), gateway.default_provider(real_node.world)) as opened:
        yield opened


def dump_of_envoy(doors: Doors) -> str:
    """Return the configuration that Envoy has now, as its administration page shows it."""
    world = doors.real_node.world
    listening = world.run(["ss", "-ltnpH"]).splitlines()
    (address,) = (
        line.split()[3] for line in listening if '"envoy"' in line and line.split()[3].startswith("127.0.0.1:")
    )
    return world.run(["curl", "-s", f"http://{address}/config_dump"])


def received(answer: dict[str, Any]) -> dict[str, str]:
    """Return the headers that the container received."""
    assert answer["status"] == 200, answer
    return {name.lower(): value for name, value in json.loads(answer["body"])["headers"]}


@pytest.mark.parametrize("at", [INSTANCE, FILES])
def test_a_container_receives_no_token_and_no_cookie_of_the_login(at: str, doors: Doors) -> None:
    jar = doors.login(at, ADA)
    assert {ID_TOKEN_COOKIE, ACCESS_TOKEN_COOKIE} <= jar[at].keys()
    answer = doors.visit(f"https://{at}/", jar=jar)
    assert "cookie" not in received(answer)
    assert "authorization" not in received(answer)
    assert not [value for value in received(answer).values() if value.startswith("ey") or "gcm." in value]


@pytest.mark.parametrize("at", [INSTANCE, FILES])
def test_a_container_receives_the_cookies_of_its_application(at: str, doors: Doors) -> None:
    jar = doors.login(at, ADA)
    jar[at] = {"theme": "dark", **jar[at], "view": "a=b", "__Host-app": "1"}
    answer = doors.visit(f"https://{at}/", jar=jar)
    assert {*received(answer)["cookie"].split("; ")} == {"theme=dark", "view=a=b", "__Host-app=1"}


def test_a_public_route_keeps_the_cookies_of_a_login_from_the_container(doors: Doors) -> None:
    jar = {PUBLIC: {**doors.login(INSTANCE, ADA)[INSTANCE], "theme": "dark"}}
    assert received(doors.visit(f"https://{PUBLIC}/", jar=jar))["cookie"] == "theme=dark"
    assert doors.visit(f"https://{PUBLIC}/", jar=jar, headers={"Origin": f"https://{KITE}"})["status"] == 403


def test_the_cookies_of_a_login_are_of_one_host(doors: Doors) -> None:
    answer = doors.visit(f"https://{INSTANCE}/", ADA)
    assert ID_TOKEN_COOKIE.startswith("__Host-") and ACCESS_TOKEN_COOKIE.startswith("__Host-")
    assert answer["jar"].keys() == {INSTANCE, issuer.HOST}


# What each person gets at each place: a page, a form, a WebSocket, a form that another host's page sends, and a call of an
# API. Who has no valid login is redirected to the issuer from a page, and gets 401 for a call and a WebSocket.
ADMITTED, DENIED = [200, 200, 101, 403, 200], [403, 403, 403, 403, 403]
NO_LOGIN = [302, 302, 401, 302, 401]
MATRIX = {
    ("00u1mio", KITE): ADMITTED,
    ("lead", KITE): ADMITTED,
    ("designer", KITE): ADMITTED,
    ("client", KITE): DENIED,
    (ADA, KITE): DENIED,
    (STRANGER, KITE): DENIED,
    ("00u1mio", KITE_FILES): ADMITTED,
    ("lead", KITE_FILES): ADMITTED,
    ("designer", KITE_FILES): ADMITTED,
    ("client", KITE_FILES): [200, 403, 101, 403, 200],  # the accessor has mode ReadWrite, and a Viewer only reads
    (ADA, KITE_FILES): DENIED,
    (STRANGER, KITE_FILES): DENIED,
    (ADA, INSTANCE): ADMITTED,
    (ADA, FILES): ADMITTED,
    ("lead", INSTANCE): DENIED,
    ("lead", FILES): DENIED,
    (STRANGER, FILES): DENIED,
    (STUDENT, GROUP): ADMITTED,
    (ADA, GROUP): DENIED,
    (ARTIST, PREVIEW): DENIED,  # a member, but from an address that the tenant does not allow
    ("", KITE): NO_LOGIN,
    ("", KITE_FILES): NO_LOGIN,
    ("", PUBLIC): [200, 200, 101, 200, 200],
    ("forged", KITE): NO_LOGIN,
    ("forged", KITE_FILES): NO_LOGIN,
    ("another host's", KITE): NO_LOGIN,
}


WRITING = ["PUT", "PATCH", "DELETE", "MKCOL", "MOVE", "COPY"]
UPLOAD = 64 << 20  # bytes


@pytest.mark.parametrize(
    ("person", "status"), [("lead", 200), ("designer", 200), ("client", 403), (ADA, 403), (STRANGER, 403)]
)
def test_only_admins_and_members_change_files(person: str, status: int, doors: Doors) -> None:
    jar, own = doors.login(KITE_FILES, person), {"Origin": f"https://{KITE_FILES}"}
    requests = [{"method": method, "headers": own} for method in WRITING]
    answers = doors.visits([{"url": f"https://{KITE_FILES}/a", "jar": jar, **request} for request in requests])
    assert [answer["status"] for answer in answers] == [status] * len(WRITING), answers


def test_a_page_of_another_host_changes_no_file_with_a_members_login(doors: Doors) -> None:
    jar, evil = doors.login(KITE_FILES, "designer"), {"Origin": f"https://{host('evil', 'ml-orbit')}"}
    requests = [{"method": method, "headers": evil} for method in [*WRITING, "OPTIONS"]]
    answers = doors.visits([{"url": f"https://{KITE_FILES}/a", "jar": jar, **request} for request in requests])
    assert {(answer["status"], answer["body"]) for answer in answers} == {(403, SAME_HOST)}


def test_an_upload_passes_the_gateway_whole(doors: Doors) -> None:
    jar = doors.login(KITE_FILES, "designer")
    answer = doors.visit(f"https://{KITE_FILES}/large.bin", jar=jar, method="PUT", zeros=UPLOAD)
    assert answer["status"] == 200, answer
    body = json.loads(answer["body"])
    assert (body["method"], body["sha256"]) == ("PUT", hashlib.sha256(bytes(UPLOAD)).hexdigest())


def _jar(doors: Doors, person: str, at: str) -> dict[str, Any]:
    """Return the cookies of a person, or of somebody who made a token, or who took a login from another host."""
    if person == "forged":
        claims = {"iss": issuer.URL, "aud": issuer.CLIENT, "sub": "00u1mio", "exp": 4102444800}
        return {at: {ID_TOKEN_COOKIE: issuer.sign(issuer.create_key(), claims)}}
    if person == "another host's":
        return {at: doors.login(INSTANCE, ADA)[INSTANCE]}
    return doors.login(at, person) if person else {}


@pytest.mark.parametrize(("person", "at"), MATRIX, ids=lambda value: value.partition(".")[0] or "nobody")
def test_each_person_reaches_only_permitted_hosts(person: str, at: str, doors: Doors) -> None:
    assert sum(map(len, MATRIX.values())) >= 60
    own, foreign = {"Origin": f"https://{at}"}, {"Origin": f"https://{host('evil', 'ml-orbit')}"}
    requests: list[dict[str, Any]] = [
        {},
        {"method": "POST", "headers": own},
        {"headers": {**UPGRADE, **own}},
        {"method": "POST", "headers": foreign},
        {"headers": {"Accept": "application/json"}},
    ]
    jar = _jar(doors, person, at)
    answers = doors.visits([{"url": f"https://{at}/", "jar": jar, "follow": False, **request} for request in requests])
    assert [answer["status"] for answer in answers] == MATRIX[person, at], answers


@pytest.mark.parametrize("person", ["late", "foreign"])
def test_a_token_that_is_expired_or_for_another_client_opens_nothing(person: str, doors: Doors) -> None:
    for at in (KITE, KITE_FILES):
        answer = doors.visit(f"https://{at}/", person)
        assert answer["status"] in (401, 403), answer
        assert '"headers"' not in answer["body"]


def test_without_a_login_a_visitor_is_sent_to_the_issuer(doors: Doors) -> None:
    answer = doors.visit(f"https://{INSTANCE}/", follow=False)
    assert answer["status"] == 302
    place, _, query = answer["headers"]["location"].partition("?")
    assert (place, parse_qs(query)["scope"]) == (f"{issuer.URL}/authorize", ["openid groups"])


@pytest.mark.parametrize(
    "headers",
    [
        UPGRADE,
        {"Accept": "application/json"},
        {"Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Mode": "same-origin"},
        {"Sec-Fetch-Mode": "websocket", **UPGRADE},
    ],
    ids=lambda headers: " ".join(f"{name}={value}" for name, value in sorted(headers.items()))[:40],
)
def test_without_a_login_only_a_page_is_redirected(headers: dict[str, str], doors: Doors) -> None:
    for at in (INSTANCE, FILES):
        assert doors.visit(f"https://{at}/", headers=headers, follow=False)["status"] == 401
    page = {"Sec-Fetch-Mode": "navigate", "Accept": "text/html,application/xhtml+xml", "Upgrade-Insecure-Requests": "1"}
    assert doors.visit(f"https://{INSTANCE}/", headers=page, follow=False)["status"] == 302


@pytest.mark.parametrize("origin", [f"https://{KITE}", "null", "https://evil.example", f"http://{INSTANCE}"])
@pytest.mark.parametrize(
    ("method", "headers"), [("GET", UPGRADE), ("POST", {}), ("GET", {})], ids=["socket", "post", "get"]
)
def test_a_page_of_another_host_does_nothing_with_the_visitors_login(
    method: str, headers: dict[str, str], origin: str, doors: Doors
) -> None:
    jar = doors.login(INSTANCE, ADA)
    answer = doors.visit(f"https://{INSTANCE}/", jar=jar, method=method, headers={**headers, "Origin": origin})
    assert (answer["status"], answer["body"]) == (403, SAME_HOST)


def test_a_browser_lets_no_page_of_another_tenant_use_the_visitors_login(doors: Doors) -> None:
    """Chromium logs in at an instance; then a page of another tenant, and for comparison its own, send requests to it."""
    assert shutil.which("chromium") or shutil.which("chromium-browser"), "Chromium is needed: apt-get install chromium"
    status = """fetch("/").then(answer => answer.status, error => "failed")"""
    before = json.loads(doors.visit(f"https://{INSTANCE}/requests", ADA)["body"])
    results = doors.browse(
        [
            {"person": ADA, "open": f"https://{INSTANCE}/", "script": "[location.href, document.body.innerText]"},
            {"script": access.attack(INSTANCE)},
            {"open": f"https://{PUBLIC}/", "script": access.attack(INSTANCE)},
            {"open": f"https://{INSTANCE}/", "script": status},
            {"forget": True, "script": status},
            {"person": ADA, "open": f"http://{INSTANCE}/plain", "script": "location.href"},
        ]
    )
    page, own, foreign, with_login, without_login, plain = results
    assert page[0] == f"https://{INSTANCE}/" and '"path": "/"' in page[1]
    assert own == [f"https://{INSTANCE}", "basic", "open"]
    assert foreign == [f"https://{PUBLIC}", "opaque", "failed"]
    assert (with_login, without_login) == (200, 401)
    assert plain == f"https://{INSTANCE}/plain"
    arrived = json.loads(doors.visit(f"https://{INSTANCE}/requests", ADA)["body"])[len(before) :]
    assert ["POST", f"https://{INSTANCE}", False] in arrived and ["GET", f"https://{INSTANCE}", True] in arrived
    assert {origin for _, origin, _ in arrived} <= {None, f"https://{INSTANCE}"}, "a request of another tenant's page"


@pytest.mark.parametrize(("origin", "status"), [(f"https://{INSTANCE}", 200), (f"https://{KITE}", 403)])
def test_a_container_receives_no_cookie_of_a_refreshed_login(origin: str, status: int, doors: Doors) -> None:
    jar = doors.login(INSTANCE, ADA)
    jar[INSTANCE] = {name: value for name, value in jar[INSTANCE].items() if name.startswith("RefreshToken-")}
    answer = doors.visit(f"https://{INSTANCE}/", jar=jar, headers={"Origin": origin}, follow=False)
    doors.jars.pop((INSTANCE, ADA))  # a refresh token is for one use
    assert answer["status"] == status
    assert {ID_TOKEN_COOKIE, ACCESS_TOKEN_COOKIE} <= answer["jar"][INSTANCE].keys()
    assert status != 200 or "cookie" not in received(answer)


def test_blanks_in_a_long_cookie_do_not_block_the_gateway(doors: Doors) -> None:
    """The shortest of three visits counts, because the machine is busy."""
    jar = doors.login(INSTANCE, ADA)
    seconds: dict[int, float] = {}
    for blanks in (1, BLANKS) * 3:
        jar[INSTANCE]["theme"] = f"a{' ' * blanks}b"
        begin = time.monotonic()
        answer = doors.visit(f"https://{INSTANCE}/", jar=jar)
        seconds[blanks] = min(seconds.get(blanks, 60), time.monotonic() - begin)
        assert received(answer)["cookie"] == f"theme={jar[INSTANCE]['theme']}"
    assert seconds[BLANKS] < 3 * seconds[1] + 1, "Envoy took as long as for the square of its length"


def test_http_is_redirected_and_https_is_remembered(doors: Doors) -> None:
    answer = doors.visit(f"http://{INSTANCE}/some?page=1", follow=False)
    assert (answer["status"], answer["headers"]["location"]) == (301, f"https://{INSTANCE}/some?page=1")
    for at, jar in ((PUBLIC, {}), (INSTANCE, doors.login(INSTANCE, ADA))):
        answer = doors.visit(f"https://{at}/", jar=jar)
        assert (answer["status"], answer["headers"]["strict-transport-security"]) == (200, "max-age=31536000")


def test_a_host_that_no_route_declares_is_denied(doors: Doors) -> None:
    assert doors.visit(f"https://{host('nothing', 'solo-ada')}/")["status"] in (403, 404)


def test_the_requests_of_a_browser_reach_one_replica(doors: Doors) -> None:
    jar = doors.login(GROUP, STUDENT)
    cookie = jar[GROUP].pop(AFFINITY_COOKIE)
    answers = [doors.visit(f"https://{GROUP}/", jar=jar) for _ in range(8)]
    without = {json.loads(answer["body"])["pod"] for answer in answers}
    assert len(without) > 1, "without the cookie, the requests of eight browsers reach several replicas"
    assert AFFINITY_COOKIE in answers[0]["jar"][GROUP]
    jar[GROUP][AFFINITY_COOKIE] = cookie
    answers = doors.visits([{"url": f"https://{GROUP}/", "jar": jar}] * 12)
    assert len({json.loads(answer["body"])["pod"] for answer in answers}) == 1


def test_a_silent_request_ends_after_the_declared_time(doors: Doors) -> None:
    begin = time.monotonic()
    answer = doors.visit(f"https://{PUBLIC}/silent")
    assert answer["status"] == 504, answer
    assert time.monotonic() - begin < 20, "the container is silent for 30 seconds"


def test_requests_above_the_declared_rate_are_denied(doors: Doors) -> None:
    statuses = Counter(doors.flood(PUBLIC, 5 * access.REQUESTS_PER_SECOND))
    assert statuses.keys() == {"200", "429"}, statuses
    assert doors.visit(f"https://{KITE}/", follow=False)["status"] == 302, "each route has a limit of its own"
    time.sleep(1.5)
    assert doors.visit(f"https://{PUBLIC}/")["status"] == 200


def test_the_access_log_names_the_tenant_and_the_visitor_and_holds_no_secret(doors: Doors) -> None:
    jar = doors.login(INSTANCE, ADA)
    jar[INSTANCE]["theme"] = "cookie-of-the-app"
    doors.visit(f"https://{INSTANCE}/logged?token=query-secret", jar=jar, headers={"X-Api-Key": "header-secret"})
    doors.visit(f"https://{FILES}/logged-files", jar=doors.login(FILES, STRANGER))
    doors.visit(f"https://{PUBLIC}/logged-public")

    def entries() -> list[dict[str, Any]] | None:
        by_path = {entry["path"]: entry for entry in doors.log()}
        paths = ("/logged", "/logged-files", "/logged-public")
        return [by_path[path] for path in paths] if by_path.keys() >= {*paths} else None

    member, stranger, public = eventually(entries, "Envoy to write its access log", 30)
    fields = ("namespace", "route", "subject", "host", "method", "status", "retention_days")
    days = str(access.RETENTION_DAYS)
    assert [member[field] for field in fields] == ["t-solo-ada", "webui", ADA, INSTANCE, "GET", 200, days]
    assert [stranger[field] for field in fields] == [
        "t-solo-ada", "models--files", STRANGER, FILES, "GET", 403, days,
    ]  # fmt: skip
    assert [public[field] for field in fields] == ["t-ml-orbit", "demo", None, PUBLIC, "GET", 200, days]
    assert member["client"] == access.ADDRESS and 0 <= member["duration_ms"] < 60_000
    text = json.dumps(doors.log())
    cookies = [value for name, value in jar[INSTANCE].items() if len(value) > 8]
    assert len(cookies) > 3
    for secret in ("query-secret", "header-secret", "code=", *cookies):
        assert secret not in text


def test_sessions_survive_an_outage_of_the_issuer_while_a_route_is_added(doors: Doors) -> None:
    """Envoy Gateway translates all routes again, and would deny all logins if it asked the issuer for its endpoints.

    With `OUTAGE=660` in the environment, the outage lasts longer than Envoy keeps the keys of the issuer.
    """
    cluster, world = doors.real_node.cluster, doors.real_node.world
    jar = doors.login(INSTANCE, ADA)
    down = internet.folder(world) / issuer.DOWN
    added = [
        _second(cluster.client.get(api, kind, "webui", names.namespace("solo-ada")))
        for api, kind in ROUTE_KINDS.items()
    ]
    down.touch()
    end = time.monotonic() + float(os.environ.get("OUTAGE", "3"))
    try:
        assert doors.visit(f"{issuer.URL}/keys")["status"] == 0, "the issuer answers"
        cluster.client.apply(*added)
        eventually(lambda: SECOND in dump_of_envoy(doors) or None, "Envoy to have the new route")
        login = eventually(lambda: _redirect(doors, SECOND), "the new route to ask for a login")
        assert login == f"{issuer.URL}/authorize"
        statuses = Counter[int]()
        while time.monotonic() < end or not statuses:
            statuses[doors.visit(f"https://{INSTANCE}/", jar=jar, follow=False)["status"]] += 1
            time.sleep(1)
        assert statuses.keys() == {200}, statuses
        assert doors.visit(f"{issuer.URL}/keys")["status"] == 0, "the issuer answers"
    finally:
        down.unlink()
        for manifest in added:
            metadata = manifest["metadata"]
            cluster.client.delete(manifest["apiVersion"], manifest["kind"], metadata["name"], metadata["namespace"])
    eventually(lambda: SECOND not in dump_of_envoy(doors), "Envoy to have the new route no more")
    doors.jars.clear()
    assert doors.login(INSTANCE, ADA)


def _redirect(doors: Doors, at: str) -> str | None:
    """Return where a visitor without a login is sent, without the query."""
    answer = doors.visit(f"https://{at}/", follow=False)
    return answer["headers"]["location"].partition("?")[0] if answer["status"] == 302 else None


def _second(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the route of an instance, or its policy, for a second instance."""
    text = json.dumps({field: manifest[field] for field in ("apiVersion", "kind", "spec")})
    second = json.loads(text.replace(INSTANCE, SECOND).replace('"name": "webui"', '"name": "second"'))
    return {**second, "metadata": {"name": "second", "namespace": manifest["metadata"]["namespace"]}}


PROGRAM_CLIENT = "allotment-cli"
PROGRAM_FILES = (
    "solo-ada/compute/webui",
    "studio-kite/compute/webui",
    "studio-kite/storage/outputs",
    "ml-orbit/compute/demo",
)


@pytest.fixture(scope="module")
def program_doors(doors: Doors, render: Render, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """Return the doors of some tenants in a cluster that admits programs. Then the cluster admits none again."""
    root = tmp_path_factory.mktemp("programs") / "repo"
    access.declare(root)
    plain = list(_exposed(render(root, "eu-1")))
    client = "    clientID: allotment\n"
    edit(root, "clusters/eu-1/cluster.yaml", client, f"{client}    cliClientID: {PROGRAM_CLIENT}\n")
    admitting = list(_exposed(render(root, "eu-1")))

    def is_admitting(expected: bool) -> bool | None:
        statuses = {
            doors.visit(f"https://{at}/", headers=_bearer("garbage"), follow=False)["status"]
            for at in (INSTANCE, KITE, KITE_FILES)
        }
        return statuses == ({401} if expected else {302}) or None

    assert is_admitting(False), "without the client, a program is redirected as a browser is"
    try:
        doors.real_node.cluster.client.apply(*admitting)
        eventually(lambda: is_admitting(True), "the routes to take tokens")
        yield doors
    finally:
        doors.real_node.cluster.client.apply(*plain)
        eventually(lambda: is_admitting(False), "the routes to take no tokens")


def _exposed(tree: Path) -> Iterator[dict[str, Any]]:
    for name in PROGRAM_FILES:
        for manifest in rendered.objects(tree, f"tenants/{name}.rendered.yaml"):
            if manifest["kind"] in ROUTE_KINDS.values():
                yield manifest


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _token(doors: Doors, person: str, **changed: Any) -> str:
    """Return the ID token that a program of a person has, with other claims or another key."""
    key = changed.pop("key", None) or issuer.read_key(internet.folder(doors.real_node.world))
    claims = {"iss": issuer.URL, "aud": PROGRAM_CLIENT, "sub": person, "exp": int(time.time()) + 600}
    return issuer.sign(key, {**claims, **PEOPLE.get(person, {}), **changed})


def test_without_a_declared_client_an_application_has_the_header_for_itself(doors: Doors) -> None:
    answer = doors.visit(f"https://{INSTANCE}/", jar=doors.login(INSTANCE, ADA), headers=_bearer("sk-own"))
    assert received(answer)["authorization"] == "Bearer sk-own"
    answer = doors.visit(f"https://{INSTANCE}/", headers=_bearer(_token(doors, ADA)), follow=False)
    assert answer["status"] == 302


@pytest.mark.parametrize(
    ("person", "at", "method", "status"),
    [
        (ADA, INSTANCE, "GET", 200),
        (ADA, INSTANCE, "POST", 200),
        ("00u1mio", KITE, "GET", 200),
        ("lead", KITE, "GET", 200),
        ("lead", KITE_FILES, "PUT", 200),
        ("designer", KITE_FILES, "DELETE", 200),
        ("client", KITE_FILES, "GET", 200),
        ("client", KITE_FILES, "PUT", 403),
        ("client", KITE_FILES, "MOVE", 403),
        ("client", KITE, "GET", 403),
        (ADA, KITE, "GET", 403),
        (ADA, KITE_FILES, "GET", 403),
        ("lead", INSTANCE, "GET", 403),
        (STRANGER, KITE, "GET", 403),
        (STRANGER, KITE_FILES, "PUT", 403),
    ],
)
def test_a_program_gets_where_its_person_gets(
    person: str, at: str, method: str, status: int, program_doors: Doors
) -> None:
    token = _token(program_doors, person)
    answer = program_doors.visit(f"https://{at}/a", method=method, headers=_bearer(token), follow=False)
    assert answer["status"] == status, answer
    if status == 200:
        assert "authorization" not in received(answer)
        assert token.partition(".")[2] not in answer["body"], "a container could use the token at another tenant's host"


WRONG_TOKENS: dict[str, dict[str, Any]] = {
    "another audience": {"aud": "another-client"},
    "no audience": {"aud": []},
    "another issuer": {"iss": "https://evil.example"},
    "another key": {"key": issuer.create_key()},
    "expired": {"exp": 1_700_000_000},
    "not yet valid": {"nbf": 4_102_444_800},
}


@pytest.mark.parametrize("changed", WRONG_TOKENS.values(), ids=WRONG_TOKENS)
def test_a_wrong_token_opens_nothing(changed: dict[str, Any], program_doors: Doors) -> None:
    assert program_doors.visit(f"https://{KITE}/", headers=_bearer(_token(program_doors, "lead")))["status"] == 200
    answer = program_doors.visit(
        f"https://{KITE}/", headers=_bearer(_token(program_doors, "lead", **changed)), follow=False
    )
    # Envoy answers 403 to a token for another client.
    assert answer["status"] == (403 if "aud" in changed else 401) and "location" not in answer["headers"], answer
    assert '"headers"' not in answer["body"], "no container answered"


def test_a_token_that_is_none_gets_no_redirect(program_doors: Doors) -> None:
    header, claims, _ = _token(program_doors, "lead").split(".")
    unsigned = issuer.encode(b'{"alg": "none"}')
    for token in ("sk-own", "a.b.c", f"{header}.{claims}.", f"{unsigned}.{claims}.", "x" * 8000):
        for at in (KITE, KITE_FILES):
            answer = program_doors.visit(f"https://{at}/", headers=_bearer(token), follow=False)
            assert (answer["status"], "location" in answer["headers"]) == (401, False), token


def test_no_spelling_of_the_header_brings_a_token_to_a_container(program_doors: Doors) -> None:
    """A container gets no token, neither without nor with the cookies of a login beside it."""
    token = _token(program_doors, ADA)
    jar = program_doors.login(INSTANCE, ADA)
    values = [f"bearer {token}", f"Bearer  {token}", f"xBearer {token}", f"Token a, Bearer {token}", token]
    for value in [*values, f"Basic {token}", f"Bearer {token}"]:
        for cookies in ({}, jar):
            answer = program_doors.visit(
                f"https://{INSTANCE}/", jar=dict(cookies), headers={"Authorization": value}, follow=False
            )
            assert token not in answer["body"], value
            assert answer["status"] in (200, 302, 401), value
    assert program_doors.visit(f"https://{INSTANCE}/?access_token={token}", follow=False)["status"] == 302


def test_a_browser_logs_in_as_before(program_doors: Doors) -> None:
    program_doors.jars.clear()
    jar = program_doors.login(INSTANCE, ADA)
    assert received(program_doors.visit(f"https://{INSTANCE}/", jar=jar)).keys().isdisjoint({"authorization", "cookie"})
    own = program_doors.visit(f"https://{INSTANCE}/", jar=jar, headers=_bearer("sk-own"), follow=False)
    assert own["status"] == 401, "the gateway takes it as an ID token"
    basic = program_doors.visit(f"https://{INSTANCE}/", jar=jar, headers={"Authorization": "Basic eDp5"})
    assert "authorization" not in received(basic)


def test_a_public_port_keeps_the_header_of_its_application(program_doors: Doors) -> None:
    answer = program_doors.visit(f"https://{PUBLIC}/", headers=_bearer("sk-own"))
    assert received(answer)["authorization"] == "Bearer sk-own"


def test_a_program_opens_a_websocket_and_is_in_the_access_log(program_doors: Doors) -> None:
    token = _token(program_doors, "lead")
    answer = program_doors.visit(f"https://{KITE}/program-socket", headers={**UPGRADE, **_bearer(token)})
    assert answer["status"] == 101
    program_doors.visit(f"https://{KITE}/program-logged", headers=_bearer(token))

    def entry() -> dict[str, Any] | None:
        return next((entry for entry in program_doors.log() if entry["path"] == "/program-logged"), None)

    written = eventually(entry, "Envoy to write its access log", 30)
    assert (written["subject"], written["status"]) == ("lead", 200)
    assert token not in json.dumps(program_doors.log())
