"""The pages of the portal in a real browser: accessible, without requests to other hosts, and with forms that write declarations."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pytest
import yaml
from tests.conftest import DAY, Allot, edit
from tests.portal.pages.browser import BROWSER, Visit, launch, serve, wait_for_form
from tests.portal.pages.sample_site import build, create_place, report_all
from tests.support.published import Place, git

from allotment.cli.service import serve_pages
from allotment.declared.kinds.members import MAX_USERS
from allotment.observed.status import UsageInterval
from allotment.portal.pages import form_facts
from allotment.portal.site.page_gate import PageGate

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        BROWSER is None and "CI" not in os.environ, reason="no Chromium is installed: apt-get install chromium"
    ),
]
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
PAGE_TYPES = (
    "index.html",
    "404.html",
    "start/index.html",
    "catalog/index.html",
    "tenants/index.html",
    "provider/index.html",
    "provider/eu-1.html",
    "platform/index.html",
    "platform/stock.html",
    "platform/tenants-1.html",
    "platform/history.html",
    "tenants/studio-kite/index.html",
    "tenants/studio-kite/members.html",
    "tenants/studio-kite/history.html",
    "tenants/studio-kite/invoices/index.html",
    "tenants/studio-kite/invoices/2026-11.html",
    "tenants/studio-kite/instances/webui-next.html",
    "tenants/studio-kite/storages/model-cache.html",
    "tenants/studio-kite/snapshots/before-upgrade.html",
    "tenants/studio-kite/new-instance.html",
    "tenants/studio-kite/new-storage.html",
    "tenants/studio-kite/new-secret.html",
)
FORMS = [path for path in PAGE_TYPES if "/new-instance" in path or "/new-storage" in path or "members" in path]


class Site(NamedTuple):
    """The pages of the sample: their folder, their address and the clone that they show."""

    folder: Path
    url: str
    place: Place


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("portal")
    place = create_place(folder)
    build(place, folder / "site")
    with serve(folder / "site") as url:
        yield Site(folder / "site", url, place)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch() as browser:
        yield browser


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    context = browser.new_context(viewport={"width": 1024, "height": 900})
    yield Visit(context.new_page())
    context.close()


def test_every_page_type_is_listed(site: Site) -> None:
    """A new page type needs a line in PAGE_TYPES."""
    listed = {shape(path) for path in PAGE_TYPES}
    assert {shape(str(path.relative_to(site.folder))) for path in site.folder.rglob("*.html")} == listed


def shape(path: str) -> str:
    """Return the type of a page."""
    parts = path.split("/")
    if parts[0] in ("provider", "platform"):
        return path.replace("us-1", "eu-1")
    names = {"instances": "instance", "storages": "storage"}
    if len(parts) > 3 and (parts[2] in names or parts[-1][0] == "2"):
        return f"{parts[0]}/{names.get(parts[2], parts[2])}"
    return "/".join([parts[0], *parts[2:]])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_are_accessible(site: Site, browser: Browser, theme: Literal["light", "dark"]) -> None:
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(color_scheme=theme)
    page = context.new_page()
    for path in PAGE_TYPES:
        page.goto(f"{site.url}/{path}")
        wait_for_form(page)
        page.eval_on_selector_all("details", "all => all.forEach(each => { each.open = true; })")
        results = Axe().run(page)
        assert len(results.response["passes"]) > 10, path
        violations = [(each["id"], [node["html"] for node in each["nodes"]]) for each in results.response["violations"]]
        assert violations == [], path
    context.close()


def test_pages_load_little_and_only_from_their_origin(site: Site, visit: Visit) -> None:
    for path in PAGE_TYPES:
        visit.open(f"{site.url}/{path}")
        assert all(url.startswith(site.url) for url in visit.requests), visit.requests
        # The browser asks for the icon at a time of its own, so the request of the page before can come now.
        assert 3 <= len(set(visit.requests)) <= 5, visit.requests
        assert 0 < visit.bytes < 100_000, path
        assert visit.errors == [], path


def test_scripts_are_small(site: Site) -> None:
    scripts = list(site.folder.rglob("*.js"))
    assert len(scripts) == 1
    assert (
        scripts[0].stat().st_size < 36_000
    )  # all forms, their problems, the effect of deletions, and the verdict on self service


@pytest.mark.parametrize("width", [360, 1024, 1920])
def test_pages_fit_the_screen(site: Site, browser: Browser, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    for path in PAGE_TYPES:
        page.goto(f"{site.url}/{path}")
        wait_for_form(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    context.close()


def test_pages_are_useful_without_scripts(site: Site, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site.url}/tenants/studio-kite/index.html")
    assert "2026-11-18 07:12 UTC" in page.inner_text("main")
    assert page.locator("figure svg").count() == 2
    for path in FORMS:
        page.goto(f"{site.url}/{path}")
        for summary in page.locator("summary").all():
            summary.click()
        assert page.locator("#without-scripts pre").first.is_visible(), path
        assert not page.locator("#change").is_visible(), path
    context.close()


def test_times_are_ages(site: Site, visit: Visit) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/instances/webui.html")
    time = visit.page.locator("time").first
    assert time.get_attribute("title") == "2026-11-18 07:12 UTC"
    assert "ago" in time.inner_text()


def test_the_keyboard_reaches_everything(site: Site, visit: Visit) -> None:
    page = visit.page
    visit.open(f"{site.url}/tenants/studio-kite/new-instance.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("getComputedStyle(document.activeElement).top") == "0px"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "name"
    page.keyboard.type("from-keys")
    assert page.locator("#result").is_visible()
    ids = []
    for _ in range(40):
        page.keyboard.press("Tab")
        ids.append(page.evaluate("document.activeElement.id"))
    assert {"app", "version", "cluster", "gpuSpec", "replicas", "open"} <= set(ids)


def fill(visit: Visit, values: dict[str, Any]) -> None:
    for name, value in values.items():
        field = visit.page.locator(f'[name="{name}"]')
        kind = field.evaluate("field => field.type")
        if kind == "checkbox":
            field.check()
        elif kind.startswith("select"):
            field.select_option(value)
        else:
            field.fill(value)


def read_result(visit: Visit) -> tuple[str, str, str]:
    """Return the path, the file and the command of a form."""
    assert visit.page.locator("#result").is_visible(), visit.page.inner_text("#problems")
    page = visit.page
    return page.inner_text("#path"), page.inner_text("#yaml"), page.inner_text("#command")


def merge_lines(old: Any, new: Any) -> Any:
    """Return a declaration in which a person has set the lines of a form. Items of a list have a name, or are new."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {
            key: merge_lines(old[key], new[key]) if key in old and key in new else {**old, **new}[key]
            for key in old | new
        }
    if isinstance(old, list) and isinstance(new, list):
        names = [item.get("name") if isinstance(item, dict) else None for item in old]
        result = list(old)
        for item in new:
            name = item.get("name") if isinstance(item, dict) else None
            if name is not None and name in names:
                result[names.index(name)] = merge_lines(old[names.index(name)], item)
            else:
                result.append(item)
        return result
    return new


def follow_instruction(before: str, title: str, text: str) -> Any:
    """Return the declaration after a person has done what a form says about its lines."""
    match title.split():
        case ["Or", "add", "this", "item", "to", "the", "list", field, "of"]:
            return yaml.safe_load(insert_below(before, field, text))
        case ["Or", "add", "these", "lines", "below", "the", "existing", field, "of"]:
            return yaml.safe_load(insert_below(before, field, text))
        case ["Or", "remove", "this", "item", "with", "all", "its", "lines", "from", "the", "list", field, "of"]:
            declaration, (item,) = yaml.safe_load(before), yaml.safe_load(text)
            declaration["spec"][field] = [
                each for each in declaration["spec"][field] if not item.items() <= each.items()
            ]
            return declaration
        case ["Or", "remove", "this", "list", "with", "all", "its", "lines", "below", "the", "existing", "spec", "of"]:
            declaration = yaml.safe_load(before)
            for field in yaml.safe_load(text):
                del declaration["spec"][field]
            return declaration
        case ["Or", "set", "this", "field", "of", "the", kind, name, "in"]:
            declaration = yaml.safe_load(before)
            (item,) = [each for each in declaration["spec"][f"{kind}s"] if each["name"] == name]
            item |= yaml.safe_load(text)
            return declaration
        case ["Or", "add", "this", "item", "to", "the", "list", "sshKeys", "of", "the", "user", name, "in"]:
            declaration = yaml.safe_load(before)
            (user,) = [each for each in declaration["spec"]["users"] if each["name"] == name]
            user["sshKeys"] += yaml.safe_load(text)
            return declaration
        case ["Or", "add", "these", "lines", "to", "the", "user", name, "in"]:
            return yaml.safe_load(before.replace(f"    - name: {name}\n", f"    - name: {name}\n{text}\n", 1))
        case ["Or", "set", "these", "fields", "below", "the", "existing", field, "of"]:
            fields = yaml.safe_load(text)
            return merge_lines(yaml.safe_load(before), {"spec": fields if field == "spec" else {field: fields}})
        case _:
            raise AssertionError(title)


