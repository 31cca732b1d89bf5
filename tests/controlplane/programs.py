"""The programs of the test bed, built from pinned Go modules into a cache outside the checkout, keyed by what is pinned.

Each folder beside this file with a go.mod is one tool: Go resolves it alone, so that no tool bumps another's libraries. A
folder with Go files is a program of ours, which calls a library.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

MODULES = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "allotment" / "controlplane"
# For a module of this package that runs as a program of its own: its packages and what is built, whatever a test sets.
OWN = {"PYTHONPATH": str(MODULES.parent.parent), "XDG_CACHE_HOME": str(CACHE.parent.parent)}
GIVEN = ("ALLOT_CONTROLPLANE", "KUBEBUILDER_ASSETS")  # folders that hold programs already
NO_COMPILER = (
    "Go is needed to build it: install Go {version} or later{cgo}, or point ALLOT_CONTROLPLANE at a folder that has it"
)


class NotBuilt(Exception):
    """A program or file is neither given nor in the cache."""


@dataclass(frozen=True)
class Tool:
    """How one tool's programs are made: `programs` maps a program to its Go package, `files` come along from its module."""

    module: str
    programs: Mapping[str, str]
    ldflags: str = ""
    tags: str = ""
    cgo: bool = False
    files: tuple[str, ...] = ()
    # File of the module, or MODULE@/FILE of one that it depends on; a text that it holds once; another.
    replaced: tuple[tuple[str, str, str], ...] = ()
    library: str = ""  # of debian.PACKAGES: C's, which it is linked with
    pinned_by: str = ""  # the tool whose go.mod pins it, where that isn't its own


