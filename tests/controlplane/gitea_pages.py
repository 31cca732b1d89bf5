"""The scripts and styles of Gitea's pages, without which its editor doesn't work. Gitea's Go module has only their source.

The module's own pnpm-lock.yaml pins the packages, each by its hash. Playwright brings the Node.js that builds them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from tests.controlplane import programs
from tests.controlplane.programs import NotBuilt, create_atomically

PNPM = "pnpm@10.33.0"  # as `packageManager` of the module's package.json says
LEFT_OUT = shutil.ignore_patterns(".git", "models", "services", "tests")


def home() -> Path:
    """Return the folder of the cache for the pinned Gitea; it is there once its pages are built."""
    return programs.CACHE / programs.home("gitea").name.replace("gitea-", "gitea-pages-", 1)


def static_folder() -> Path:
    """Return the folder that Gitea serves: with scripts if they are built. Raises NotBuilt."""
    return home() if home().is_dir() else programs.files("gitea")


def missing() -> list[str]:
    """Return what isn't built."""
    return [] if home().is_dir() else ["Gitea's pages"]


def why_not() -> str | None:
    """Return why the pages can't be built here; None if they can, or are built already."""
    return "npm is needed: install npm" if missing() and shutil.which("npx") is None else None


def build() -> None:
    """Build the scripts and styles if they are missing. Raises NotBuilt where that fails."""
    if not missing():
        return
    if why := why_not():
        raise NotBuilt(f"Gitea's pages: {why}")
    started = time.monotonic()
    with create_atomically(home()) as target:
        source = target.parent / "source"
        shutil.copytree(
            programs.module_folder("code.gitea.io/gitea", programs.folder("gitea")),
            source,
            copy_function=shutil.copyfile,
            ignore=LEFT_OUT,
        )
        for folder in (source, *(path for path in source.rglob("*") if path.is_dir())):
            folder.chmod(0o755)
        environment = _create_environment(target.parent)
        _run(["npx", "--yes", PNPM, "install", "--prod", "--frozen-lockfile", "--ignore-scripts"], source, environment)
        _run(["node", "node_modules/vite/bin/vite.js", "build", "--logLevel=warn"], source, environment)
        for name in ("options", "templates", "public"):
            shutil.move(source / name, target / name)
    print(f"Gitea's pages: {time.monotonic() - started:.0f} s", flush=True)


def _create_environment(folder: Path) -> dict[str, str]:
    """Return the environment of the build, with Playwright's Node.js first and the store of packages below a folder."""
    from playwright._impl._driver import compute_driver_executable

    node = Path(compute_driver_executable()[0]).parent
    path = f"{node}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "ENABLE_SOURCEMAP": "false", "npm_config_store_dir": str(folder / "store")}


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotBuilt(f"`{' '.join(command)}` ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