def insert_below(text: str, field: str, lines: str) -> str:
    """Return a file with lines below the first line of a field."""
    head, line, rest = re.split(rf"^( *{field}:)$", text, maxsplit=1, flags=re.MULTILINE)
    return f"{head}{line}\n{lines}{rest}"


def sort_lists(value: Any) -> Any:
    """Return a declaration with sorted lists, and without the default state."""
    if isinstance(value, dict):
        return {key: sort_lists(item) for key, item in value.items() if (key, item) != ("state", "Running")}
    return sorted(map(sort_lists, value), key=repr) if isinstance(value, list) else value


def run_command(allot: Allot, place: Place, tmp_path: Path, command: str, path: str) -> str:
    """Return the file that a command of a form writes, without its pull request."""
    root = tmp_path / f"clone-{len(list(tmp_path.iterdir()))}"
    git(tmp_path, "clone", "-q", str(place.remote), str(root))
    program, *words = shlex.split(command)
    assert (program, words[-1]) == ("allot", "--pr")
    result = allot(*words[:-1], "--repo", root)
    assert result.code == 0, result.err
    return (root / path).read_text(encoding="utf-8")


def check_file(allot: Allot, place: Place, tmp_path: Path, path: str, text: str) -> None:
    """Check that a file of a form is valid and formatted."""
    root = tmp_path / f"clone-{len(list(tmp_path.iterdir()))}"
    git(tmp_path, "clone", "-q", str(place.remote), str(root))
    (root / path).write_text(f"{text.rstrip()}\n", encoding="utf-8")
    for command in ("validate", "--as-of", DAY), ("fmt", "--check"):
        result = allot(*command, "--repo", root)
        assert result.code == 0, result.out + result.err
        lines = [line for line in (result.out + result.err).splitlines() if not line.endswith("[unsaved-folder]")]
        assert path not in "\n".join(lines)


@pytest.mark.parametrize(
    ("page", "values"),
    [
        ("new-instance", {"name": "second", "app": "jupyter", "gpuSpec": "l4-quarter"}),
        ("new-instance", {"name": "many", "app": "comfyui", "gpuSpec": "l4-whole", "replicas": "2"}),
        (
            "new-instance",
            {
                "name": "mounts",
                "app": "stable-diffusion-webui",
                "gpuSpec": "l4-quarter",
                "use-outputs": True,
                "folder-outputs": "/workspace/outputs",
                "use-model-cache": True,
                "folder-model-cache": "/workspace/models",
            },
        ),
        ("new-storage", {"name": "extra", "storageSpec": "block-ssd", "size": "20Gi"}),
        ("members", {"name": "aaa", "role": "Viewer"}),
        ("members", {"name": "mia", "role": "Admin", "login": "mia-k#4711", "subject": "00u1mia"}),
        ("members", {"name": "zoe", "login": "yes", "subject": "oidc|zoe"}),
        ("storages/model-cache", {"size": "600Gi"}),
        ("storages/outputs", {"action": "snapshot", "snapshot-name": "before-next"}),
        ("storages/outputs", {"action": "clone", "clone-name": "outputs-trial"}),
        ("storages/outputs", {"action": "share", "share-other": "solo-ada"}),
        ("storages/base", {"action": "accessor", "accessor-mode": "ReadOnly"}),
        ("storages/model-cache", {"action": "accessor", "accessor-mode": "ReadWrite"}),
        ("storages/outputs-restored", {"action": "delete"}),
        ("instances/webui", {}),
        ("instances/webui-next", {}),
        ("instances/webui", {"action": "restart"}),
        ("instances/webui", {"action": "resize", "gpuSpec": "l4-whole", "replicas": "2"}),
        ("instances/webui", {"action": "mount", "mount-storage": "base", "mount-folder": "/data"}),
        ("instances/webui", {"action": "unmount", "unmount-storage": "outputs"}),
        ("instances/comfy", {"action": "unmount"}),
        ("members", {"action": "role", "role-member": "group kite-clients", "role-role": "Member"}),
        ("members", {"action": "role", "role-member": "mio", "role-role": "Viewer"}),
        ("members", {"action": "remove", "remove-member": "mio"}),
        ("members", {"action": "remove", "remove-member": "group kite-clients"}),
        ("members", {"action": "key", "key-user": "mio", "key-key": f"ssh-ed25519 {KEY} mio@laptop"}),
        ("index", {"quota-quota": "gpus.nvidia-l4", "quota-amount": "12", "quota-reason": "The film's last month"}),
        ("index", {"quota-quota": "storage", "quota-amount": "6Ti", "quota-reason": "A dataset"}),
        ("new-secret", {"secret-name": "huggingface", "secret-key": "token", "secret-cluster": "eu-1"}),
        ("new-secret", {"secret-name": "numbers", "secret-key": "123", "secret-cluster": "eu-1"}),
    ],
)
def test_a_form_writes_what_its_command_does(
    site: Site, visit: Visit, allot: Allot, tmp_path: Path, page: str, values: dict[str, Any]
) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/{page}.html")
    visit.page.eval_on_selector_all("details", "all => all.forEach(each => { each.open = true; })")
    check_command(visit, values, site.place, allot, tmp_path)


def check_command(visit: Visit, values: dict[str, Any], place: Place, allot: Allot, tmp_path: Path) -> str:
    """Check that the lines of a form have the effect of its command, and return the file that the command writes."""
    fill(visit, values)
    path, text, command = read_result(visit)
    written = run_command(allot, place, tmp_path, command, path)
    old = place.root / path
    if old.exists():
        changed = follow_instruction(old.read_text(encoding="utf-8"), visit.page.inner_text("#file-title"), text)
        assert sort_lists(changed) == sort_lists(yaml.safe_load(written))
    else:
        assert text.rstrip("\n") == written.rstrip("\n")
    assert visit.errors == []
    return written


def test_a_form_adds_the_first_ssh_key_of_a_user(site: Site, visit: Visit, allot: Allot, tmp_path: Path) -> None:
    place = site.place.copy(tmp_path)
    path = place.root / "tenants/solo-ada/members.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: text.index("      sshKeys:")], encoding="utf-8")
    with serve_merged(place, tmp_path / "site", "solo-ada") as url:
        visit.open(f"{url}/tenants/solo-ada/members.html")
        check_command(visit, {"action": "key", "key-key": f"ssh-ed25519 {KEY}"}, place, allot, tmp_path)
    assert visit.page.inner_text("#file-title") == "Or add these lines to the user ada in"
    assert visit.page.inner_text("#yaml") == f'      sshKeys:\n        - "ssh-ed25519 {KEY}"'


def test_a_form_ends_the_sharing_of_a_storage(site: Site, visit: Visit, allot: Allot, tmp_path: Path) -> None:
    place = site.place.copy(tmp_path)
    readers = "  sharedWith:\n    - tenant: solo-ada\n    - tenant: uni-lab\n"
    edit(place.root, "tenants/ml-orbit/storages/weights.yaml", "\n  size:", f"\n{readers}  size:")
    with serve_merged(place, tmp_path / "site", "ml-orbit") as url:
        visit.open(f"{url}/tenants/ml-orbit/storages/weights.html")
        open_details(visit)
        written = check_command(visit, {"action": "unshare", "unshare-reader": "solo-ada"}, place, allot, tmp_path)
    assert "solo-ada" not in written
    visit.open(f"{site.url}/tenants/northlight/storages/base-models.html")
    open_details(visit)
    assert "sharedWith" not in check_command(visit, {"action": "unshare"}, site.place, allot, tmp_path)


def test_a_form_gives_an_existing_instance_a_secret(site: Site, visit: Visit, allot: Allot, tmp_path: Path) -> None:
    place = site.place.copy(tmp_path)
    (place.root / "tenants/ml-orbit/instances/lab-two.yaml").write_text(
        (place.root / "tenants/ml-orbit/instances/lab.yaml")
        .read_text(encoding="utf-8")
        .replace("name: lab\n", "name: lab-two\n")
        .replace("  app:\n", "  state: Stopped\n  app:\n")
        .replace("  storages:\n", "  container:\n    env:\n      - name: THEME\n        value: dark\n  storages:\n"),
        encoding="utf-8",
    )
    with serve_merged(place, tmp_path / "site", "ml-orbit") as url:
        for name in ("lab", "embed", "lab-two"):
            visit.open(f"{url}/tenants/ml-orbit/instances/{name}.html")
            open_details(visit)
            written = check_command(visit, {"action": "env", "env-variable": "HF_KEY"}, place, allot, tmp_path)
            assert {"name": "HF_KEY", "valueFrom": {"secretKeyRef": {"name": "huggingface", "key": "token"}}} in (
                yaml.safe_load(written)["spec"]["container"]["env"]
            )
        fill(visit, {"env-variable": "THEME"})
        assert visit.page.inner_text("#problems").endswith("digits and '_', no digit first, no NVIDIA_ or CUDA_MPS_.")


