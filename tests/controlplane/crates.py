"""The programs that storages speak to, built from pinned Rust crates into the same cache as the control plane's."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.controlplane import programs
from tests.controlplane.programs import GIVEN, NotBuilt, create_atomically


class Crate(NamedTuple):
    """A crate whose program has its name: the version, and the features that the program needs."""

    version: str
    features: tuple[str, ...] = ()


CRATES: Mapping[str, Crate] = {
    "dufs": Crate("0.46.0"),  # shows a storage's files
    "s3s-fs": Crate("0.14.1", ("binary",)),  # an S3 server of a folder, which checks signatures
}


def home(name: str) -> Path:
    """Return the folder of the cache for exactly what is pinned; it is there once the crate is built."""
    crate = CRATES[name]
    return programs.CACHE / f"{name}-{crate.version}-{hashlib.sha256(repr(crate).encode()).hexdigest()[:12]}"


def program(name: str) -> Path:
    """Return a program's path: given in ALLOT_CONTROLPLANE or KUBEBUILDER_ASSETS, or built. Raises NotBuilt."""
    for variable in GIVEN:
        preinstalled = Path(os.environ.get(variable) or os.devnull) / name
        if preinstalled.is_file():
            return preinstalled.absolute()
    built = home(name) / name
    if built.is_file():
        return built
    raise NotBuilt(name)


def missing() -> list[str]:
    """Return the crates whose program is neither given nor built."""
    names = []
    for name in CRATES:
        try:
            program(name)
        except NotBuilt:
            names.append(name)
    return names


def build() -> None:
    """Build what is missing, with the libraries that each crate's own lock names. Raises NotBuilt where that can't be."""
    for name in missing():
        cargo = shutil.which("cargo") or shutil.which("cargo", path=str(Path.home() / ".cargo" / "bin"))
        if cargo is None:
            raise NotBuilt(
                f"{name}: Rust is needed to build it: install Rust 1.92 or later, or point ALLOT_CONTROLPLANE at a folder that has it"
            )
        crate, started = CRATES[name], time.monotonic()
        print(f"{name} {crate.version} …", flush=True)
        with create_atomically(home(name)) as target:
            run = [cargo, "install", name, "--version", crate.version, "--locked", "--quiet"]
            run += ["--features", ",".join(crate.features)] if crate.features else []
            within = [f"--root={target.parent}", f"--target-dir={target.parent / 'target'}"]
            done = subprocess.run([*run, *within], check=False)
            if done.returncode:
                raise NotBuilt(f"{name}: `{' '.join(run)}` ended with {done.returncode}; its words are above")
            shutil.move(target.parent / "bin" / name, target / name)
        print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)