_NODE_CLASS = (
    'AddKnownTypeWithName(gv.WithKind("EC2NodeClass"), &KWOKNodeClass{})\n'
    '\tscheme.Scheme.AddKnownTypeWithName(gv.WithKind("EC2NodeClassList"), &KWOKNodeClassList{})'
)
# AWS's provider takes instance types with NodeOverlays applied, and puts the whole capacity of the one that it bought on the
# claim; what devices there are only the kubelet's device plugins say, later. KWOK's puts what pods asked for on both, at once.
_SOLD = "func(context.Context, *v1.NodePool) ([]*cloudprovider.InstanceType, error)"
_CREATE = "\tnode, err := c.toNode(nodeClaim)\n"
_SOLD_TO_THE_POOL = """\tpool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: nodeClaim.Labels[v1.NodePoolLabelKey]}}
\tvar err error
\tif c.instanceTypes, err = c.Sold(ctx, pool); err != nil {
\t\treturn nil, fmt.Errorf("resolving instance types, %w", err)
\t}
\tnode, err := c.toNode(nodeClaim)
"""
_MADE = "\t// Kick-off a goroutine"
_WITHOUT_DEVICES = """\tbare := node.DeepCopy()
\tfor _, amounts := range []corev1.ResourceList{bare.Status.Capacity, bare.Status.Allocatable} {
\t\tmaps.DeleteFunc(amounts, func(name corev1.ResourceName, _ resource.Quantity) bool {
\t\t\treturn strings.HasPrefix(string(name), "nvidia.com/")
\t\t})
\t}
"""
_REQUESTED = "\t\t\tCapacity:    nodeClaim.Spec.Resources.Requests,\n"
_REQUESTED_AT_LEAST = "lo.Assign(nodeClaim.Spec.Resources.Requests, instanceType.Allocatable())"
_ANY = "func(_ corev1.ResourceName, amount resource.Quantity) bool { return !amount.IsZero() }"
_DECORATED = (
    "cloudProvider := overlay.Decorate(overlayUndecoratedCloudProvider, op.GetClient(), op.InstanceTypeStore)\n"
)
# For every object that it applies, Argo CD reads the OpenAPI document of its API again, to know whether the API server validates
# fields. This took 44 % of its time. The answers of one process are the same for all objects, so each is remembered.
_VERIFIER = "k8s.io/kubectl@/pkg/cmd/util/caching_verifier.go"
_ANSWERS = "var answers = map[schema.GroupVersionKind]error{}\nvar answersMutex sync.RWMutex\n\n"
_COMPONENT = "-X k8s.io/component-base/version"
# Secret stores and generators whose libraries are most of the operator. The fake store holds what a test gives it.
_OPERATOR = "github.com/external-secrets/external-secrets/pkg"
_UNUSED_STORES = """akeyless alibaba aws azure/keyvault beyondtrust bitwarden chef cloudru/secretmanager conjur delinea device42
doppler fortanix gcp/secretmanager github gitlab ibm infisical keepersecurity kubernetes onboardbase onepassword oracle passbolt
passworddepot previder pulumi scaleway secretserver senhasegura vault webhook yandex/certificatemanager yandex/lockbox""".split()
_UNUSED_GENERATORS = "acr ecr gcr github grafana password quay sts uuid vault webhook".split()
TOOLS: Mapping[str, Tool] = {
    "etcd": Tool("go.etcd.io/etcd/server/v3", {"etcd": "go.etcd.io/etcd/server/v3"}),
    "kwok": Tool(
        "sigs.k8s.io/kwok",
        {name: f"sigs.k8s.io/kwok/cmd/{name}" for name in ("kwok", "kwokctl")},
        files=("kustomize/stage/node",),
    ),
    "kubernetes": Tool(
        "k8s.io/kubernetes",
        {
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
        },
        # Unset, programs call themselves v0.0.0, and clients and kwokctl treat them so.
        ldflags=f"{_COMPONENT}.gitVersion={{version}} {_COMPONENT}.gitMajor={{major}} {_COMPONENT}.gitMinor={{minor}}"
        " -X k8s.io/client-go/pkg/version.gitVersion={version}",
    ),
    "argocd": Tool(
        "github.com/argoproj/argo-cd/v3",
        {"argocd": "github.com/argoproj/argo-cd/v3/cmd"},
        files=("manifests/base/application-controller", "manifests/base/config", "manifests/crds"),
        # No flag moves the controller's metrics away from all interfaces; nothing of a test bed listens there.
        replaced=(
            ("controller/appcontroller.go", '"0.0.0.0:%d"', '"127.0.0.1:%d"'),
            (_VERIFIER, "// cachingVerifier wraps", f"{_ANSWERS}// cachingVerifier wraps"),
            (_VERIFIER, "\tmu    sync.RWMutex", "\tmu    *sync.RWMutex"),
            (_VERIFIER, "make(map[schema.GroupVersionKind]error),", "answers,\n\t\tmu:    &answersMutex,"),
            (_VERIFIER, "\tcv.cache[gvk] = err\n", "\tif err == nil {\n\t\tcv.cache[gvk] = nil\n\t}\n"),
        ),
    ),
    "gitea": Tool(
        "code.gitea.io/gitea",
        {"gitea": "code.gitea.io/gitea"},
        tags="sqlite sqlite_unlock_notify",
        cgo=True,
        files=("options", "templates", "public"),
    ),
    "karpenter": Tool(
        "sigs.k8s.io/karpenter",
        {"karpenter": "sigs.k8s.io/karpenter/kwok"},
        files=("kwok/apis/crds",),
        replaced=(
            *(
                ("pkg/operator/operator.go", f'":%d", {port}', f'"127.0.0.1:%d", {port}')
                for port in ("options.FromContext(ctx).MetricsPort", "options.FromContext(ctx).HealthProbePort")
            ),
            # Its provider takes the node class that we render for its own, so that what is rendered runs as it is.
            *(
                ("kwok/apis/v1alpha1/doc.go", old, new)
                for old, new in (
                    ('\n\n\t"sigs.k8s.io/karpenter/kwok/apis"', ""),
                    ('Group: apis.Group, Version: "v1alpha1"', 'Group: "karpenter.k8s.aws", Version: "v1"'),
                    ("AddKnownTypes(gv,\n\t\t&KWOKNodeClass{},\n\t\t&KWOKNodeClassList{},\n\t)", _NODE_CLASS),
                )
            ),
            *(
                ("kwok/cloudprovider/cloudprovider.go", old, new)
                for old, new in (
                    (
                        '"k8s.io/apimachinery/pkg/api/errors"\n',
                        '"k8s.io/apimachinery/pkg/api/errors"\n\t"k8s.io/apimachinery/pkg/api/resource"\n',
                    ),
                    ("\tkubeClient    client.Client\n", f"\tSold {_SOLD}\n\tkubeClient    client.Client\n"),
                    (_CREATE, _SOLD_TO_THE_POOL),
                    (_MADE, _WITHOUT_DEVICES + _MADE),
                    ("c.kubeClient.Create(ctx, node)", "c.kubeClient.Create(ctx, bare)"),
                    (_REQUESTED, f"\t\t\tCapacity: lo.PickBy(instanceType.Capacity, {_ANY}),\n"),
                    (_REQUESTED_AT_LEAST, f"lo.PickBy(instanceType.Allocatable(), {_ANY})"),
                )
            ),
            (
                "kwok/main.go",
                _DECORATED,
                f"{_DECORATED}\toverlayUndecoratedCloudProvider.Sold = cloudProvider.GetInstanceTypes\n",
            ),
        ),
    ),
    "cyclonus": Tool("github.com/mattfenwick/cyclonus", {"reachability": "."}),
    # 0.16.2 serves the same external-secrets.io/v1. Later modules need folders beside them, which no registry has.
    "external-secrets": Tool(
        "github.com/external-secrets/external-secrets",
        {"external-secrets": "github.com/external-secrets/external-secrets"},
        files=("config/crds/bases",),
        replaced=tuple(
            (f"pkg/{kind}/register/register.go", f'\t_ "{_OPERATOR}/{kind}/{name}"\n', "")
            for kind, names in (("provider", _UNUSED_STORES), ("generator", _UNUSED_GENERATORS))
            for name in names
        ),
    ),
}
# Plugins of CoreDNS that its Corefile doesn't name, and whose libraries take three minutes to compile.
_UNUSED = "azure clouddns dnssec etcd geoip k8s_external metrics nomad route53 sign trace tsig".split()
# What a real node takes besides: beside KWOK's nodes it runs containers.
NODE: Mapping[str, Tool] = {
    "kubelet": Tool(
        "k8s.io/kubernetes",
        {name: f"k8s.io/kubernetes/cmd/{name}" for name in ("kubelet", "kube-proxy")},
        ldflags=TOOLS["kubernetes"].ldflags,
    ),
    "containerd": Tool(
        "github.com/containerd/containerd/v2",
        {
            name: f"github.com/containerd/containerd/v2/cmd/{name}"
            for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        },
    ),
    "runc": Tool(
        "github.com/opencontainers/runc",
        {"runc": "github.com/opencontainers/runc"},
        ldflags="-extldflags -static",
        tags="seccomp osusergo netgo",
        cgo=True,
        library="seccomp",
    ),
    "cni": Tool(
        "github.com/containernetworking/plugins",
        {
            name: f"github.com/containernetworking/plugins/plugins/{place}/{name}"
            for place, name in (("main", "ptp"), ("main", "loopback"), ("ipam", "host-local"), ("meta", "portmap"))
        },
    ),
    "coredns": Tool(
        "github.com/coredns/coredns",
        {"coredns": "github.com/coredns/coredns"},
        replaced=tuple(
            ("core/plugin/zplugin.go", f'\t_ "github.com/coredns/coredns/plugin/{name}"\n', "") for name in _UNUSED
        ),
    ),
    "envoygateway": Tool(
        "github.com/envoyproxy/gateway",
        {"envoy-gateway": "github.com/envoyproxy/gateway/cmd/envoy-gateway"},
        # It reads the certificates of its working folder: /certs is a folder of its container.
        replaced=(
            *(
                (f"internal/{place}/runner/runner.go", f'"/certs/{name}"', f'"certs/{name}"')
                for place in ("xds", "gatewayapi")
                for name in ("tls.crt", "tls.key", "ca.crt")
            ),
            ("internal/provider/kubernetes/kubernetes.go", '"/certs"', '"certs"'),
        ),
    ),
}
# Programs that ours are compared with.
REFERENCES: Mapping[str, Tool] = {
    "helm": Tool("helm.sh/helm/v3", {"helm": "helm.sh/helm/v3/cmd/helm"}),
    # The reference implementation of OCI's distribution API.
    "distribution": Tool(
        "github.com/distribution/distribution/v3",
        {"registry": "github.com/distribution/distribution/v3/cmd/registry"},
    ),
}
PEERS: Mapping[str, Tool] = {
    # Alone, for who measures without a control plane.
    "kubectl": Tool(
        "k8s.io/kubernetes",
        {"kubectl": "k8s.io/kubernetes/cmd/kubectl"},
        ldflags=TOOLS["kubernetes"].ldflags,
        pinned_by="kubernetes",
    ),
}
_ALL = {**TOOLS, **NODE, **REFERENCES, **PEERS}