def test_a_form_gives_an_instance_the_keys_of_secrets(site: Site, visit: Visit, allot: Allot, tmp_path: Path) -> None:
    place = site.place.copy(tmp_path)
    key = '  keys:\n    - name: "123"\n      path: huggingface\n'
    edit(place.root, "tenants/ml-orbit/secrets/huggingface.yaml", "  keys:\n", key)
    with serve_merged(place, tmp_path / "site", "ml-orbit") as url:
        visit.open(f"{url}/tenants/ml-orbit/new-instance.html")
        fill(visit, {"name": "reader", "app": "jupyter", "gpuSpec": "a100-1g", "use-huggingface:token": True})
        assert "--secret HUGGINGFACE_TOKEN=huggingface:token" in read_result(visit)[2]
        fill(visit, {"variable-huggingface:token": "HF_TOKEN", "use-huggingface:123": True})
        path, text, command = read_result(visit)
        assert "--secret HF_TOKEN=huggingface:token --secret HUGGINGFACE_123=huggingface:123" in command
        assert text.rstrip("\n") == run_command(allot, place, tmp_path, command, path).rstrip("\n")
        check_file(allot, place, tmp_path, path, text)
        fill(visit, {"variable-huggingface:123": "HF_TOKEN"})
        assert visit.page.inner_text("#problems") == "Two secrets have the variable HF_TOKEN."
        for name in ("NVIDIA_TOKEN", "a b", ""):
            fill(visit, {"variable-huggingface:123": name})
            assert " a name of upper-case letters, digits and '_'" in visit.page.inner_text("#problems")
    assert visit.errors == []


def test_the_form_of_a_secret_names_the_place_of_its_value(site: Site, visit: Visit) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/new-secret.html")
    fill(visit, {"secret-name": "huggingface", "secret-key": "token", "secret-cluster": "eu-1"})
    assert visit.page.inner_text("#effect").splitlines()[1] == (
        "Write the value to tenants/studio-kite/huggingface in the secret store vault of eu-1. With Vault,"
        " `vault kv put -mount=secret tenants/studio-kite/huggingface token=-` reads it from standard input."
    )


def test_a_tenant_without_secrets_reads_how_to_declare_a_secret(site: Site, visit: Visit) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/new-instance.html")
    visit.page.click("form >> text=Declare a secret")
    assert visit.page.inner_text("h1") == "New secret"
    assert visit.page.url == f"{site.url}/tenants/studio-kite/new-secret.html"


def test_a_form_removes_an_instance(site: Site, visit: Visit, allot: Allot, tmp_path: Path) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/instances/webui.html")
    open_details(visit)
    fill(visit, {"action": "delete"})
    path, _, command = read_result(visit)
    assert not visit.page.locator("#file").is_visible()
    assert visit.page.inner_text("#open") == "Remove the file at GitHub"
    assert (visit.page.get_attribute("#open", "href") or "").endswith(f"/delete/main/{path}")
    assert visit.page.inner_text("#effect").splitlines()[1:] == [
        "-0.21 EUR per hour",
        "-153.30 EUR in a month of 730 hours",
        "Budget: 2276.90 → 2123.60 of 4000.00 EUR",
        "Forecast of 2026-11: 1149.37 → 1101.70 of 4000.00 EUR",
        "GPUs nvidia-l4: 3.25 → 3 of 8",
        "Instances: 3 → 2 of 20",
    ]
    with pytest.raises(FileNotFoundError):
        run_command(allot, site.place, tmp_path, command, path)


def test_a_form_deletes_a_storage_in_two_merges(site: Site, visit: Visit, allot: Allot, tmp_path: Path) -> None:
    page = "tenants/studio-kite/storages/outputs-restored"
    visit.open(f"{site.url}/{page}.html")
    open_details(visit)
    fill(visit, {"action": "delete"})
    assert visit.page.inner_text("#effect").splitlines() == [
        "This first of two merges deletes nothing. Repeat this step at least 1h after it: the second merge deletes the data.",
        "The storage costs 80.00 EUR a month until the second merge.",
    ]
    place = site.place.copy(tmp_path)
    edit(place.root, f"{page}.yaml", "\n  size:", "\n  deletionPolicy: Delete\n  size:")
    with serve_merged(place, tmp_path / "site", "studio-kite") as url:
        visit.open(f"{url}/{page}.html")
        open_details(visit)
        fill(visit, {"action": "delete"})
        assert visit.page.inner_text("#effect").splitlines() == [
            f"This second merge removes the file {page}.yaml, and then the data is deleted.",
            "Merge it at least 1h after the first merge. If you merge it sooner, the cluster keeps the data until 1h after it first"
            " reported the policy Delete.",
            "-80.00 EUR in a month of 730 hours",
            "Budget: 2276.90 → 2196.90 of 4000.00 EUR",
            "Forecast of 2026-11: 1149.37 → 1124.49 of 4000.00 EUR",
            "Storage: 1600Gi → 1100Gi of 5Ti",
            "Storages: 6 → 5 of 50",
        ]
    path, _, command = read_result(visit)
    with pytest.raises(FileNotFoundError):
        run_command(allot, place, tmp_path, command, path)


def test_a_form_switches_the_page_of_a_storage_off(site: Site, visit: Visit, allot: Allot, tmp_path: Path) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/storages/model-cache.html")
    open_details(visit)
    fill(visit, {"action": "accessor", "accessor-mode": "Off"})
    path, text, command = read_result(visit)
    assert visit.page.inner_text("#file-title") == "Or remove these lines below the existing spec of"
    assert visit.page.inner_text("#effect") == "The URL of the page stops working. The files stay."
    assert text == "  accessor:\n    exposure: Members"
    assert command == "allot set storage/studio-kite/model-cache accessor- --pr"
    old = yaml.safe_load((site.place.root / path).read_text(encoding="utf-8"))
    assert old["spec"].pop("accessor") == yaml.safe_load(text)["accessor"]
    written = run_command(allot, site.place, tmp_path, command, path)
    assert old == yaml.safe_load(written)
    check_file(allot, site.place, tmp_path, path, written)
    assert visit.errors == []


@pytest.mark.parametrize(
    "source",
    [
        f"https://models.example/a/b.safetensors?download=1#sha256={'0a' * 32}",
        f"hf:acme/model/weights.safetensors#sha256={'a0' * 32}",
        f"hf:acme/model@v1.0/sub/weights.safetensors#sha256={'12' * 32}",
        "snapshot:before-upgrade",
        "storage:outputs",
        "storage:northlight/base-models",
        "s3:https://s3.example/bucket",
        "s3:https://s3.example/bucket/data/set",
        f"image:registry.example/tools/set:1.0@sha256:{'ab' * 32}",
    ],
)
def test_a_form_writes_the_source_of_a_storage(
    site: Site, visit: Visit, allot: Allot, tmp_path: Path, source: str
) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/new-storage.html")
    fill(visit, {"name": "trial", "storageSpec": "shared-files", "size": "500Gi", "source": source})
    path, text, command = read_result(visit)
    assert visit.page.locator("#open").is_visible()
    assert text.rstrip("\n") == run_command(allot, site.place, tmp_path, command, path).rstrip("\n")
    assert visit.errors == []


def test_a_bucket_has_no_source(site: Site, visit: Visit, allot: Allot, tmp_path: Path) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/new-storage.html")
    fill(visit, {"name": "trial", "storageSpec": "shared-files", "size": "500Gi", "source": "storage:outputs"})
    fill(visit, {"storageSpec": "objects"})
    assert not visit.page.locator("#source").is_visible()
    path, text, command = read_result(visit)
    assert text.rstrip("\n") == run_command(allot, site.place, tmp_path, command, path).rstrip("\n")
    check_file(allot, site.place, tmp_path, path, text)


