"""Modules that were compiled: whether they are taken instead of their sources.

`make setup` compiles the modules that pyproject.toml lists into `_compiled` beside the rooms, those
of Python (`tool.headrace.compiled`) by mypyc, those of C (`extensions`) as they are, each build in
a folder of its own, and writes a list there: what their sources, and all that these import, looked
like then.

Owns: that list and what follows from it, all or nothing: as soon as one file of it has changed the
sources are read, so that an edit takes effect at once and no half of the code is old.
`HEADRACE_INTERPRETED=1` has the sources read in any case. An installed wheel has its compiled
modules in their usual places and no list.

    list   | .cpython-311-x86_64-linux-gnu.so 3f8a…    | how their files end, and in which folder
           | headrace.wire.hadoop.rpc_frames c 9120 17…  | name, c: compiled, size, modified, ns
           | headrace.runtime.core_keeper x 5020 17…     | x: written in C, gone without this list
           | headrace.base.errors - 2410 17…             | -: only imported by one of them
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType

GROUP = "headrace__mypyc"
"""The module that holds the code of all the others."""
FOLDER = "_compiled"
LIST = "list"
OPT_OUT = "HEADRACE_INTERPRETED"


def look_of(path: str) -> str:
    """What tells whether a file is still the one that was compiled."""
    status = os.stat(path)
    return f"{status.st_size} {status.st_mtime_ns}"


def compiled_modules(package: str) -> dict[str, str]:
    """The files of the modules that may be taken, by name; none if a source has changed."""
    root = os.path.dirname(package)
    try:
        with open(f"{package}/{FOLDER}/{LIST}") as file:
            head, *lines = file.read().splitlines()
        suffix, build = head.split()
        folder = f"{package}/{FOLDER}/{build}"
        if suffix != EXTENSION_SUFFIXES[0] or not os.path.isfile(f"{folder}/{GROUP}{suffix}"):
            return {}
        found = {GROUP: f"{folder}/{GROUP}{suffix}"}
        for line in lines:
            name, kind, look = line.split(" ", 2)
            path = name.replace(".", "/")
            source = f"{path}.c" if kind == "x" else f"{path}.py"
            if look_of(f"{root}/{source}") != look:
                return {}
            if kind != "-":
                found[name] = f"{folder}/{path}{suffix}"
    except (OSError, ValueError, IndexError):
        return {}
    return found


class CompiledFinder:
    """Asked by every import before the usual finders."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        path = self.files.get(name)
        if path is None:
            return None
        return spec_from_file_location(name, path, loader=ExtensionFileLoader(name, path))


def take_compiled_modules(package: str) -> None:
    if os.environ.get(OPT_OUT, "0") in ("", "0"):
        files = compiled_modules(package)
        if files:
            sys.meta_path.insert(0, CompiledFinder(files))


GAUGE = ("compiled", "1 if this process runs compiled modules.")
"""Name and meaning of the metric that tells."""


def is_compiled() -> bool:
    """Whether this process runs compiled modules, of the tree or of a wheel."""
    return GROUP in sys.modules