def folder(tool: str) -> Path:
    """Return the folder whose go.mod pins a tool."""
    return MODULES / (_ALL[tool].pinned_by or tool)


def version(tool: str) -> str:
    """Return the version of a tool's module that its go.mod pins, such as v1.36.3."""
    for line in (folder(tool) / "go.mod").read_text(encoding="utf-8").splitlines():
        words = line.removeprefix("require").split()
        if words[:1] == [_ALL[tool].module]:
            return words[1]
    raise LookupError(f"{tool}/go.mod requires no {_ALL[tool].module}")


def home(tool: str) -> Path:
    """Return the folder of the cache for exactly what is pinned and our own code; it is there once the tool is built."""
    own_code = sorted(path.name for path in folder(tool).glob("*.go"))
    pinned = b"".join((folder(tool) / name).read_bytes() for name in ("go.mod", "go.sum", *own_code))
    recipe = {field: value for field, value in asdict(_ALL[tool]).items() if value}
    key = hashlib.sha256(pinned + json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:12]
    return CACHE / f"{tool}-{version(tool)}-{key}"


def program(name: str) -> Path:
    """Return a program's path: given in ALLOT_CONTROLPLANE or KUBEBUILDER_ASSETS, or built. Raises NotBuilt."""
    for variable in GIVEN:
        preinstalled = Path(os.environ.get(variable) or os.devnull) / name
        if preinstalled.is_file():
            return preinstalled.absolute()
    tool = next(tool for tool, definition in _ALL.items() if name in definition.programs)
    built = home(tool) / name
    if built.is_file():
        return built
    raise NotBuilt(name)