@pytest.mark.parametrize(
    ("page", "values", "problem"),
    [
        ("members", {"action": "key", "key-key": "-----BEGIN OPENSSH PRIVATE KEY-----"}, "never the private key"),
        ("new-secret", {"secret-name": "abc", "secret-key": "to ken"}, "letters, digits"),
        ("new-secret", {"secret-name": "abc", "secret-key": f"hf_{'a1' * 10}"}, "never the secret"),
        ("new-secret", {"secret-name": "abc", "secret-key": "0a" * 16}, "never the secret"),
        ("new-secret", {"secret-name": "abc", "secret-key": "aB3" * 7}, "never the secret"),
        ("new-secret", {"secret-name": "abc", "secret-key": ".token"}, "letters, digits"),
        ("new-secret", {"secret-name": " ", "secret-key": "token"}, "Name: write a value."),
        ("storages/outputs", {"action": "snapshot", "snapshot-name": " "}, "Name of the snapshot: write a value."),
        ("members", {"action": "key", "key-key": f"ssh-ed25519 {KEY} mio at home"}, "without blanks in its comment"),
        (
            "storages/outputs",
            {"action": "share", "share-other": "Solo Ada"},
            "of another tenant that can't copy it yet",
        ),
        (
            "storages/comfy-home",
            {"action": "accessor", "accessor-mode": "ReadWrite"},
            "comfy-home is a storage for one instance, and comfy mounts it: first stop comfy. Or copy files through the instance:"
            " `allot storage cp FILE studio-kite/comfy-home:/` prints the command.",
        ),
        ("instances/webui", {"action": "resize", "replicas": "0"}, "Replicas: this is not a number"),
        ("instances/webui", {"action": "resize"}, "Choose another GPU spec that your tariff plan"),
        ("instances/comfy", {"action": "resize", "replicas": "2"}, "comfy-home is a storage for one replica."),
        (
            "instances/webui",
            {"action": "mount", "mount-folder": "/workspace"},
            "Folder in the container: this is not a path",
        ),
        ("instances/webui", {"action": "mount", "mount-folder": "/workspace/models/a"}, "outside the folders"),
        ("instances/webui", {"action": "mount", "mount-folder": "/dev/shm"}, "outside the folders of the system"),
        (
            "instances/webui",
            {"action": "mount", "mount-folder": "/data/../x"},
            "Folder in the container: this is not a path",
        ),
        (
            "instances/webui",
            {"action": "mount", "mount-folder": f"/{'a' * 200}"},
            "Folder in the container: this is not a path",
        ),
        (
            "instances/webui",
            {"action": "mount", "mount-storage": "comfy-home", "mount-folder": "/data"},
            "comfy-home can't be mounted: mounted by comfy.",
        ),
        ("new-storage", {"name": "abc", "source": "storage:a/b/c"}, "Write the source like one of the examples"),
        ("new-storage", {"name": "abc", "source": "hf:foo/bar"}, "Write the source like one of the examples"),
        ("new-storage", {"name": "abc", "source": "snapshot:nope"}, "You have no snapshot:nope in eu-1."),
        ("new-storage", {"name": "abc", "source": "storage:nope"}, "You have no storage:nope in eu-1."),
        (
            "new-storage",
            {"name": "abc", "storageSpec": "shared-files", "size": "50Gi", "source": "storage:outputs"},
            "The source has 500Gi: write this size or more.",
        ),
        (
            "storages/outputs",
            {"action": "share", "share-other": "studio-kite"},
            "the name of another tenant",
        ),
    ],
)
def test_a_form_accepts_no_value_that_the_command_refuses(
    site: Site, visit: Visit, page: str, values: dict[str, Any], problem: str
) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/{page}.html")
    visit.page.eval_on_selector_all("details", "all => all.forEach(each => { each.open = true; })")
    fill(visit, values)
    assert problem in visit.page.inner_text("#problems")
    assert not visit.page.locator("#result").is_visible()


def test_a_problem_is_shown_below_its_field(site: Site, visit: Visit) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/new-instance.html")
    page = visit.page
    assert page.locator("[aria-invalid]").count() == 0
    fill(visit, {"name": "Lab", "app": "jupyter", "replicas": "0", "use-outputs": True, "folder-outputs": "data"})
    assert page.eval_on_selector_all("[aria-invalid=true]", "all => all.map(each => each.name)") == [
        "name",
        "replicas",
        "folder-outputs",
    ]
    name, folder = page.locator("#name"), page.locator('[name="folder-outputs"]')
    assert name.get_attribute("aria-describedby") == "name-hint name-problem"
    text = "The name has a-z, 0-9 and single '-', a letter first, and no '-' last."
    assert page.inner_text("#name-problem") == text
    assert page.inner_text("#problems").splitlines()[0] == text
    assert folder.get_attribute("aria-describedby") == "folder-outputs-problem"
    assert page.inner_text("#folder-outputs-problem").startswith("Folder in the container: ")
    below = page.locator("#name-problem").bounding_box()["y"] - name.bounding_box()["y"]
    assert 0 < below < 100
    fill(visit, {"name": "lab", "replicas": "1", "folder-outputs": "/workspace/outputs"})
    assert page.locator("[aria-invalid], .problem").count() == 0
    assert name.get_attribute("aria-describedby") == "name-hint"
    assert folder.get_attribute("aria-describedby") is None
    assert visit.errors == []


def test_a_deprecated_version_is_named_in_its_choice(site: Site, visit: Visit) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/new-instance.html")
    fill(visit, {"app": "stable-diffusion-webui"})
    texts = visit.page.eval_on_selector_all("#version option", "all => all.map(each => [each.value, each.text])")
    assert texts == [["1.11.0", "1.11.0"], ["1.10.1", "1.10.1 (Deprecated, replaced by 1.11.0)"]]


def test_a_missing_page_leads_home(site: Site, visit: Visit) -> None:
    gate = PageGate(is_local=True)
    gate.open()
    with serve_pages("127.0.0.1:0", site.folder, gate) as address:
        answer = visit.page.goto(f"http://{address}/tenants/nobody/instances/nothing.html")
        assert answer is not None
        assert answer.status == 404
        assert visit.page.inner_text("h1") == "Page not found"
        visit.page.click("main a:has-text('All tenants')")
        assert visit.page.inner_text("h1") == "Tenants"
        visit.page.go_back()
        visit.page.click("text=The home page")
        assert visit.page.url == f"http://{address}/index.html"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_form_with_problems_is_accessible(site: Site, browser: Browser, theme: Literal["light", "dark"]) -> None:
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(color_scheme=theme)
    visit = Visit(context.new_page())
    visit.open(f"{site.url}/tenants/studio-kite/storages/outputs.html")
    open_details(visit)
    fill(visit, {"action": "share", "share-other": "Solo Ada"})
    assert visit.page.get_attribute("#share-other", "aria-describedby") == "share-other-hint share-other-problem"
    assert Axe().run(visit.page).response["violations"] == []
    context.close()


def test_a_resize_shows_its_cost(site: Site, visit: Visit) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/instances/webui.html")
    open_details(visit)
    fill(visit, {"action": "resize", "gpuSpec": "l4-whole"})
    assert visit.page.inner_text("#effect").splitlines()[1:3] == [
        "+459.90 EUR in a month of 730 hours",
        "Budget: 2276.90 → 2736.80 of 4000.00 EUR",
    ]
    assert visit.page.inner_text("#effect").splitlines()[-1] == "GPUs nvidia-l4: 3.25 → 4 of 8"
    fill(visit, {"replicas": "9"})
    assert visit.page.inner_text("#problems").startswith("l4-whole: ")


def test_a_form_asks_for_units(site: Site, visit: Visit, allot: Allot, tmp_path: Path) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/index.html")
    open_details(visit)
    fill(visit, {"action": "spec", "spec-spec": "h100-one in us-1", "spec-reason": "A large model"})
    command = visit.page.inner_text("#command")
    assert command == ("allot request spec studio-kite h100-one --cluster us-1 --count 1 --reason 'A large model' --pr")
    for part in ("#file", "#open", "#at-forge"):
        assert not visit.page.locator(part).is_visible()
    written = run_command(allot, site.place, tmp_path, command, "tenants/studio-kite/tenant.yaml")
    assert yaml.safe_load(written)["spec"]["quota"] == {"gpus": {"nvidia-h100-80gb": 1}}
    fill(visit, {"spec-count": "0", "spec-reason": ""})
    assert visit.page.inner_text("#problems").splitlines() == [
        "Further units: this is not a number such as 2.",
        "Reason: write a sentence for the approver, at most 2000 characters.",
    ]
    fill(visit, {"spec-spec": "a100-1g in eu-1", "spec-count": "1", "spec-reason": "A small model"})
    assert visit.page.inner_text("#problems") == (
        "No quota and no stock prevents this number of units: write a larger number, or declare an instance."
    )
    fill(
        visit, {"action": "quota", "quota-quota": "instances", "quota-amount": "20", "quota-reason": "The course grows"}
    )
    assert visit.page.inner_text("#problems") == "The quota instances is 20: write more, such as 21."
    fill(visit, {"quota-quota": "storage", "quota-amount": "30"})
    assert visit.page.inner_text("#problems") == "The quota storage is 5Ti: write more, such as 6Ti."
    fill(visit, {"quota-quota": "instances", "quota-amount": "", "quota-reason": ""})
    assert visit.page.locator("#at-forge").is_hidden()
    fill(visit, {"quota-amount": "30", "quota-reason": "The course grows"})
    assert visit.page.locator("#at-forge").is_visible()


