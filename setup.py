"""What pyproject.toml can't say: with HEADRACE_COMPILE=1 the modules it lists become extensions.

    pip install mypy setuptools
    HEADRACE_COMPILE=1 pip install --no-build-isolation .    # needs a C compiler, Python's headers

`make setup` does the same for the tree (`tools/compile_modules.py`), where edits have to count.
"""

import os
import sys
import tomllib
from pathlib import Path
from typing import Any

from setuptools import Extension, setup


def extensions() -> list[Any]:
    if os.environ.get("HEADRACE_COMPILE") != "1":
        return []
    if "editable_wheel" in sys.argv:
        raise SystemExit("an editable install is of sources; make setup compiles beside them")
    from mypyc.build import mypycify

    listed = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["headrace"]
    in_c = [
        Extension(path.removeprefix("src/").removesuffix(".c").replace("/", "."), [path])
        for path in listed["extensions"]
    ]
    of_python = mypycify(
        ["--config-file", "pyproject.toml", *listed["compiled"]],
        opt_level="1",
        debug_level="0",
        group_name="headrace",
        target_dir=".build/mypyc",
    )
    for extension in of_python:
        # Calls among our own go straight, and calls of Python's through one table, not two: a call
        # that comes after a wait finds nothing in the caches, and a fifteenth less has to be there.
        extension.extra_compile_args += ["-fvisibility=hidden", "-fno-plt"]
    return in_c + of_python


setup(ext_modules=extensions())