def files(tool: str) -> Path:
    """Return the folder that holds a tool's files under the paths they have in its module. Raises NotBuilt."""
    files_folder = home(tool) / "files"
    if files_folder.is_dir():
        return files_folder
    raise NotBuilt(f"files of {tool}")


def missing(tools: Iterable[str] = TOOLS) -> list[str]:
    """Return the tools of which a program or a file is neither given nor built."""
    return [tool for tool in tools if not _complete(tool)]


def _complete(tool: str) -> bool:
    try:
        for name in _ALL[tool].programs:
            program(name)
        if _ALL[tool].files:
            files(tool)
    except NotBuilt:
        return False
    return True


def build(tools: Iterable[str] = TOOLS) -> None:
    """Build what is missing, one tool after the other, and say so. Raises NotBuilt when Go or a C compiler is missing."""
    wanted = missing(tools)
    for number, tool in enumerate(wanted, 1):
        definition = _ALL[tool]
        names = ", ".join(definition.programs)
        print(f"[{number}/{len(wanted)}] {tool} {version(tool)}: {names} …", flush=True)
        started = time.monotonic()
        _build(tool, definition)
        print(f"[{number}/{len(wanted)}] {tool}: {time.monotonic() - started:.0f} s", flush=True)


def _build(tool: str, definition: Tool) -> None:
    """Make a tool's programs and files. Raises NotBuilt, with what to install, before anything is fetched."""
    if shutil.which("go") is None or (definition.cgo and not (shutil.which("cc") or shutil.which("gcc"))):
        needed = next(
            line.split()[1] for line in (folder(tool) / "go.mod").read_text().splitlines() if line.startswith("go ")
        )
        raise NotBuilt(
            f"{tool}: " + NO_COMPILER.format(version=needed, cgo=" and a C compiler" if definition.cgo else "")
        )
    with create_atomically(home(tool)) as target:
        source = module_folder(definition.module, folder(tool))
        for path in definition.files:
            shutil.copytree(source / path, target / "files" / path, copy_function=shutil.copyfile)
        _make_writable(target)
        modfile = _modfile(tool, definition, target.parent)
        for name, package in definition.programs.items():
            _go_build(tool, definition, package, target / name, modfile)


