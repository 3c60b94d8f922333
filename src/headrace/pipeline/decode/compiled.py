"""Where compiled kernels are kept, and who compiles them.

Owns: the cache folder and the lock around the first compilation. Must not know: the kernels.
numba keeps machine code beside the source where it may write; an installed package is often
read-only and every Spark worker is a fresh process, so ours go into one folder for the user:

    NUMBA_CACHE_DIR                  if it is set, as for any other numba code
    HEADRACE_CACHE_DIR/numba         else, if that is set
    XDG_CACHE_HOME/headrace/numba    else (~/.cache by default)
    a folder of the user's in the system's temporary folder, where none of those can be written

One process compiles and the others wait for it and load, because each has the file lock while it
has the kernels made.
"""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LOCK_NAME = "compile.lock"


def cache_folder() -> Path:
    """The folder, made if it was not there."""
    for candidate in _candidates():
        try:
            candidate.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError:
            continue
        if os.access(candidate, os.W_OK | os.X_OK):
            return candidate
    return Path(tempfile.mkdtemp(prefix="headrace-numba-"))


def _candidates() -> Iterator[Path]:
    for name, tail in (("NUMBA_CACHE_DIR", ""), ("HEADRACE_CACHE_DIR", "numba")):
        if os.environ.get(name):
            yield Path(os.environ[name], tail)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    yield Path(home, "headrace", "numba")
    yield Path(tempfile.gettempdir(), f"headrace-numba-{os.getuid()}")


def is_likely_compiled() -> bool:
    """Whether anything was compiled since the kernels were last written; without importing numba.

    A guess: who is told so wrongly compiles when it first reads.
    """
    sources = Path(__file__).parent.glob("*kernels.py")
    indexes = (path.stat().st_mtime for path in cache_folder().glob("*/*.nbi"))
    return max(indexes, default=0.0) > max(path.stat().st_mtime for path in sources)


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """While it is open, functions that numba is given are cached in our folder, one process at a
    time. Other numba code of this process keeps its own folder."""
    import numba

    folder = cache_folder()
    with _locked(folder / LOCK_NAME):
        settings: Any = numba.config
        before = settings.CACHE_DIR
        settings.CACHE_DIR = str(folder)
        try:
            yield
        finally:
            settings.CACHE_DIR = before


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        file = path.open("a")
    except OSError:
        # Without the lock some processes compile the same twice; nothing else is lost.
        yield
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
