"""Compiles the modules that pyproject.toml lists, for this tree.

    python tools/compile_modules.py [--list]     --list: only print the paths of those of Python

Does nothing when they are compiled from what the sources say now. Without a C compiler or Python's
headers it says so and leaves the sources to the interpreter; so it does when compiling fails. With
CI=true both are errors. What is made lies in `src/headrace/_compiled`; `headrace.base.compiled`
tells when it is used.
"""

import ast
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import version
from pathlib import Path

os.environ["HEADRACE_INTERPRETED"] = "1"  # what is about to be replaced is not to be loaded

from headrace.base import compiled

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"
FOLDER = SOURCES / "headrace" / compiled.FOLDER
BUILD = ROOT / ".build" / "mypyc"
LOG = BUILD / "log"


def path_of(module: str) -> Path:
    """Its source; of one written in C that."""
    path = SOURCES / module.replace(".", "/")
    in_c = path.with_suffix(".c")
    return in_c if in_c.is_file() else path.with_suffix(".py")


def listed_modules(kind: str) -> list[str]:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["headrace"][kind]
    return [".".join(Path(path).relative_to("src").with_suffix("").parts) for path in listed]


def imports_of(module: str) -> Iterator[str]:
    """What this one names, modules or not: types and constants of modules are in its code."""
    path = path_of(module)
    if path.suffix != ".py":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def watched_modules(listed: list[str]) -> list[str]:
    """All whose change makes what is compiled old: the listed ones, what they import, and so on."""
    watched: set[str] = set()
    waiting = list(listed)
    while waiting:
        name = waiting.pop()
        if name not in watched and name.startswith("headrace.") and path_of(name).is_file():
            watched.add(name)
            waiting += imports_of(name)
    return sorted(watched)


def digest_of(watched: list[str], listed: list[str]) -> str:
    """Of all that a build is made of; it is also what the build is called."""
    digest = hashlib.sha256()
    for word in (sys.version, version("mypy"), EXTENSION_SUFFIXES[0], *listed):
        digest.update(word.encode() + b"\0")
    for path in (ROOT / "setup.py", *map(path_of, watched)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def missing_tool() -> str:
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"a C compiler ({compiler})"
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        return "Python's headers (Debian: python3-dev)"
    return ""


def compile_them(folder: Path) -> bool:
    command = [sys.executable, "setup.py", "--quiet", "build_ext"]
    command += ["--build-lib", str(folder), "--build-temp", str(BUILD / "objects")]
    environment = {**os.environ, "HEADRACE_COMPILE": "1"}
    with LOG.open("w") as log:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False
        )
    return done.returncode == 0


def write_list(build: str, watched: list[str], listed: list[str], looks: dict[str, str]) -> None:
    lines = [f"{EXTENSION_SUFFIXES[0]} {build}"]
    kinds = {".py": "c", ".c": "x"}
    for name in watched:
        kind = kinds[path_of(name).suffix] if name in listed else "-"
        lines.append(f"{name} {kind} {looks[name]}")
    text = "\n".join(lines) + "\n"
    path = FOLDER / compiled.LIST
    if not path.exists() or path.read_text() != text:
        draft = FOLDER / "draft"
        draft.write_text(text)
        draft.rename(path)


def listed_build() -> str:
    """The folder that the list names."""
    try:
        return (FOLDER / compiled.LIST).read_text().split(None, 2)[1]
    except (OSError, IndexError):
        return ""


def forget_builds(*kept: str) -> None:
    """Those that nobody may be about to load."""
    for folder in FOLDER.iterdir():
        if folder.is_dir() and folder.name not in kept:
            shutil.rmtree(folder)


def look_and_compile(listed: list[str]) -> int:
    watched = watched_modules(listed)
    # Looked at before they are read: an edit meanwhile makes them look changed, not compiled.
    looks = {name: compiled.look_of(str(path_of(name))) for name in watched}
    build = digest_of(watched, listed)
    before = listed_build()
    if before == build:
        write_list(build, watched, listed, looks)
        return 0
    tool = missing_tool()
    if tool:
        print(f"setup: {tool} is missing: all code is interpreted, at up to twice the CPU")
        return int(os.environ.get("CI") == "true")
    print(f"setup: compiling {len(listed)} modules, about two minutes", flush=True)
    began_s = time.monotonic()
    forget_builds(before)
    if not compile_them(FOLDER / build):
        last = "".join(LOG.read_text().splitlines(keepends=True)[-20:])
        print(f"{last}setup: compiling failed ({LOG.relative_to(ROOT)}): the code is interpreted")
        return int(os.environ.get("CI") == "true")
    if digest_of(watched, listed) != build:
        print("setup: sources have changed meanwhile: the next `make setup` compiles them")
        return 0
    write_list(build, watched, listed, looks)
    print(f"setup: compiled in {time.monotonic() - began_s:.0f} s")
    return 0


def main() -> int:
    listed = listed_modules("compiled")
    if "--list" in sys.argv[1:]:
        print(*(path_of(name).relative_to(ROOT) for name in listed))
        return 0
    for folder in (BUILD, FOLDER):
        folder.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one `make` at a time; it goes with the process
        return look_and_compile(listed + listed_modules("extensions"))


if __name__ == "__main__":
    raise SystemExit(main())
