"""What all tests share: the sample platform to change, and the command line in this process."""

from __future__ import annotations

import datetime
import gc
import io
import json
import os
import re
import shutil
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import settings

from allotment import problems
from allotment.adapters import file_cache
from allotment.adapters.git.clone import list_clones
from allotment.adapters.git.object_reader import ObjectReader, list_readers
from allotment.cli.main import main
from allotment.declared.inventory import ScopeDeclarations
from allotment.isolation.entitlements import Entitlements
from allotment.isolation.gate import NO_ENTITLEMENTS, IsolationGate
from allotment.reports.outputs import schema_file
from tests.support.waiting import NotInTime, eventually

if TYPE_CHECKING:
    from tests.support.published import Place, Places

pytest_plugins = ["tests.controlplane.fixtures", "tests.controlplane.scenarios"]

END_TO_END = "tests/e2e"  # the modules of a folder below it share a cluster
PROJECT = Path(__file__).resolve().parent.parent
ROOTS = ("platform", "clusters", "tenants")
DAY = "2026-11-21"
CHECKSUM = re.compile(r"merge (\S+) into spec\.brake")


class Result(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What it said, without the closing line."""
        return self.out.splitlines()[:-1]

    @property
    def checksum(self) -> str:
        """The checksum that approves the deletion which the brake stopped."""
        match = CHECKSUM.search(self.err)
        assert match, self.err
        return match[1]


# Git as tests want it, whatever the machine's is: no housekeeping after each commit, and no waiting for the disk.
os.environ["GIT_CONFIG_SYSTEM"] = str(Path(__file__).with_name("git.config"))

# No test depends on time. A push tests the same examples at each run, and a night others, ten times as many.
settings.register_profile("push", deadline=None, derandomize=True)
settings.register_profile("night", deadline=None, max_examples=1_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "push"))


def scale_examples(push_count: int) -> int:
    """Return the number of examples in the profile of this run, for a test that has `push_count` examples in `push`."""
    return push_count * settings().max_examples // settings.get_profile("push").max_examples


def count_declarations(root: Path) -> int:
    """Return the number of files of declarations in a folder."""
    return sum(1 for folder in ("platform", "clusters", "tenants") for _ in (root / folder).rglob("*.yaml"))


Allot = Callable[..., Result]


gc.disable()  # while tests are collected: it would look through all of them again and again


def pytest_collection_finish() -> None:
    gc.freeze()  # the collected tests stay, so no later collection looks through them
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the folder of the end-to-end tests if `-m` deselects all of them, because the imports of its modules take long."""
    expression: str = config.getoption("markexpr")
    is_deselected = "not e2e" in expression.split(" and ") and " or " not in expression
    return True if is_deselected and collection_path == PROJECT / "tests/e2e" else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """Let `--dist loadfile` give a worker all modules of a folder that share a real node. Marks of groups, which xdist has for
    that, have no effect with pytest 9.2."""
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]  # it has no types of its own

    class Sharing(LoadFileScheduling):  # type: ignore[misc]  # so this is of Any
        def _split_scope(self, nodeid: str) -> str:
            module: str = super()._split_scope(nodeid)
            folder = module.rpartition("/")[0]
            return folder if folder.startswith(f"{END_TO_END}/") else module

    return Sharing(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True)  # a run may be without xdist
