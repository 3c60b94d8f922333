"""Compiled modules are taken if they are of the sources as they are now; else none of them is."""

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from pathlib import Path

import pytest

from headrace.base import compiled
from headrace.base.compiled import CompiledFinder, compiled_modules, look_of

SUFFIX = EXTENSION_SUFFIXES[0]
BUILD = "0123abcd"
PACKAGE = Path(compiled.__file__).parents[1]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with two modules, of which `house.room` was compiled, and one written in C."""
    house = tmp_path / "house"
    (house / compiled.FOLDER / BUILD).mkdir(parents=True)
    (house / compiled.FOLDER / BUILD / f"{compiled.GROUP}{SUFFIX}").touch()
    (house / "room.py").write_text("WALLS = 4\n")
    (house / "limits.py").write_text("WALLS_MAX = 4\n")
    (house / "door.c").write_text("int doors = 4;\n")
    write_list(house)
    return house


def write_list(house: Path, suffix: str = SUFFIX) -> None:
    lines = [
        f"{suffix} {BUILD}",
        f"house.room c {look_of(str(house / 'room.py'))}",
        f"house.limits - {look_of(str(house / 'limits.py'))}",
        f"house.door x {look_of(str(house / 'door.c'))}",
    ]
    (house / compiled.FOLDER / compiled.LIST).write_text("\n".join(lines) + "\n")


def test_what_was_compiled_is_taken_and_what_it_imports_is_not(package: Path) -> None:
    folder = package / compiled.FOLDER / BUILD
    assert compiled_modules(str(package)) == {
        "house.room": f"{folder}/house/room{SUFFIX}",
        "house.door": f"{folder}/house/door{SUFFIX}",
        compiled.GROUP: f"{folder}/{compiled.GROUP}{SUFFIX}",
    }


@pytest.mark.parametrize("name", ["room.py", "limits.py", "door.c"])
def test_nothing_is_taken_once_a_source_has_changed(package: Path, name: str) -> None:
    source = package / name
    status = source.stat()
    source.write_text(source.read_text().replace("4", "5"))
    assert source.stat().st_size == status.st_size
    assert compiled_modules(str(package)) == {}
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert compiled_modules(str(package)) != {}
    source.unlink()
    assert compiled_modules(str(package)) == {}


def test_nothing_is_taken_of_another_python(package: Path) -> None:
    write_list(package, suffix=".cpython-399-somewhere.so")
    assert compiled_modules(str(package)) == {}


@pytest.mark.parametrize("text", ["", "\n", "x", f"{SUFFIX} 0123\nhouse.room", f"{SUFFIX} 0\n\n"])
def test_a_broken_list_is_no_list(package: Path, text: str) -> None:
    (package / compiled.FOLDER / compiled.LIST).write_text(text)
    assert "house.room" not in compiled_modules(str(package))


def test_nothing_is_taken_of_a_build_that_is_gone(package: Path) -> None:
    (package / compiled.FOLDER / BUILD / f"{compiled.GROUP}{SUFFIX}").unlink()
    assert compiled_modules(str(package)) == {}


def test_no_list_no_modules(tmp_path: Path) -> None:
    assert compiled_modules(str(tmp_path)) == {}


def test_the_finder_knows_its_modules_alone() -> None:
    finder = CompiledFinder({"house.room": f"/nowhere/room{SUFFIX}"})
    assert finder.find_spec("house.garden") is None
    spec = finder.find_spec("house.room")
    assert spec is not None
    assert isinstance(spec.loader, ExtensionFileLoader)
    assert spec.origin == f"/nowhere/room{SUFFIX}"


def asked(interpreted: str) -> str:
    """Where a fresh process has a listed module from."""
    code = (
        "from headrace.base.compiled import is_compiled\n"
        "from headrace.wire.hadoop import rpc_frames\n"
        "print(is_compiled(), rpc_frames.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, compiled.OPT_OUT: interpreted},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


def test_a_process_takes_them_unless_it_is_told_not_to() -> None:
    source = str(PACKAGE / "wire" / "hadoop" / "rpc_frames.py")
    assert asked("1") == f"False {source}"
    files = compiled_modules(str(PACKAGE))
    if files:
        assert asked("0") == f"True {files['headrace.wire.hadoop.rpc_frames']}"
    else:
        # No compiler, or an edit since `make setup`; CI has one, and edits nothing.
        assert os.environ.get("CI") != "true", "CI tests what is compiled"
        assert asked("0") == f"False {source}"
