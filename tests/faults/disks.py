"""Disks that a test can break: small file systems behind loop devices, and in memory.

Owns: mounting, breaking, filling. Needs root; without it the tests say NOT RUN.
"""

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import not_run

MIB = 1 << 20
EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
COMMAND_TIMEOUT_S = 60


@contextlib.contextmanager
def breakable_disk(folder: Path, size_mib: int = 64) -> Iterator[Path]:
    """An ext4 of its own at `folder`, for `break_disk`."""
    if os.getuid() != 0:
        not_run("mounting needs root")
    for program in ("mkfs.ext4", "mount", "umount"):
        if shutil.which(program) is None:
            not_run(f"{program} is not installed")
    image = folder.with_name(folder.name + ".img")
    folder.mkdir(parents=True)
    with image.open("wb") as file:
        file.truncate(size_mib * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, timeout=COMMAND_TIMEOUT_S)
    _mount("-o", "loop", str(image), str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, timeout=COMMAND_TIMEOUT_S)
        image.unlink(missing_ok=True)


@contextlib.contextmanager
def small_disk(folder: Path, size_mib: int) -> Iterator[Path]:
    """A file system in memory at `folder` with so much room."""
    if os.getuid() != 0:
        not_run("mounting needs root")
    folder.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, timeout=COMMAND_TIMEOUT_S)


def _mount(*words: str) -> None:
    done = subprocess.run(
        ["mount", *words], capture_output=True, text=True, check=False, timeout=COMMAND_TIMEOUT_S
    )
    if done.returncode != 0:
        not_run(f"no mounts here: {done.stderr.strip()}")


def break_disk(folder: Path) -> None:
    """From now on every write, sync and new file there fails with EIO, as on a dead disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
    finally:
        os.close(descriptor)
    _must_refuse(folder)


def _must_refuse(folder: Path) -> None:
    try:
        (folder / "probe").write_bytes(b"x")
    except OSError:
        return
    raise AssertionError("the disk still takes writes: nothing was broken")


def make_read_only(folder: Path) -> None:
    """As the kernel does to a damaged ext4 under those who write to it; an operator's remount
    would be refused while a file is open for writing."""
    device = _device_of(folder)
    _run("mount", "-o", "remount,errors=remount-ro", str(folder))
    trigger = Path("/sys/fs/ext4") / device.name / "trigger_fs_error"
    try:
        trigger.write_text("found by a test")
    except OSError as error:
        not_run(f"an ext4 can't be made read-only here: {error}")
    _must_refuse(folder)


def _device_of(folder: Path) -> Path:
    """Never any but a loop device: the machine's own disks are behind the same files."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        device, target, *_ = line.split()
        if target == str(folder) and device.startswith("/dev/loop"):
            return Path(device)
    raise AssertionError(f"{folder} is no mount of a loop device")


def forbid_changes(folder: Path) -> None:
    """No file can be made, renamed or removed there any more; those that are open go on. For a
    broker that is no root, `chmod` would do the same."""
    if shutil.which("chattr") is None:
        not_run("chattr is not installed")
    _run("chattr", "-R", "-f", "+i", *(str(each) for each in folder.rglob("*") if each.is_dir()))
    _run("chattr", "+i", str(folder))
    _must_refuse(folder)


def remove_everything(folder: Path) -> None:
    """What is open can still be written to, and nobody will ever find it."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=COMMAND_TIMEOUT_S)


def fill(folder: Path, leave_bytes: int = 0) -> Path:
    """Take all room but `leave_bytes`; the file to remove for it to come back."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        piece = 64 * 1024
        while piece >= 512:
            state = os.statvfs(folder)
            free = state.f_bavail * state.f_frsize - leave_bytes
            try:
                if free < piece or not file.write(b"\0" * piece):
                    piece //= 2
            except OSError:
                piece //= 2
    return ballast


class Image:
    """A file system in a file, mounted so that only syncs reach the file: a copy of it is the disk
    after a power cut. Nothing of its room is kept for root."""

    def __init__(self, folder: Path, size_mib: int = 256) -> None:
        self.folder = folder
        self.file = folder.with_name(folder.name + ".img")
        self._size_mib = size_mib
        folder.mkdir(parents=True)
        self._make()

    def _make(self) -> None:
        self.file.unlink(missing_ok=True)
        with self.file.open("wb") as file:
            file.truncate(self._size_mib * MIB)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self.file))

    def mount(self) -> None:
        _mount("-o", "loop,commit=300", str(self.file), str(self.folder))

    def unmount(self) -> None:
        _run("umount", str(self.folder))

    def sync(self) -> None:
        """All that was written so far is on the disk."""
        _run("sync", "-f", str(self.folder))

    def replace(self) -> None:
        """By an empty one. Nobody may be using it."""
        self.unmount()
        self._make()
        self.mount()

    def mend(self) -> None:
        """What the kernel found damaged is looked through, and mounted anew."""
        self.unmount()
        done = subprocess.run(
            ["e2fsck", "-f", "-y", str(self.file)],
            capture_output=True,
            check=False,
            timeout=COMMAND_TIMEOUT_S,
        )
        assert done.returncode in (0, 1), done.stdout
        self.mount()


@contextlib.contextmanager
def image_at(folder: Path, size_mib: int = 256) -> Iterator[Image]:
    if os.getuid() != 0:
        not_run("mounting needs root")
    if shutil.which("mkfs.ext4") is None:
        not_run("mkfs.ext4 is not installed")
    image = Image(folder, size_mib)
    image.mount()
    try:
        yield image
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False, timeout=COMMAND_TIMEOUT_S)
        image.file.unlink(missing_ok=True)


def allow_changes(folder: Path) -> None:
    """The reverse of `forbid_changes`."""
    _run("chattr", "-R", "-f", "-i", str(folder))
