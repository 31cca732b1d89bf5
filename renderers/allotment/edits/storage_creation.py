"""Creates storages: those of `allot storage create`, and those that a new instance mounts."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.storage_spec import StorageSpec
from allotment.declared.layout import PLATFORM, Scope
from allotment.edits.change_set import ChangeSet
from allotment.edits.declarations import Declarations
from allotment.edits.new_declaration import build_declaration, list_option_problems
from allotment.edits.option_tables import STORAGE_OPTIONS, list_inputs
from allotment.edits.option_values import OptionParser
from allotment.problems import OperationRefused, quote_value

_SOURCE_FORMATS = (
    "https://HOST/FILE#sha256=HASH, hf:OWNER/MODEL[@REVISION]/FILE#sha256=HASH, storage:[TENANT/]NAME, snapshot:NAME,"
    " s3:https://HOST/BUCKET/PREFIX or image:IMAGE@DIGEST"
)
_HASHED = re.compile(r"(?P<url>[^#]+)#sha256=(?P<sha256>[0-9a-f]{64})")
_HUGGING_FACE = re.compile(r"hf:(?P<model>[^/@]+/[^/@]+)(?:@(?P<revision>[^/]+))?/(?P<file>.+)")
_OTHER_CHARACTERS = re.compile(r"[^a-z0-9]+")
_BUCKET = re.compile(r"s3:(?P<endpoint>https?://[^/]+)/(?P<bucket>[^/]+)(?:/(?P<prefix>.*))?")


class StorageOptions(NamedTuple):
    """The options of a new storage, as texts. An empty text stands for an absent option."""

    cluster: str = ""
    size: str = ""
    storage_spec: str = ""
    source: str = ""
    display_name: str = ""
    labels: tuple[str, ...] = ()
    bucket: bool = False


def rank_access(access: str) -> int:
    """Return the rank of a StorageSpec's access for the folders of a new instance; several instances can share rank 0."""
    return 0 if access == "ReadWriteMany" else 1


def name_folder(path: str) -> str:
    """Return the part of a folder's path that follows the instance and `-` in the proposed name of a new storage."""
    return _OTHER_CHARACTERS.sub("-", path.rpartition("/")[2].lower()).strip("-")


def create_storage(declarations: Declarations, tenant: str, name: str, options: StorageOptions) -> ChangeSet:
    """Return the change that creates a storage.

    Raises OperationRefused with a line for each problem: a wrong value, an unknown name, or a missing option.
    """
    path = declarations.create_path(GPUStorage, Scope("tenant", tenant), name)
    parser = OptionParser()
    parser.check_texts(options._asdict())
    spec = _build_spec(declarations, options, parser)
    labels = parser.parse_pairs("--label", options.labels)
    parser.raise_problems()
    data = build_declaration(path, spec, labels)
    parser.problems += list_option_problems(path, data, list_inputs(STORAGE_OPTIONS))
    parser.raise_problems()
    return ChangeSet(f"Create storage {tenant}/{name}", {path: data}, (f"GPUStorage {tenant}/{name}",))


def _build_spec(declarations: Declarations, options: StorageOptions, parser: OptionParser) -> dict[str, Any]:
    clusters = declarations.list_scopes("cluster")
    spec: dict[str, Any] = {"displayName": options.display_name} if options.display_name else {}
    if not options.cluster:
        parser.problems.append(f"add --cluster: {', '.join(clusters)}")
    elif parser.check_name("--cluster", options.cluster, clusters, "no cluster is named"):
        spec["cluster"] = options.cluster
        spec["storageSpec"] = _choose_storage_spec(declarations, options, parser)
    if not options.size:
        parser.problems.append("add --size: a size such as 50Gi")
    spec["size"] = options.size
    if options.source:
        try:
            spec["prepare"] = {"source": parse_source(options.source)}
        except OperationRefused as error:
            parser.add_refusal("--source", error)
    return spec


def _choose_storage_spec(declarations: Declarations, options: StorageOptions, parser: OptionParser) -> str:
    """Return the named StorageSpec. Default: the only StorageSpec of the cluster for buckets, or for volumes of one instance."""
    name, noun = options.storage_spec, "bucket" if options.bucket else "StorageSpec"
    specs = {
        each: declarations.find(StorageSpec, PLATFORM, each).model.spec for each in _list_offered(declarations, options)
    }
    if options.bucket:
        specs = {each: spec for each, spec in specs.items() if spec.bucket is not None}
    if name:
        parser.check_name("--storage-spec", name, specs, f"cluster {options.cluster} offers no {noun} named")
        return name
    default = [
        each for each, spec in specs.items() if spec.lifecycle == "Active" and (options.bucket or spec.is_single_node)
    ]
    if options.bucket and not specs:
        parser.problems.append(f"--bucket: cluster {options.cluster} offers no buckets: choose another cluster")
    elif len(default) != 1:
        parser.problems.append(f"add --storage-spec: {', '.join(specs) or f'cluster {options.cluster} offers none'}")
    return default[0] if len(default) == 1 else ""


def _list_offered(declarations: Declarations, options: StorageOptions) -> list[str]:
    """Return the sorted names of the StorageSpecs that the cluster offers."""
    declared = declarations.find(Cluster, Scope("cluster", options.cluster), options.cluster)
    return sorted(entry.storage_spec for entry in declared.model.spec.storages)


def parse_source(text: str) -> dict[str, Any]:
    """Return `spec.prepare.source` for a text in one of _SOURCE_FORMATS. Raises OperationRefused if it has no such format."""
    scheme, _, rest = text.partition(":")
    if scheme in ("https", "hf"):
        return {"url": _parse_url(text)}
    if scheme == "storage" and rest:
        tenant, slash, name = rest.rpartition("/")
        return {"storage": {"name": name, **({"tenant": tenant} if slash else {})}}
    if scheme == "snapshot" and rest:
        return {"snapshot": {"name": rest}}
    if scheme == "image" and rest:
        return {"image": {"image": rest}}
    if match := _BUCKET.fullmatch(text):
        prefix = {"prefix": match["prefix"]} if match["prefix"] else {}
        return {"s3": {"endpoint": match["endpoint"], "bucket": match["bucket"], **prefix}}
    raise OperationRefused(f"{quote_value(text)} is not a source: write {_SOURCE_FORMATS}")


def _parse_url(text: str) -> dict[str, str]:
    match = _HASHED.fullmatch(text)
    if match is None:
        where = (
            "the page of the file at Hugging Face shows it" if text.startswith("hf:") else "`sha256sum FILE` prints it"
        )
        raise OperationRefused(
            f"{quote_value(text)} has no hash: add #sha256= and the 64 digits of the file's SHA-256 hash; {where}"
        )
    url = match["url"]
    if text.startswith("hf:"):
        model = _HUGGING_FACE.fullmatch(url)
        if model is None:
            raise OperationRefused(f"{quote_value(url)} is not in the format hf:OWNER/MODEL[@REVISION]/FILE")
        url = f"https://huggingface.co/{model['model']}/resolve/{model['revision'] or 'main'}/{model['file']}"
    return {"url": url, "sha256": match["sha256"]}
