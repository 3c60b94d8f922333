"""CRC32C in hardware: the function of the package `crc32c`, without the package around it.

Owns: how the extension is found. The package's own `__init__` asks `importlib.metadata` for its
version, and thereby brings mail parsers and archives into every server: a tenth of all that a
broker or a DataNode imports before it answers. The extension alone costs nothing.
"""

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING

__all__ = ["crc32c"]

if TYPE_CHECKING:
    from crc32c import crc32c
else:
    _PACKAGE = find_spec("crc32c")
    assert _PACKAGE is not None, "the package crc32c is a requirement"
    _SPEC = PathFinder.find_spec("_crc32c", _PACKAGE.submodule_search_locations)
    assert _SPEC is not None, "the package crc32c has lost its extension"
    _EXTENSION = module_from_spec(_SPEC)
    _SPEC.loader.exec_module(_EXTENSION)
    crc32c = _EXTENSION.crc32c