@contextmanager
def create_atomically(place: Path) -> Iterator[Path]:
    """Give an empty folder, alone in its parent; once it is filled it becomes `place`. What was stopped leaves nothing."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=f".{place.name}-") as folder:
        target = Path(folder) / "made"
        target.mkdir()
        yield target
        if not place.exists():
            os.rename(target, place)


def _make_writable(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)


def _modfile(tool: str, definition: Tool, place: Path) -> list[str]:
    """Return the flags that build from copies of modules, in which the replaced texts stand. Go's own copies are read-only."""
    if not definition.replaced:
        return []
    for name in ("go.mod", "go.sum"):
        shutil.copyfile(folder(tool) / name, place / name)
    copies: dict[str, Path] = {}
    for file, old, new in definition.replaced:
        module, _, path = file.rpartition("@/")
        module = module or definition.module
        if module not in copies:
            copies[module] = place / f"source-{len(copies)}"
            shutil.copytree(module_folder(module, folder(tool)), copies[module], copy_function=shutil.copyfile)
            _make_writable(copies[module])
        text = (copies[module] / path).read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise NotBuilt(f"{module} {path} no longer holds {old} once: look at it again")
        (copies[module] / path).write_text(text.replace(old, new), encoding="utf-8")
    options = [f"-replace={module}={copy}" for module, copy in copies.items()]
    subprocess.run(["go", "mod", "edit", *options, str(place / "go.mod")], check=True)
    return ["-modfile", str(place / "go.mod")]


def _go_build(tool: str, definition: Tool, package: str, target: Path, modfile: list[str]) -> None:
    pinned = version(tool)
    major, minor, _ = pinned.removeprefix("v").split(".", 2)
    ldflags = "-s -w " + definition.ldflags.format(version=pinned, major=major, minor=minor)
    run = [
        "go",
        "build",
        "-trimpath",
        "-buildvcs=false",
        "-tags",
        definition.tags,
        "-ldflags",
        ldflags.strip(),
        *modfile,
    ]
    environment = {**os.environ, "CGO_ENABLED": "1" if definition.cgo else "0", "GOWORK": "off"}
    if definition.library:
        environment |= _linked_with(definition.library)
    done = subprocess.run([*run, "-o", str(target), package], cwd=folder(tool), env=environment, check=False)
    if done.returncode:
        raise NotBuilt(f"{tool}: `go build {package}` ended with {done.returncode}; its words are above")


def _linked_with(library: str) -> dict[str, str]:
    """Return what tells C's compiler where an unpacked library lies."""
    from tests.controlplane import debian

    root = debian.folder(library)
    return {"PKG_CONFIG_SYSROOT_DIR": str(root), "PKG_CONFIG_PATH": str(debian.library_path(library) / "pkgconfig")}


def module_folder(module: str, within: Path | None = None, checksum: str | None = None) -> Path:
    """Return where Go keeps a module's files, fetched and verified: of `module@version`, or of what `within` pins."""
    run = ["go", "mod", "download", "-json", module]
    done = subprocess.run(run, cwd=within or tempfile.gettempdir(), capture_output=True, text=True, check=False)
    module_info = json.loads(done.stdout or "{}")
    if done.returncode or "Dir" not in module_info:
        raise NotBuilt(f"{module} can't be fetched: {module_info.get('Error') or done.stderr.strip()}")
    if checksum not in (None, module_info["Sum"]):
        raise NotBuilt(f"{module} has the checksum {module_info['Sum']}, and {checksum} is pinned: don't use it")
    return Path(module_info["Dir"])


def list_versions() -> Iterator[str]:
    """Yield what is used, a line a program: its version as pinned, or the folder that it was given in."""
    for tool, definition in TOOLS.items():
        for name in definition.programs:
            path = program(name)
            yield f"{name} {version(tool)}" if path.parent == home(tool) else f"{name} given in {path.parent}"