def test_a_form_says_whether_the_change_merges_by_itself(browser: Browser, tmp_path: Path) -> None:
    place = create_place(tmp_path / "place")
    policy = 'spec:\n  selfService:\n    changes: [Change, Create, Start, Stop]\n    maxMonthlyCost: "500"\n'
    edit(place.root, "platform/platform.yaml", "spec:\n", "spec:\n  selfService: Enabled\n")
    edit(place.root, "platform/plans/team.yaml", "spec:\n", policy)
    context = browser.new_context()
    visit, can = Visit(context.new_page()), "This change can merge by itself, if its plan is green"
    with serve_merged(place, tmp_path / "site", "studio-kite") as url:
        visit.open(f"{url}/tenants/studio-kite/new-instance.html")
        fill(visit, {"name": "paint", "app": "stable-diffusion-webui", "gpuSpec": "l4-quarter"})
        assert visit.page.inner_text("#verdict") == f"{can}."
        fill(visit, {"gpuSpec": "l4-whole"})
        assert visit.page.inner_text("#verdict") == (
            "This change waits for a merge by a person: it adds 613.20 EUR a month, and the limit is 500.00."
        )
        visit.open(f"{url}/tenants/studio-kite/instances/webui.html")
        open_details(visit)
        assert visit.page.inner_text("#verdict") == f"{can}."
        fill(visit, {"action": "delete"})
        assert visit.page.inner_text("#verdict") == (
            "This change waits for a merge by a person: the tariff plan team doesn't list Delete."
        )
        visit.open(f"{url}/tenants/studio-kite/storages/outputs.html")
        open_details(visit)
        fill(visit, {"action": "clone", "clone-name": "copy"})
        assert visit.page.inner_text("#verdict") == f"{can}."
    context.close()


def test_a_refusal_of_the_quota_leads_to_a_request(site: Site, visit: Visit) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/new-instance.html")
    fill(visit, {"name": "abc", "app": "jupyter", "gpuSpec": "l4-quarter", "replicas": "2"})
    assert not visit.page.locator("#request").is_visible()
    fill(visit, {"replicas": "20"})
    assert visit.page.inner_text("#request") == (
        "Ask for a larger quota or for more units. The platform team sets the budget."
    )
    visit.page.click("#request a")
    visit.page.wait_for_selector("#change:visible")


def test_a_form_keeps_the_last_admin(site: Site, visit: Visit) -> None:
    visit.open(f"{site.url}/tenants/solo-ada/members.html")
    for values in ({"action": "remove"}, {"action": "role", "role-role": "Viewer"}):
        fill(visit, values)
        assert visit.page.inner_text("#problems") == "ada is the last Admin: first give another member the role Admin."


def test_a_resize_names_the_tariff_plan_with_a_single_gpu_spec(site: Site, visit: Visit) -> None:
    visit.open(f"{site.url}/tenants/solo-ada/instances/webui.html")
    open_details(visit)
    fill(visit, {"action": "resize"})
    visit.page.dispatch_event("#replicas", "input", {"bubbles": True})
    assert visit.page.inner_text("#problems") == (
        "Your tariff plan starter and your quota allow only l4-quarter in eu-1: choose another number of replicas."
    )


def test_only_another_gpu_spec_restarts_an_instance(site: Site, visit: Visit) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/instances/webui.html")
    open_details(visit)
    fill(visit, {"action": "resize", "replicas": "2"})
    assert "The instance restarts." not in visit.page.inner_text("#effect")
    fill(visit, {"gpuSpec": "l4-whole"})
    assert "The instance restarts." in visit.page.inner_text("#effect")


def test_a_change_without_its_values_names_the_field(site: Site, visit: Visit) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/storages/outputs.html")
    open_details(visit)
    fill(visit, {"action": "share"})
    assert visit.page.inner_text("#problems").startswith("Name of the other tenant: write the name of another tenant")
    fill(visit, {"action": "clone", "clone-name": "outputs"})
    assert visit.page.inner_text("#problems") == "outputs exists already."
    assert not visit.page.locator("#result").is_visible()


def test_every_resource_of_the_sample_can_be_changed(site: Site, visit: Visit, allot: Allot, tmp_path: Path) -> None:
    """The pages stop each instance and grow each storage as the commands do, whatever their files look like."""
    root = tmp_path / "repo"
    git(tmp_path, "clone", "-q", str(site.place.remote), str(root))
    count, problems = 0, set[str]()
    for file in sorted((root / "tenants").glob("*/*/*.yaml")):
        tenant, folder, name = file.parts[-3], file.parts[-2], file.stem
        if folder not in ("instances", "storages"):
            continue
        visit.open(f"{site.url}/tenants/{tenant}/{folder}/{name}.html")
        open_details(visit)
        if folder == "storages":
            limits = visit.page.locator("#size-hint").inner_text()
            number, unit = limits.removeprefix("more than ")[:-2], limits[-2:]
            fill(visit, {"size": f"{int(number) + 1}{unit}"})
            if not visit.page.locator("#result").is_visible():
                problems.add(visit.page.inner_text("#problems"))
                continue
        path, text, command = read_result(visit)
        result = allot(*shlex.split(command)[1:-1], "--repo", root)
        assert result.code == 0, (path, result.err)
        assert file == root / path
        old = yaml.safe_load((site.place.root / path).read_text(encoding="utf-8"))
        changed = merge_lines(old, {"spec": yaml.safe_load(text)})
        assert sort_lists(changed) == sort_lists(yaml.safe_load(file.read_text(encoding="utf-8")))
        git(root, "checkout", "-q", ".")
        count += 1
    assert count > 25
    assert all(text.startswith("The quota allows ") for text in problems)


def test_a_form_shows_price_quota_and_budget(site: Site, visit: Visit) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/new-instance.html")
    fill(visit, {"name": "third", "app": "jupyter", "gpuSpec": "l4-quarter", "replicas": "3"})
    assert visit.page.inner_text("#effect").splitlines() == [
        "0.63 EUR per hour while it runs",
        "+459.90 EUR in a month of 730 hours",
        "Budget: 2276.90 → 2736.80 of 4000.00 EUR",
        "Forecast of 2026-11: 1149.37 → 1292.38 of 4000.00 EUR",
        "GPUs nvidia-l4: 3.25 → 4 of 8",
        "Instances: 3 → 4 of 20",
    ]


def mount(folder: str, other: str | None = None) -> dict[str, Any]:
    """Return an instance that mounts a storage, or two."""
    values = {"name": "abc", "app": "jupyter", "use-outputs": True, "folder-outputs": folder}
    return values if other is None else {**values, "use-model-cache": True, "folder-model-cache": other}


@pytest.mark.parametrize(
    ("page", "values", "problem"),
    [
        ("new-instance", {"name": "webui"}, "webui exists already."),
        ("new-instance", {"name": "No"}, "The name has a-z"),
        ("new-instance", {"name": "con"}, "con is the name of a device on Windows"),
        ("new-storage", {"name": "lpt1"}, "lpt1 is the name of a device on Windows"),
        ("new-instance", {"name": "ab"}, "The name has 3 to 24 characters."),
        ("new-instance", {"name": "abc", "replicas": "0"}, "Replicas: this is not a number"),
        ("new-instance", {"name": "abc", "gpuSpec": "l4-whole", "replicas": "90"}, "l4-whole: too few free units."),
        ("new-instance", {"name": "abc", "gpuSpec": "l4-quarter", "replicas": "20"}, "l4-quarter: over the quota."),
        ("new-instance", {"name": "abc", "replicas": "90"}, "l4-quarter: too few free units."),
        (
            "new-instance",
            {"name": "abc", "gpuSpec": "l4-quarter", "app": "lora-trainer"},
            "l4-quarter: not enough memory",
        ),
        ("new-instance", mount("/dev/shm/a"), "outside the folders of the system"),
        ("new-instance", mount("/scratch"), "outside the folders of the system"),
        ("new-instance", mount("/a/../b"), "Folder in the container: this is not a path"),
        ("new-instance", mount("/a/"), "Folder in the container: this is not a path"),
        ("new-instance", mount(f"/{'a' * 200}"), "Folder in the container: this is not a path"),
        ("new-instance", mount("/data", "/data"), "Two storages have the folder /data."),
        ("new-instance", mount("/data/sub", "/data"), "/data/sub is inside /data"),
        ("new-instance", mount("/data", "/data/sub"), "/data/sub is inside /data"),
        ("new-storage", {"name": "abc", "size": "5"}, "Write a size such as 50Gi."),
        ("new-storage", {"name": "abc", "size": "1Gi"}, "has sizes from 10Gi to"),
        (
            "new-storage",
            {"name": "abc", "storageSpec": "shared-files", "size": "4Ti"},
            "The quota allows 5Ti of storage",
        ),
        ("storages/outputs", {"size": "500Gi"}, "A storage never shrinks: write more than 500Gi."),
        ("members", {"name": "abc", "login": "a b"}, "Login at the forge: this is not a name such as jo-k, or"),
        (
            "members",
            {"name": "abc", "subject": '"'},
            "Subject: this is not the claim sub of the ID token, which the identity provider shows: such as 00u1jo,",
        ),
        (
            "members",
            {"action": "key", "key-key": "ssh-ed25519"},
            "Public key: this is not a line such as ssh-ed25519 AAAA… from ~/.ssh/id_ed25519.pub",
        ),
        ("members", {"action": "key", "key-user": "mio"}, "Public key: write a line such as ssh-ed25519 AAAA…"),
    ],
)
def test_a_form_names_the_problem(site: Site, visit: Visit, page: str, values: dict[str, Any], problem: str) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/{page}.html")
    visit.page.eval_on_selector_all("details", "all => all.forEach(each => { each.open = true; })")
    fill(visit, values)
    assert problem in visit.page.inner_text("#problems")
    assert not visit.page.locator("#result").is_visible()


