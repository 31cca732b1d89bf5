"""`secret_creation` writes a SecretReference, names the place of each value, and takes no value itself."""

from __future__ import annotations

import re

import pytest
from tests.conftest import PROJECT

from allotment.adapters.folder_source import FolderSource
from allotment.edits.secret_creation import SecretOptions, create_secret
from allotment.problems import OperationRefused
from allotment.services.changes.declared_files import open_declarations

DECLARED = open_declarations(FolderSource(PROJECT))
HEAD = """\
# yaml-language-server: $schema=../../../schemas/SecretReference.schema.json
apiVersion: allotment.dev/v1alpha1
kind: SecretReference
metadata:
  name: keys
"""
PUT = "vault kv put -mount=secret tenants/solo-ada"


def test_a_key_is_a_field_of_the_secret_with_the_same_name() -> None:
    change = create_secret(DECLARED, "solo-ada", "keys", SecretOptions("eu-1", ("token",)))
    spec = "spec:\n  cluster: eu-1\n  keys:\n    - name: token\n      path: keys\n      property: token\n"
    assert change.files == {"tenants/solo-ada/secrets/keys.yaml": (HEAD + spec).encode()}
    assert (change.title, change.resources) == ("Create secret solo-ada/keys", ("SecretReference solo-ada/keys",))
    assert f"`{PUT}/keys token=-` reads it from standard input." in change.notes[0]
    assert "'container.env+={name: VARIABLE, valueFrom: {secretKeyRef: {name: keys, key: token}}}'" in change.notes[1]


def test_every_place_gets_one_command() -> None:
    options = SecretOptions(
        "eu-1", ("ID=s3#id", "KEY=s3#key", "OTHER=more/other"), False, "5m", "Keys", ("team=design",)
    )
    change = create_secret(DECLARED, "solo-ada", "keys", options)
    (data,) = change.files.values()
    assert data is not None
    assert data.decode().endswith(
        "  labels:\n    team: design\nspec:\n  displayName: Keys\n  cluster: eu-1\n  keys:\n    - name: ID\n      path: s3\n"
        "      property: id\n    - name: KEY\n      path: s3\n      property: key\n    - name: OTHER\n      path: more/other\n"
        "  refreshInterval: 5m\n"
    )
    assert re.findall(r"`(vault [^`]*)` reads it from (.*)\.$", "\n".join(change.notes), re.MULTILINE) == [
        (f"{PUT}/s3 @FILE.json", "a file with a JSON object with id, key"),
        (f"{PUT}/more/other @FILE.json", "a file with a JSON object with the value"),
    ]


def test_a_pull_credential_has_the_only_key() -> None:
    change = create_secret(DECLARED, "solo-ada", "keys", SecretOptions("eu-1", image_pull=True))
    (data,) = change.files.values()
    assert data is not None
    spec = '  type: ImagePull\n  keys:\n    - name: ".dockerconfigjson"\n      path: keys\n'
    assert data.decode() == f"{HEAD}spec:\n  cluster: eu-1\n{spec}"
    (note,) = change.notes
    assert "a file with a Docker config JSON" in note


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            SecretOptions(),
            "add --key: a name of your choice such as token; its value stays in the secret store\nadd --cluster: eu-1, us-1",
        ),
        (SecretOptions("eu-2", ("token",)), "--cluster: no cluster is named 'eu-2'; did you mean 'eu-1'?"),
        (SecretOptions("eu-1", ("a=b=c",)), "--key: 'a=b=c' is not in the format NAME[=PATH[#FIELD]]"),
        (SecretOptions("eu-1", ("token=../x",)), "--key: '../x' is not allowed here: write 1 to 5 segments"),
        (SecretOptions("eu-1", ("token",), False, "5s"), "--refresh-interval: 5s is out of range"),
        (SecretOptions("eu-1", ("token",), True), "spec: type ImagePull has the keys token"),
    ],
)
def test_every_problem_names_its_option(options: SecretOptions, message: str) -> None:
    with pytest.raises(OperationRefused, match=re.escape(message)):
        create_secret(DECLARED, "solo-ada", "keys", options)


@pytest.mark.parametrize("value", ["0a" * 10, "aB3" * 7])
def test_a_value_in_place_of_a_name_is_refused_and_not_repeated(value: str) -> None:
    with pytest.raises(OperationRefused, match="--key: this looks like a value") as error:
        create_secret(DECLARED, "solo-ada", "keys", SecretOptions("eu-1", (value,)))
    assert value not in str(error.value)
    create_secret(DECLARED, "solo-ada", "keys", SecretOptions("eu-1", ("AWS_SECRET_ACCESS_KEY_2",)))


def test_a_value_in_place_of_a_path_is_refused_and_not_repeated() -> None:
    value = "hf_" + "a1" * 15
    with pytest.raises(OperationRefused, match="looks like the value of a secret") as error:
        create_secret(DECLARED, "solo-ada", "keys", SecretOptions("eu-1", (f"token={value}",)))
    assert value not in str(error.value)