def pytest_xdist_auto_num_workers() -> int:
    """Return how many tests run at a time with `-n auto`: one more than there are cores, because a sixth of the time is waiting."""
    return int(os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS") or (os.cpu_count() or 1) + 1)


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return folders that aren't there yet. Pytest's own would look through all that it made before for each new one."""
    folder = tmp_path_factory.mktemp("caches")
    return (folder / str(number) for number in count())


@pytest.fixture(autouse=True)
def _forgotten_secrets() -> Iterator[None]:
    """Forget the secrets that a test hid in errors, as a process does at its end: they may be words of another test."""
    earlier_secrets = set(problems._secrets)
    yield
    problems._secrets.intersection_update(earlier_secrets)


@pytest.fixture(autouse=True)
def _closed_readers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Release the clones that a test locked and close the readers that it opened, as a process does at its end. Fail a test of
    `make test` that leaves an object reader of Git open. Those of fixtures with a wider scope may stay.

    A reader ends here if only the values of the test's fixtures refer to it, or if it is garbage that Python has not
    collected: a traceback that a test looks at forms a cycle with the test's frame.
    """
    earlier_readers, earlier_clones = weakref.WeakSet(list_readers()), list_clones()
    yield

    def list_open() -> list[ObjectReader]:
        return [reader for reader in list_readers() if reader.is_open and reader not in earlier_readers]

    for clone in list_clones():
        if clone not in earlier_clones:
            clone.close()
    if list_open():
        request.node.funcargs.clear()
    if list_open():
        gc.collect()
    is_fast = not any(request.node.get_closest_marker(lane) for lane in OTHER_LANES)
    with suppress(NotInTime):  # a thread of a refused command closes its reader a moment later
        eventually(lambda: not (is_fast and list_open()), "the readers to be closed", 5, pause=0.01)
    folders = sorted({str(reader.folder) for reader in list_open()})
    for reader in list_open():
        reader.close()
    assert not (is_fast and folders), f"the test leaves readers open, use a `with` block: {', '.join(folders)}"


FAST_PROGRAMS = {"git", "ssh-keygen", "gpg"}  # the processes that a test of `make test` may start
OTHER_LANES = ("process", "install", "e2e")
_started_programs: list[str] = []


def _record_program(event: str, details: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        _started_programs.append(Path(os.fsdecode(details[0])).name)


sys.addaudithook(_record_program)


@pytest.fixture(autouse=True)
def _lane(request: pytest.FixtureRequest) -> Iterator[None]:
    """With LANES=strict in the environment, fail a test of `make test` that starts a process other than Git's: a process costs
    as much as ten commands in this process."""
    _started_programs.clear()
    yield
    programs = {*_started_programs} - FAST_PROGRAMS
    is_strict = os.environ.get("LANES") == "strict"
    if is_strict and programs and not any(request.node.get_closest_marker(lane) for lane in OTHER_LANES):
        pytest.fail(f"the test starts {', '.join(sorted(programs))}: mark it with pytest.mark.process")


hash_source = file_cache._hash_source
_hash_source_once = cache(hash_source)


@pytest.fixture(autouse=True)
def _own_memory(caches: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a cache folder of its own. The program is hashed once for all of them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(next(caches)))
    monkeypatch.setattr(file_cache, "_hash_source", lambda paths: _hash_source_once(tuple(paths)))


@pytest.fixture(autouse=True)
def _today(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it be DAY for the command line: no option says so to a rule that asks what day it is."""
    monkeypatch.setattr("allotment.cli.options.today", lambda zone: datetime.date.fromisoformat(DAY))


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Return a copy of this repository's own declarations."""
    return copy_sample(tmp_path / "repo")


PUBLIC_INSTANCE = """\
apiVersion: allotment.dev/v1alpha1
kind: GPUInstance
metadata:
  name: demo
spec:
  cluster: eu-1
  gpuSpec: l4-quarter
  container:
    image: registry.example/orbit/demo:1.0.0@sha256:7bc6ca771054113da681c2dfe10768f978818dff6f6e9d00ed91f2a97f7898aa
    ports:
      - name: http
        containerPort: 8080
        exposure: Public
"""


def copy_sample(root: Path) -> Path:
    for name in ROOTS:
        shutil.copytree(PROJECT / name, root / name)
    return root


_passed: OrderedDict[object, None] = OrderedDict()  # those asked for last come last


@pytest.fixture
def one_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no file be judged again that a gate of this process passed, with all that it was judged by.

    Most tests render the whole sample, and change a file of it. What the gate says is tested in tests/isolation.
    """
    check = IsolationGate.check

    def checked(
        gate: IsolationGate,
        path: str,
        data: bytes,
        entitlements: Entitlements = NO_ENTITLEMENTS,
        *,
        published: bool = False,
    ) -> None:
        boundary = gate.clusters.get(path.partition("/")[0])
        if boundary is None:
            check(gate, path, data, entitlements, published=published)
            return
        declared = (*_declared(boundary.catalog.platform), *_declared(boundary.cluster_declarations))
        entitled = (*entitlements.required_endings.items(), *entitlements.max_replicas.items())
        cache_key = (declared, entitled, Entitlements.judge, published, path, data)
        if cache_key not in _passed:
            check(gate, path, data, entitlements, published=published)
        _passed[cache_key] = None
        _passed.move_to_end(cache_key)
        if len(_passed) > 2000:
            _passed.popitem(last=False)

    monkeypatch.setattr(IsolationGate, "check", checked)


def _declared(folder: ScopeDeclarations) -> Iterator[tuple[str, bytes]]:
    return ((declaration.path, declaration.data) for declaration in folder.all_declarations())


@pytest.fixture
def allot(one_gate: None) -> Allot:
    """Return the command line: arguments in, exit status and texts out."""
    return run_allot


def run_allot(*arguments: object) -> Result:
    """Run a command in this process."""
    raw = io.BytesIO()
    out, err = io.TextIOWrapper(raw, encoding="utf-8", write_through=True), io.StringIO()
    # A service would freeze all objects of this process, although the process goes on.
    with redirect_stdout(out), redirect_stderr(err), patch.object(gc, "freeze"), pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    code = ended.value.code
    return Result(code if isinstance(code, int) else 0, raw.getvalue().decode("utf-8"), err.getvalue())


def edit(root: Path, path: str, old: str, new: str) -> None:
    """Replace a text that is in a file."""
    file = root / path
    text = file.read_text(encoding="utf-8")
    assert old in text, f"{path} has no {old!r}"
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def own(root: Path) -> None:
    """Have the sample's hosts be somebody's own, so that none is a placeholder."""
    for path in (path for name in ROOTS for path in (root / name).rglob("*.yaml")):
        path.write_text(path.read_text(encoding="utf-8").replace(".example", ".dev"), encoding="utf-8")


def copy(root: Path, path: str, target: str) -> None:
    """Declare the same thing again, under the name that the new path says."""
    text = (root / path).read_text(encoding="utf-8")
    name, new = Path(path).stem, Path(target).stem
    (root / target).parent.mkdir(parents=True, exist_ok=True)
    (root / target).write_text(text.replace(f"  name: {name}\n", f"  name: {new}\n", 1), encoding="utf-8")


def errors(result: Result) -> list[str]:
    """Return the lines about errors, warnings left out."""
    assert result.err == ""
    return [line for line in result.lines if " warning: " not in line]


def golden(path: Path, text: str) -> None:
    """Compare with the golden file, or write it when GOLDEN=write asks for that."""
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), (
        f"{path.name} differs: look at it, and run `make golden` if it is meant"
    )


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Return the places that tests begin with."""
    from tests.support.published import Places

    return Places(tmp_path_factory.mktemp("places"))


Begin = Callable[[str, Callable[["Place"], object]], "Place"]


@pytest.fixture
def begin(places: Places, allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Return what makes the sample a repository with a remote, and lets it be as something makes it, under a name."""
    from tests.support.published import Place

    monkeypatch.setenv("GIT_COMMITTER_NAME", "allotment")
    monkeypatch.setenv("GIT_COMMITTER_EMAIL", "allotment@northlight.example")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)

    def begun(name: str, make: Callable[[Place], object]) -> Place:
        def initialise(place: Place) -> None:
            copy_sample(place.root)
            place.begin()
            make(place)

        return places.begin(name, Place(tmp_path / "repo", tmp_path / "remote.git", allot, monkeypatch), initialise)

    return begun


@pytest.fixture
def place(begin: Begin) -> Place:
    """Return the sample as a repository with a remote, nothing of it published yet."""
    return begin("sample", lambda place: None)


@pytest.fixture
def published(begin: Begin) -> Place:
    """Return the sample as a repository with a remote to which it is published."""

    def publish(place: Place) -> None:
        assert place.publish().code == 0

    return begin("published", publish)


@pytest.fixture
def small(begin: Begin) -> Place:
    """Return the sample with one tenant alone, published: for tests of processes, which have to read all that is declared."""

    def publish(place: Place) -> None:
        for folder in (place.root / "tenants").iterdir():
            if folder.name != "solo-ada":
                shutil.rmtree(folder)
        for stock in place.root.glob("clusters/*/stocks/*.yaml"):
            if "  tenant: " in stock.read_text(encoding="utf-8"):
                stock.unlink()
        assert place.merged().code == 0

    return begin("small", publish)


def checked(command: str, text: str) -> Any:
    """Return what a command printed as JSON, once its published schema was found to say so."""
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it has no types

    schema = json.loads((PROJECT / "schemas/output" / schema_file(command)).read_text(encoding="utf-8"))
    value = json.loads(text)
    Draft202012Validator(schema).validate(value)
    return value


def files_below(folder: Path, but: tuple[str, ...] = ()) -> dict[str, bytes]:
    """Return the bytes of all files below a folder by path, without those whose path begins with one of `but`."""
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: path.read_bytes() for name, path in paths.items() if not name.startswith(but)}