def test_only_the_tenant_of_a_reserved_stock_can_choose_it(
    site: Site, visit: Visit, allot: Allot, tmp_path: Path
) -> None:
    visit.open(f"{site.url}/tenants/film-house/new-instance.html")
    fill(visit, {"name": "half", "app": "jupyter", "gpuSpec": "l4-half"})
    path, text, _ = read_result(visit)
    assert "gpuSpec: l4-half" in text
    check_file(allot, site.place, tmp_path, path, text)
    for page in ("catalog/index.html", "catalog/offers.json", "tenants/studio-kite/new-instance.html"):
        assert "l4-half" not in (site.folder / page).read_text(encoding="utf-8")


def open_details(visit: Visit) -> None:
    """Open the form of a page that is closed at first."""
    visit.page.locator("details").evaluate("each => { each.open = true; }")


@contextmanager
def serve_merged(place: Place, folder: Path, tenant: str) -> Iterator[str]:
    """Merge what is declared, build the pages of a tenant, and serve them at the address that this returns."""
    place.merge()
    build(place, folder, tenant)
    with serve(folder) as url:
        yield url


def open_state_form(visit: Visit, url: str) -> list[str]:
    """Return the effect that the form to stop or start an instance shows."""
    visit.open(url)
    open_details(visit)
    return visit.page.inner_text("#effect").splitlines()[1:]


def test_a_form_shows_the_effect_of_a_stop_and_a_start(site: Site, visit: Visit) -> None:
    assert open_state_form(visit, f"{site.url}/tenants/studio-kite/instances/webui.html") == [
        "-0.21 EUR per hour",
        "-153.30 EUR in a month of 730 hours",
        "Budget: 2276.90 → 2123.60 of 4000.00 EUR",
        "Forecast of 2026-11: 1149.37 → 1101.70 of 4000.00 EUR",
        "GPUs nvidia-l4: 3.25 → 3 of 8",
    ]
    effect = open_state_form(visit, f"{site.url}/tenants/uni-lab/instances/group-d.html")
    assert effect[:2] == ["1.05 EUR per hour while it runs", "+766.50 EUR in a month of 730 hours"]
    assert [line.split(":")[0] for line in effect[2:]] == [
        "Budget",
        "Forecast of 2026-11",
        "GPUs nvidia-l4",
        "Free units of l4-quarter",
    ]


def test_an_instance_does_not_start_with_a_storage_that_another_one_mounts(
    site: Site, visit: Visit, allot: Allot, tmp_path: Path
) -> None:
    place = site.place.copy(tmp_path)
    folder = place.root / "tenants/studio-kite/instances"
    text = (folder / "comfy.yaml").read_text(encoding="utf-8")
    (folder / "comfy.yaml").write_text(text.replace("\nspec:\n", "\nspec:\n  state: Stopped\n"), encoding="utf-8")
    (folder / "other.yaml").write_text(text.replace("name: comfy\n", "name: other\n"), encoding="utf-8")
    with serve_merged(place, tmp_path / "site", "studio-kite") as url:
        visit.open(f"{url}/tenants/studio-kite/instances/comfy.html")
        open_details(visit)
        assert "comfy-home is a storage for one instance, and other mounts it" in visit.page.inner_text("#problems")
        assert not visit.page.locator("#result").is_visible()
    result = allot("instance", "start", "studio-kite/comfy", "--repo", place.root)
    assert "storage comfy-home is ReadWriteOnce" in result.out + result.err


def test_an_instance_does_not_mount_a_storage_that_its_accessor_changes(
    site: Site, visit: Visit, allot: Allot, tmp_path: Path
) -> None:
    place = site.place.copy(tmp_path)
    edit(place.root, "tenants/studio-kite/instances/comfy.yaml", "\nspec:\n", "\nspec:\n  state: Stopped\n")
    storage = "tenants/studio-kite/storages/comfy-home.yaml"
    edit(place.root, storage, "size: 100Gi\n", "size: 100Gi\n  accessor:\n    mode: ReadWrite\n")
    with serve_merged(place, tmp_path / "site", "studio-kite") as url:
        visit.open(f"{url}/tenants/studio-kite/instances/comfy.html")
        open_details(visit)
        assert "comfy-home is a storage for one instance, and its accessor" in visit.page.inner_text("#problems")
        assert not visit.page.locator("#result").is_visible()
        visit.open(f"{url}/tenants/studio-kite/new-instance.html")
        assert visit.page.locator("[name=use-comfy-home]").is_disabled()
        assert "comfy-home: 100Gi (its accessor changes files)" in visit.page.inner_text(
            ".field:has([name=use-comfy-home])"
        )
        assert visit.page.locator("[name=use-comfy-trial]").is_enabled()
    result = allot("instance", "start", "studio-kite/comfy", "--repo", place.root)
    assert "[accessor]" in result.out + result.err


def test_an_app_with_a_public_port_needs_a_cluster_that_allows_it(
    site: Site, visit: Visit, allot: Allot, tmp_path: Path
) -> None:
    place = site.place.copy(tmp_path)
    edit(place.root, "platform/apps/jupyter.yaml", "exposure: Members", "exposure: Public")
    oidc = "clientID: allotment\n"
    edit(
        place.root,
        "clusters/eu-1/cluster.yaml",
        oidc,
        f"{oidc}    callbackHost: login.eu-1.gpu.northlight.example\n",
    )
    with serve_merged(place, tmp_path / "site", "ml-orbit") as url:
        visit.open(f"{url}/tenants/ml-orbit/new-instance.html")
        fill(visit, {"name": "pub", "app": "jupyter", "cluster": "eu-1"})
        assert "eu-1 allows no Public ports: choose another app or cluster." in visit.page.inner_text("#problems")
        assert not visit.page.locator("#result").is_visible()
        fill(visit, {"cluster": "us-1"})
        assert "Public" not in visit.page.inner_text("#problems")
    words = ["instance", "create", "ml-orbit/pub", "--cluster", "eu-1", "--gpu-spec", "l4-quarter", "--app", "jupyter"]
    result = allot(*words, "--repo", place.root)
    assert "cluster eu-1 allows no Public port" in result.out + result.err


def test_a_form_refuses_what_the_forecast_of_the_month_does(site: Site, visit: Visit, tmp_path: Path) -> None:
    place = site.place.copy(tmp_path)
    days = "2026-11-01T00:00:00Z", "2026-11-11T00:00:00Z"
    large = UsageInterval("GPUStorage", "large", "large", *days, size="82Ti", storage_spec="block-ssd")
    report_all(place, more_usage={"studio-kite": large})
    build(place, tmp_path / "site", "studio-kite")
    with serve(tmp_path / "site") as url:
        visit.open(f"{url}/tenants/studio-kite/new-instance.html")
        fill(visit, {"name": "third", "app": "jupyter", "gpuSpec": "l4-quarter", "replicas": "3"})
        problems = visit.page.inner_text("#problems")
    before, after, limit = 3909.96, 4052.97, 4000
    assert problems == f"The budget is exceeded by {after - limit:.2f} EUR in 2026-11."
    assert f"Forecast of 2026-11: {before:.2f} → {after:.2f} of 4000.00 EUR" in (
        visit.page.text_content("#effect") or ""
    )


@pytest.mark.parametrize(
    ("offer", "enforcement", "is_refused"),
    [
        ({"cluster": "eu-1", "changesThisMonth": False}, "Deny", True),
        ({"cluster": "eu-1", "changesThisMonth": False}, "Warn", False),
        ({"cluster": "us-1", "changesThisMonth": False}, "Deny", False),
        ({"cluster": "eu-1", "changesThisMonth": True}, "Deny", False),
    ],
)
def test_the_forecast_refuses_nothing_that_the_plan_may_accept(
    site: Site, visit: Visit, offer: dict[str, Any], enforcement: str, is_refused: bool
) -> None:
    """The plan doesn't compare a cluster without a usage record, and a new price makes another forecast."""
    visit.open(f"{site.url}/tenants/studio-kite/new-instance.html")
    month = {"name": "2026-11", "forecast": "990", "rest": [1, 4], "clusters": ["eu-1"]}
    facts = {"budget": "1000", "enforcement": enforcement, "cost": "100", "month": month}
    script = """([facts, offer]) => {
      const problems = [];
      return [describeCost({...facts, currency: "EUR"}, parseMoney("100"), offer, problems), problems];
    }"""
    lines, problems = visit.page.evaluate(script, [facts, offer])
    excess = f"The budget is exceeded by 15.00 EUR in 2026-11{'.' if enforcement == 'Deny' else ': only a warning.'}"
    assert lines == [
        "+100.00 EUR in a month of 730 hours",
        "Budget: 100.00 → 200.00 of 1000.00 EUR",
        "Forecast of 2026-11: 990.00 → 1015.00 of 1000.00 EUR",
        *([] if is_refused else [excess]),
    ]
    assert problems == ([excess] if is_refused else [])


