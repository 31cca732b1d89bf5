"""Creates instances, and the storages that they mount: the edit of `allot instance create`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from allotment.declared.kinds.app import App
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.secret_reference import SecretReference
from allotment.declared.layout import PLATFORM, Scope
from allotment.declared.version_order import build_version_key
from allotment.edits.change_set import ChangeSet
from allotment.edits.declarations import Declarations
from allotment.edits.new_declaration import build_declaration, list_option_problems
from allotment.edits.option_tables import INSTANCE_OPTIONS, list_inputs
from allotment.edits.option_values import MountText, OptionParser
from allotment.edits.storage_creation import StorageOptions, create_storage
from allotment.problems import OperationRefused, quote_value

# Returns the names of the GPUSpecs that a tenant can use in a cluster; in any cluster if the cluster is empty.
ListGPUSpecs = Callable[[str, str], list[str]]
EXPOSURES, ACCESSES = ("Namespace", "Members", "Public"), ("SSH",)
_MAX_REPLICAS = 100


class InstanceOptions(NamedTuple):
    """The options of a new instance, as texts. An empty text stands for an absent option."""

    cluster: str = ""
    gpu_spec: str = ""
    app: str = ""
    image: str = ""
    ports: tuple[str, ...] = ()
    exposure: str = ""
    storages: tuple[str, ...] = ()
    new_storages: tuple[str, ...] = ()
    storage_spec: str = ""
    source: str = ""
    env: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    replicas: str = ""
    labels: tuple[str, ...] = ()
    display_name: str = ""
    access: tuple[str, ...] = ()
    stopped: bool = False


class NewInstance(NamedTuple):
    """A new instance, with its options."""

    tenant: str
    name: str
    options: InstanceOptions


def create_instance(declarations: Declarations, new: NewInstance, list_gpu_specs: ListGPUSpecs) -> ChangeSet:
    """Return the change that creates an instance and its new storages.

    Raises OperationRefused with a line for each problem: a wrong value, an unknown name, or a missing option.
    """
    path = declarations.create_path(GPUInstance, Scope("tenant", new.tenant), new.name)
    builder = _InstanceBuilder(declarations, new, list_gpu_specs)
    spec = builder.build_spec()
    labels = builder.parser.parse_pairs("--label", new.options.labels)
    builder.parser.raise_problems()
    data = build_declaration(path, spec, labels)
    builder.parser.problems += list_option_problems(path, data, list_inputs(INSTANCE_OPTIONS))
    builder.parser.raise_problems()
    instance = f"{new.tenant}/{new.name}"
    files: dict[str, bytes | None] = {path: data}
    resources = [f"GPUInstance {instance}"]
    for storage in builder.new_storages:
        files |= storage.files
        resources += storage.resources
    return ChangeSet(f"Create instance {instance}", files, tuple(sorted(resources)))


class _InstanceBuilder:
    """Builds the spec of an instance. `parser.problems` has the problems of its options."""

    def __init__(self, declarations: Declarations, new: NewInstance, list_gpu_specs: ListGPUSpecs) -> None:
        self._declarations, self._new, self._options = declarations, new, new.options
        self._list_gpu_specs = list_gpu_specs
        self.parser = OptionParser()
        self.parser.check_texts(new.options._asdict())
        self.new_storages: list[ChangeSet] = []

    def build_spec(self) -> dict[str, Any]:
        """Return the spec, without the values that have a problem."""
        options = self._options
        spec: dict[str, Any] = {"displayName": options.display_name} if options.display_name else {}
        if options.stopped:
            spec["state"] = "Stopped"
        self._check_place()
        spec |= {"cluster": options.cluster, "gpuSpec": options.gpu_spec} | self._build_program()
        if options.replicas:
            replicas = self.parser.parse_count("--replicas", options.replicas, _MAX_REPLICAS)
            spec |= {"replicas": replicas} if replicas > 1 else {}
        if options.access:
            spec["access"] = [self.parser.choose("--access", text, ACCESSES) for text in options.access]
        if mounts := self._build_mounts():
            spec["storages"] = mounts
        return spec

    def _check_place(self) -> None:
        cluster, gpu_spec = self._options.cluster, self._options.gpu_spec
        clusters = self._declarations.list_scopes("cluster")
        is_known = False
        if not cluster:
            self.parser.problems.append(f"add --cluster: {', '.join(clusters)}")
        else:
            is_known = self.parser.check_name("--cluster", cluster, clusters, "no cluster is named")
        where = f" in {cluster}" if is_known else ""
        if not gpu_spec or gpu_spec not in self._declarations.list_names(GPUSpec):
            names = self._list_gpu_specs(self._new.tenant, cluster if is_known else "")
            listed = (
                f"{self._new.tenant} can use{where} {', '.join(names) or 'none: `allot catalog --tenant` says why'}"
            )
            problem = f"--gpu-spec: no GPUSpec is named {quote_value(gpu_spec)}" if gpu_spec else "add --gpu-spec"
            self.parser.problems.append(f"{problem}: {listed}")

    def _build_program(self) -> dict[str, Any]:
        options = self._options
        env = self.parser.parse_pairs("--env", options.env)
        variables = [{"name": key, "value": env[key]} for key in env] + self._build_secret_variables()
        container: dict[str, Any] = {"env": variables} if variables else {}
        if bool(options.app) == bool(options.image):
            apps = ", ".join(self._declarations.list_names(App)) or "none is declared"
            message = "--app and --image exclude each other: omit one of them" if options.app else f"add --app: {apps}"
            self.parser.problems.append(message if options.app else f"{message}; or --image IMAGE@DIGEST")
            return {}
        if options.app:
            for option, value in (("--port", options.ports), ("--exposure", options.exposure)):
                if value:
                    self.parser.problems.append(f"{option}: the app declares its ports: omit {option}, or use --image")
            return {"app": self._choose_version(), **({"container": container} if container else {})}
        container["image"] = options.image
        exposure = self.parser.choose("--exposure", options.exposure, EXPOSURES) if options.exposure else ""
        if ports := [self.parser.parse_port(text, exposure) for text in options.ports]:
            container["ports"] = ports
        elif exposure:
            self.parser.problems.append("--exposure: no port is open: add --port, such as --port http:8080")
        return {"container": container}

    def _build_secret_variables(self) -> list[dict[str, Any]]:
        """Return the variables that `--secret VARIABLE=SECRET:KEY` reads from the secrets of the tenant."""
        scope = Scope("tenant", self._new.tenant)
        names = self._declarations.list_names(SecretReference, scope)
        variables = []
        for variable, text in self.parser.parse_pairs("--secret", self._options.secrets, "VARIABLE=SECRET:KEY").items():
            name, _, key = text.partition(":")
            if self.parser.check_name("--secret", name, names, f"{scope.name} has no SecretReference named"):
                keys = [each.name for each in self._declarations.find(SecretReference, scope, name).model.spec.keys]
                self.parser.check_name("--secret", key, keys, f"SecretReference {name} has no key")
            variables.append({"name": variable, "valueFrom": {"secretKeyRef": {"name": name, "key": key}}})
        return variables

    def _choose_version(self) -> dict[str, str]:
        """Return the app and the version that `--app NAME[:VERSION]` names; by default the newest Active version."""
        name, _, version = self._options.app.partition(":")
        if not (apps := self._declarations.list_names(App)):
            self.parser.problems.append("--app: no App is declared: `allot app add` declares an app")
            return {}
        if not self.parser.check_name("--app", name, apps, "no App is named"):
            return {}
        versions = self._declarations.find(App, PLATFORM, name).model.spec.versions
        active = [each.version for each in versions if each.lifecycle == "Active"]
        if version:
            names = [each.version for each in versions]
            self.parser.check_name("--app", version, names, f"App {name} has no version")
        elif not active:
            self.parser.problems.append(f"--app: no version of App {name} is Active: write {name}:VERSION")
        return {"name": name, "version": version or max(active, key=build_version_key, default="")}

    def _build_mounts(self) -> list[dict[str, Any]]:
        options, owner = self._options, self._new.tenant
        existing = [self.parser.parse_mount(text) for text in options.storages]
        created = [self.parser.parse_new_storage(text) for text in options.new_storages]
        names = self._declarations.list_names(GPUStorage, Scope("tenant", owner))
        new_names = [mount.name for mount in created if mount]
        for mount in existing:
            if mount and mount.name not in new_names:
                self.parser.check_name("--storage", mount.name, names, f"{owner} has no GPUStorage named")
        for option, value in (("--storage-spec", options.storage_spec), ("--source", options.source)):
            if value and not options.new_storages:
                self.parser.problems.append(f"{option}: no storage is created: add --new-storage NAME:SIZE:/PATH")
        if options.source and len(options.new_storages) > 1:
            self.parser.problems.append(
                "--source: it fills one new storage: create the others by `allot storage create`"
            )
        for mount in created:
            self._create_storage(mount)
        return [mount.build_mount() for mount in (*existing, *created) if mount]

    def _create_storage(self, mount: MountText | None) -> None:
        if mount is None or not self._options.cluster:
            return
        options = StorageOptions(self._options.cluster, mount.size, self._options.storage_spec, self._options.source)
        try:
            self.new_storages.append(create_storage(self._declarations, self._new.tenant, mount.name, options))
        except OperationRefused as error:
            for line in str(error).splitlines():
                is_prefixed = line.startswith(("--", "add --"))
                text = line.replace("--size:", "--new-storage:") if is_prefixed else f"--new-storage: {line}"
                self.parser.problems.append(text)
