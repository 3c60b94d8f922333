"""What pyproject.toml can't say: with HEADRACE_COMPILE=1 the modules it lists become C extensions.

    HEADRACE_COMPILE=1 pip install .    # needs a C compiler, Python's headers and mypy

`make setup` does the same for the tree (`tools/compile_modules.py`).
"""

import os
import tomllib
from pathlib import Path
from typing import Any

from setuptools import setup


def extensions() -> list[Any]:
    if os.environ.get("HEADRACE_COMPILE") != "1":
        return []
    from mypyc.build import mypycify

    listed = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["headrace"]["compiled"]
    return mypycify(
        ["--config-file", "pyproject.toml", *listed],
        opt_level="1",
        debug_level="0",
        group_name="headrace",
        target_dir=os.environ.get("HEADRACE_COMPILE_DIR", ".build/mypyc"),
    )


setup(ext_modules=extensions())
