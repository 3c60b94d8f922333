"""CRC-32C by the processor's own instruction, from the package `crc32c`.

Owns: how it is loaded: its extension alone. The package itself asks the list of installed packages
for its version when it is imported, a tenth of what a DataNode's start takes.
"""

from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from importlib.util import find_spec, module_from_spec
from typing import cast

Crc32c = Callable[..., int]
"""crc32c(data, value=0, gil_release_mode=-1)"""


def _load() -> Crc32c:
    package = find_spec("crc32c")
    for folder in (package and package.submodule_search_locations) or ():
        finder = FileFinder(folder, (ExtensionFileLoader, EXTENSION_SUFFIXES))
        spec = finder.find_spec("_crc32c")
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return cast(Crc32c, module.crc32c)
    from crc32c import crc32c as packaged  # another layout: as everybody does it

    return cast(Crc32c, packaged)


crc32c = _load()