def test_a_price_that_changes_this_month_is_marked(site: Site, tmp_path: Path) -> None:
    place = site.place.copy(tmp_path)
    for number, day in enumerate(("2026-11-25", "2026-12-01", "2027-11-25")):
        name = ("l4-quarter", "l4-whole", "a100-1g")[number]
        price = f'  prices:\n    - from: "{day}"\n      perHour: "0.10"\n'
        edit(place.root, f"platform/specs/{name}.yaml", "  prices:\n", price)
    place.merge()
    build(place, tmp_path / "site", "studio-kite")
    offers = json.loads((tmp_path / "site/catalog/offers.json").read_text(encoding="utf-8"))
    specs = {spec["name"]: spec["changesThisMonth"] for spec in offers["gpuSpecs"]}
    assert [specs["l4-quarter"], specs["l4-whole"], specs["a100-1g"]] == [True, False, False]


def test_the_number_of_members_has_a_limit(site: Site, visit: Visit, allot: Allot, tmp_path: Path) -> None:
    place = site.place.copy(tmp_path)
    users = "".join(f"    - name: user-{number:03}\n      role: Viewer\n" for number in range(MAX_USERS))
    path = place.root / "tenants/uni-lab/members.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(f"{text[: text.index('spec:')]}spec:\n  users:\n{users}", encoding="utf-8")
    with serve_merged(place, tmp_path / "site", "uni-lab") as url:
        visit.open(f"{url}/tenants/uni-lab/members.html")
        fill(visit, {"name": "mia"})
        assert "The file has 200 users, which is the limit." in visit.page.inner_text("#problems")
    result = allot("member", "add", "uni-lab", "mia", "--role", "Viewer", "--repo", place.root)
    assert result.code == 2
    assert "201 entries: write at most 200" in result.err


def test_a_form_that_nobody_has_filled_in_shows_no_problem(site: Site, visit: Visit) -> None:
    for path in FORMS:
        visit.open(f"{site.url}/{path}")
        visit.page.eval_on_selector_all("details", "all => all.forEach(each => { each.open = true; })")
        assert not visit.page.locator("#problems").is_visible(), path
        assert not visit.page.locator("#result").is_visible(), path
    fill(visit, {"name": "x"})
    assert visit.page.locator("#problems").is_visible()


def test_a_form_proposes_the_folders_of_the_app(site: Site, visit: Visit, allot: Allot, tmp_path: Path) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/new-instance.html")
    values = {"name": "paint", "app": "stable-diffusion-webui", "gpuSpec": "l4-quarter"}
    fill(visit, {**values, "use-model-cache": True, "use-outputs": True})
    folders = [visit.page.input_value(f'[name="folder-{name}"]') for name in ("model-cache", "outputs")]
    assert folders == ["/workspace/models", "/workspace/outputs"]
    fill(visit, {"folder-outputs": "/workspace/outputs"})
    fill(visit, {"app": "comfyui"})
    folders = [visit.page.input_value(f'[name="folder-{name}"]') for name in ("model-cache", "outputs")]
    assert folders == ["/workspace", "/workspace/outputs"]
    fill(visit, {"folder-model-cache": "/workspace/models"})
    path, text, _ = read_result(visit)
    check_file(allot, site.place, tmp_path, path, text)


def test_a_storage_gets_the_folder_of_its_name(site: Site, visit: Visit) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/new-instance.html")
    fill(visit, {"name": "paint", "app": "stable-diffusion-webui", "gpuSpec": "l4-quarter", "use-outputs": True})
    assert visit.page.input_value('[name="folder-outputs"]') == "/workspace/outputs"
    visit.page.uncheck('[name="use-outputs"]')
    fill(visit, {"use-model-cache": True, "use-outputs": True})
    folders = [visit.page.input_value(f'[name="folder-{name}"]') for name in ("model-cache", "outputs")]
    assert folders == ["/workspace/models", "/workspace/outputs"]


def test_a_form_warns_about_a_folder_that_no_storage_or_no_app_has(site: Site, visit: Visit) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/instances/webui.html")
    open_details(visit)
    fill(visit, {"action": "unmount", "unmount-storage": "outputs"})
    assert visit.page.inner_text("#effect").splitlines() == [
        "The instance restarts. Its own disk is erased, and its storages stay.",
        "The files stay on the storage.",
        "/workspace/outputs (The pictures that it makes) is then on no storage: each stop or restart erases new files there.",
    ]
    fill(visit, {"action": "mount", "mount-folder": "/data"})
    assert visit.page.inner_text("#effect").splitlines()[-1] == (
        "/data is not a folder of app stable-diffusion-webui 1.10.1, which has /workspace/models, /workspace/outputs: mount the"
        " storage there, or name this path in container.args or container.env."
    )


def test_a_form_names_the_folders_on_no_storage(site: Site, visit: Visit) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/new-instance.html")
    fill(visit, {"name": "paint", "app": "stable-diffusion-webui", "gpuSpec": "l4-quarter"})
    models = "/workspace/models: Checkpoints, LoRAs and upscalers."
    outputs = "/workspace/outputs: The pictures that it makes."
    assert visit.page.inner_text("#unsaved-folders").splitlines() == [models, outputs]
    fill(visit, {"use-model-cache": True})
    assert visit.page.inner_text("#unsaved-folders").splitlines() == [outputs]
    fill(visit, {"folder-model-cache": "/workspace"})
    assert not visit.page.locator("#unsaved").is_visible()


def test_a_form_creates_the_storages_that_the_app_needs(site: Site, visit: Visit, allot: Allot, tmp_path: Path) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/new-instance.html")
    fill(visit, {"name": "paint", "app": "stable-diffusion-webui", "gpuSpec": "l4-quarter", "createStorages": True})
    assert visit.page.input_value("#storageSpec") == "shared-files"
    fill(visit, {"size": "60Gi"})
    effect = visit.page.inner_text("#effect").splitlines()
    assert effect[:3] == [
        "0.21 EUR per hour while it runs",
        "+172.50 EUR in a month of 730 hours",
        "Budget: 2276.90 → 2449.40 of 4000.00 EUR",
    ]
    assert {"Storage: 1600Gi → 1720Gi of 5Ti", "Storages: 6 → 8 of 50"} <= set(effect)
    assert visit.page.locator("#result").is_visible()
    command = visit.page.inner_text("#command")
    assert not visit.page.locator("#open").is_visible()
    assert "merge each pull request before you open the next link" in visit.page.inner_text("#several")
    files = visit.page.eval_on_selector_all(
        "#files li", "all => all.map(each => [...each.children].map(child => child.textContent))"
    )
    paths = [path for path, _ in files]
    assert [path.split("studio-kite/")[1] for path in paths] == [
        "storages/paint-models.yaml",
        "storages/paint-outputs.yaml",
        "instances/paint.yaml",
    ]
    assert "filename=tenants%2Fstudio-kite%2Fstorages%2Fpaint-models.yaml&value=" in (
        visit.page.get_attribute("#files a", "href") or ""
    )
    path = paths[-1]
    written = yaml.safe_load(run_command(allot, site.place, tmp_path, command, path))
    assert written["spec"]["storages"] == [
        {"name": "paint-models", "mountPath": "/workspace/models"},
        {"name": "paint-outputs", "mountPath": "/workspace/outputs"},
    ]
    (root,) = tmp_path.glob("clone-*")
    assert {each: (root / each).read_text(encoding="utf-8") for each in paths} == dict(files)
    storage = yaml.safe_load((root / "tenants/studio-kite/storages/paint-outputs.yaml").read_text(encoding="utf-8"))
    assert storage["spec"] == {"cluster": "eu-1", "storageSpec": "shared-files", "size": "60Gi"}
    fill(visit, {"size": "6Ti"})
    assert "The quota allows 5Ti of storage" in visit.page.inner_text("#problems")


def test_a_form_says_that_nobody_has_an_ssh_key(site: Site, visit: Visit, tmp_path: Path) -> None:
    hint = "No Admin or Member of the tenant has an SSH key yet"
    place = site.place.copy(tmp_path)
    path = place.root / "tenants/solo-ada/members.yaml"
    text = path.read_text(encoding="utf-8")
    for keys in (True, False):
        if not keys:
            path.write_text(text[: text.index("      sshKeys:")], encoding="utf-8")
            place.merge()
        build(place, tmp_path / "site", "solo-ada")
        with serve(tmp_path / "site") as url:
            visit.open(f"{url}/tenants/solo-ada/new-instance.html")
            fill(visit, {"name": "shell", "ssh": True})
            assert (hint in (visit.page.text_content("#effect") or "")) != keys


