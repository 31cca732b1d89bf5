"""`allot secret`: lists and shows places of values, and declares a secret of a cluster with a secret store."""

from __future__ import annotations

import pytest
import yaml
from tests.conftest import Allot, checked
from tests.support.published import Place
from tests.support.secret_store import declare_source_secret

PLACE = "tenants/ml-orbit/huggingface"


def test_the_list_has_keys_and_no_value(place: Place, allot: Allot) -> None:
    result = allot("secret", "list", "--repo", place.root, "-o", "wide")
    assert [line.split() for line in result.out.splitlines()] == [
        ["SECRET", "CLUSTER", "TYPE", "KEYS", "USED", "BY", "STORE", "LABELS", "PLACES"],
        ["ml-orbit/huggingface", "eu-1", "Values", "token", "-", "vault", "-", f"{PLACE}#token"],
    ]
    assert result.err.startswith("declared: ")
    assert allot("secret", "list", "--repo", place.root, "-o", "name").out == "ml-orbit/huggingface\n"
    empty = allot("secret", "list", "--repo", place.root, "--tenant", "solo-ada", "-q")
    assert (empty.code, empty.out, empty.err) == (0, "", "nothing matches\n")


def test_the_list_names_the_storage_whose_source_reads_a_secret(place: Place, allot: Allot) -> None:
    declare_source_secret(place.root)
    place.merge()
    listed = checked("secret list", allot("secret", "list", "uni-lab", "--repo", place.root, "-o", "json").out)
    assert [secret["usedBy"] for secret in listed["secrets"]] == [["storage/papers"]]


def test_show_has_the_row_of_the_list(place: Place, allot: Allot) -> None:
    shown = checked(
        "secret show", allot("secret", "show", "ml-orbit/huggingface", "--repo", place.root, "-o", "json").out
    )
    listed = checked("secret list", allot("secret", "list", "--repo", place.root, "-o", "json").out)
    assert listed["secrets"] == [shown["secret"]]
    assert shown["secret"]["keys"] == [{"name": "token", "path": PLACE, "property": "token"}]
    text = allot("secret", "show", "ml-orbit/huggingface", "--repo", place.root)
    assert f"Key token:    {PLACE}#token\n" in text.out
    as_yaml = allot("secret", "show", "ml-orbit/huggingface", "--repo", place.root, "-o", "yaml")
    assert yaml.safe_load(as_yaml.out) == shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("show", "ml-orbit/token"),
            "allot: ml-orbit has no secret named 'token'; known: huggingface; `allot secret create ",
        ),
        (
            ("show", "solo-ada/token"),
            "allot: solo-ada has no secret named 'token'; `allot secret create solo-ada/NAME`",
        ),
        (("show", "token"), "Error: token is not in the format TENANT/NAME, such as ml-orbit/huggingface"),
        (("list", "solo-ad"), "allot: no tenant is named 'solo-ad'; did you mean 'solo-ada'?"),
    ],
)
def test_a_wrong_name_is_an_error(words: tuple[str, ...], message: str, place: Place, allot: Allot) -> None:
    result = allot("secret", *words, "--repo", place.root)
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1].startswith(message)


def test_create_writes_the_file_and_names_the_place(place: Place, allot: Allot) -> None:
    result = allot("secret", "create", "solo-ada/keys", "--cluster", "eu-1", "--key", "token", "--repo", place.root)
    assert result.code == 0, result
    assert (place.root / "tenants/solo-ada/secrets/keys.yaml").is_file()
    assert "`vault kv put -mount=secret tenants/solo-ada/keys token=-`" in result.out + result.err


def test_a_cluster_without_a_store_is_refused(place: Place, allot: Allot) -> None:
    result = allot("secret", "create", "solo-ada/keys", "--cluster", "us-1", "--key", "token", "--repo", place.root)
    assert result.code == 2
    assert "cluster us-1 has no secret store: the platform team declares spec.secretStore" in result.err
    assert not (place.root / "tenants/solo-ada/secrets").exists()