@pytest.mark.parametrize("order", [("loras", "characters"), ("characters", "loras")])
def test_a_file_lists_storages_as_fmt_does(
    site: Site, visit: Visit, allot: Allot, tmp_path: Path, order: tuple[str, str]
) -> None:
    visit.open(f"{site.url}/tenants/film-house/new-instance.html")
    fill(visit, {"name": "both", "app": "lora-trainer", "gpuSpec": "a100-3g"})
    for number, name in enumerate(order):
        folder = ("/workspace/dataset", "/workspace/output")[number]
        fill(visit, {f"use-{name}": True, f"folder-{name}": folder})
    path, text, command = read_result(visit)
    check_file(allot, site.place, tmp_path, path, text)
    assert text.rstrip("\n") == run_command(allot, site.place, tmp_path, command, path).rstrip("\n")


def test_a_storage_for_one_replica_is_refused_with_more(site: Site, browser: Browser, tmp_path: Path) -> None:
    place = site.place.copy(tmp_path)
    for path in (place.root / "tenants/studio-kite/instances").iterdir():
        text = path.read_text(encoding="utf-8")
        if "comfy-home" in text and "state: Stopped" not in text:
            path.write_text(text.replace("\nspec:\n", "\nspec:\n  state: Stopped\n"), encoding="utf-8")
    place.merge()
    build(place, tmp_path / "site", "studio-kite")
    page = browser.new_page()
    with serve(tmp_path / "site") as url:
        visit = Visit(page)
        visit.open(f"{url}/tenants/studio-kite/new-instance.html")
        values = {"name": "two", "app": "comfyui", "gpuSpec": "l4-quarter", "use-comfy-home": True}
        fill(visit, {**values, "folder-comfy-home": "/workspace"})
        assert visit.page.locator("#result").is_visible(), visit.page.inner_text("#problems")
        fill(visit, {"replicas": "2"})
        assert "comfy-home is a storage for one replica" in visit.page.inner_text("#problems")
    page.close()


def test_a_choice_stays_if_it_becomes_impossible(site: Site, visit: Visit) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/new-instance.html")
    fill(visit, {"name": "large", "app": "jupyter", "gpuSpec": "l4-whole", "replicas": "9"})
    assert visit.page.input_value("#gpuSpec") == "l4-whole"
    assert not visit.page.locator("#result").is_visible()
    fill(visit, {"replicas": "1"})
    assert "gpuSpec: l4-whole" in read_result(visit)[1]


def test_a_full_stock_is_no_choice(site: Site, browser: Browser, tmp_path: Path) -> None:
    shutil.copytree(site.folder, tmp_path / "site")
    path = tmp_path / "site/catalog/offers.json"
    offers = json.loads(path.read_text(encoding="utf-8"))
    for spec in offers["gpuSpecs"]:
        spec["free"] = 0 if spec["name"] == "l4-whole" else spec["free"]
    path.write_text(json.dumps(offers), encoding="utf-8")
    page = browser.new_page()
    with serve(tmp_path / "site") as url:
        page.goto(f"{url}/tenants/studio-kite/new-instance.html")
        wait_for_form(page)
        options = page.eval_on_selector_all(
            "#gpuSpec option", "all => all.map(each => [each.value, each.disabled, each.text])"
        )
    (full,) = [option for option in options if option[0] == "l4-whole"]
    assert full[1]
    assert full[2].endswith("0 free (too few free units)")
    assert not next(option[1] for option in options if option[0] == "l4-quarter")
    page.close()


def test_a_form_names_the_cause_if_no_gpu_spec_is_possible(site: Site, visit: Visit, tmp_path: Path) -> None:
    shutil.copytree(site.folder, tmp_path / "site")
    path = tmp_path / "site/catalog/offers.json"
    offers = json.loads(path.read_text(encoding="utf-8"))
    for counts, cause in (({}, ""), ({"l4-whole": 0}, ", too few free units")):
        for spec in offers["gpuSpecs"]:
            spec["free"] = counts.get(spec["name"], spec["free"])
            spec["memory"] = 2**50 if spec["name"] in counts else 1
        path.write_text(json.dumps(offers), encoding="utf-8")
        with serve(tmp_path / "site") as url:
            visit.open(f"{url}/tenants/studio-kite/new-instance.html")
            fill(visit, {"name": "train", "app": "lora-trainer"})
        assert visit.page.inner_text("#gpuSpec-problem") == (
            f"No GPU spec is possible: not enough memory for the app{cause}."
        )


def test_with_too_many_names_a_form_says_that_it_does_not_compare_them(
    site: Site, visit: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allotment.portal.pages.form_facts.MAX_NAMES", 2)
    build(site.place, tmp_path / "site", "studio-kite")
    with serve(tmp_path / "site") as url:
        visit.open(f"{url}/tenants/studio-kite/new-storage.html")
        fill(visit, {"name": "extra", "storageSpec": "block-ssd"})
        assert "The tenant has too many files to compare their names" in visit.page.inner_text("#effect")


def test_without_members_that_can_log_in_an_app_is_no_choice(site: Site, browser: Browser, tmp_path: Path) -> None:
    shutil.copytree(site.folder, tmp_path / "site")
    path = tmp_path / "site/tenants/studio-kite/new-instance.html"
    text = path.read_text(encoding="utf-8")
    assert '"canLogIn": true' in text
    assert form_facts._NO_VERSION in text
    text = text.replace('"canLogIn": true', '"canLogIn": false').replace(form_facts._NO_VERSION, form_facts._NO_LOGIN)
    path.write_text(text, encoding="utf-8")
    page = browser.new_page()
    with serve(tmp_path / "site") as url:
        page.goto(f"{url}/tenants/studio-kite/new-instance.html")
        wait_for_form(page)
        page.select_option("#app", "jupyter")
        page.fill("#name", "lab")
        assert "Nobody could log in to this app: first add a member with a subject." in page.inner_text("#problems")
        assert not page.locator("#result").is_visible()
    page.close()


def test_the_link_opens_the_forge_with_the_file(site: Site, visit: Visit) -> None:
    visit.open(f"{site.url}/tenants/studio-kite/new-storage.html")
    fill(visit, {"name": "extra", "storageSpec": "block-ssd"})
    path, text, _ = read_result(visit)
    link = visit.page.locator("#open").get_attribute("href")
    assert link is not None
    from urllib.parse import parse_qs, urlsplit

    parts = urlsplit(link)
    assert parts.path.endswith("/new/main")
    query = parse_qs(parts.query)
    assert query["filename"] == [path]
    assert query["value"] == [text if text.endswith("\n") else f"{text}\n"]
    assert not visit.page.locator("#hint").is_visible()


def test_invoices_print_without_navigation(site: Site, browser: Browser) -> None:
    page = browser.new_page()
    page.emulate_media(media="print")
    page.goto(f"{site.url}/tenants/studio-kite/invoices/2026-11.html")
    assert not page.locator("nav").is_visible()
    assert page.locator("article").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.close()


def test_a_form_writes_the_first_file_of_members(site: Site, visit: Visit, allot: Allot, tmp_path: Path) -> None:
    place = site.place.copy(tmp_path)
    (place.root / "tenants/uni-lab/members.yaml").unlink()
    with serve_merged(place, tmp_path / "site", "uni-lab") as url:
        visit.open(f"{url}/tenants/uni-lab/members.html")
        assert "The tenant declares no members." in visit.page.inner_text("main")
        fill(visit, {"name": "mia", "role": "Admin", "login": "mia-k"})
        path, text, command = read_result(visit)
        assert visit.page.inner_text("#open").startswith("Create the file")
        assert "uni-lab" in (visit.page.get_attribute("#open", "href") or "")
    written = run_command(allot, place, tmp_path, command, path)
    assert text.rstrip("\n") == written.rstrip("\n")


def test_a_served_page_shows_its_change_within_a_minute(browser: Browser, tmp_path: Path, site: Site) -> None:
    shutil.copytree(site.folder, tmp_path / "site")
    gate = PageGate(is_local=True)
    gate.open()
    page_file = tmp_path / "site/start/index.html"
    context = browser.new_context()
    page = context.new_page()
    with serve_pages("127.0.0.1:0", tmp_path / "site", gate) as address:
        page.clock.install()
        page.goto(f"http://{address}/start/")
        page_file.write_text(page_file.read_text().replace("<h1>", "<h1>Changed: "))
        page.clock.run_for(61_000)
        page.wait_for_selector("h1:has-text('Changed: ')")
    context.close()


def test_the_catalog_cuts_no_column_and_shows_prices_on_a_phone(site: Site, browser: Browser) -> None:
    for width in (1024, 360):
        context = browser.new_context(viewport={"width": width, "height": 900})
        page = context.new_page()
        page.goto(f"{site.url}/catalog/index.html")
        regions = page.locator(".wide")
        assert regions.count() == 2
        for region in regions.all():
            if width == 1024:
                assert region.evaluate("region => region.scrollWidth <= region.clientWidth")
            prices = region.locator("tbody tr > :nth-child(2)")
            assert prices.count() > 4
            assert all(price.bounding_box()["x"] + price.bounding_box()["width"] <= width for price in prices.all())
        context.close()
