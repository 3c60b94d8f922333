"""The floor under a file system: what its client, the kernel and the disk ask for by themselves.

- `names`: a NameNode that knows nothing. A conversation opens as any of Hadoop RPC; then a loop in
  C (`names_floor.c`) answers each call with bytes that were made before. Changes that come together
  share a write of some hundred bytes and one fdatasync, over zeros that were written before, as an
  edit log takes them. It looks for the next call for a moment before it sleeps. hdfs-native is the
  client.
- `relay`: a DataNode that looks at nothing but the checksum of its last node: a socket, reads of
  1 MiB, the same bytes to the next in line and to a file, around the page cache. The file takes
  the place of one as large and is synced after each 128 MiB, as hdfs-native asks for at the end
  of a block. A bare socket is the client.
- `read` is `bench.floor`'s: `sendfile` from the page cache.

Run as a process: `python -m bench.hdfs_floor names PATH` or `… relay PATH [NEXT_PORT]`; it tells
its port in a JSON line.
"""

import contextlib
import ctypes
import json
import mmap
import os
import select
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import crc32c
from bench.floor import PIECE_BYTES
from bench.servers import BUILD, ROOT, cpu_seconds

from headrace.runtime import socket_options
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.protos.acl_pb2 import FsPermissionProto
from headrace.wire.hadoop.rpc_frames import OPENING_BYTES
from headrace.wire.hadoop.rpc_protocols import CLIENT_NAMENODE
from headrace.wire.hadoop.rpc_session import RpcEndpoint, RpcSession

EDIT_BYTES = 250
"""About what ours writes for a create or a close."""
EDIT_LOG_BYTES = 64 << 20
BLOCK_BYTES = 128 << 20
AWAKE_US = 500
CHANGES = {"rename2": 1, "delete": 1, "mkdirs": 1, "create": 2, "complete": 3}
"""`enum change` of the loop in C."""

_STATUS = hdfs.HdfsFileStatusProto(
    fileType=hdfs.HdfsFileStatusProto.IS_FILE,
    path=b"",
    length=0,
    permission=FsPermissionProto(perm=0o644),
    owner="bench",
    group="supergroup",
    modification_time=1,
    access_time=1,
    block_replication=3,
    blocksize=128 << 20,
    fileId=16_400,
    childrenNum=0,
    storagePolicy=0,
)
_DEFAULTS = hdfs.FsServerDefaultsProto(
    blockSize=128 << 20,
    bytesPerChecksum=512,
    writePacketSize=65_536,
    replication=3,
    fileBufferSize=4096,
    checksumType=hdfs.CHECKSUM_CRC32C,
)
ANSWERS: dict[str, Any] = {
    "create": pb.CreateResponseProto(fs=_STATUS),
    "complete": pb.CompleteResponseProto(result=True),
    "getFileInfo": pb.GetFileInfoResponseProto(fs=_STATUS),
    "rename2": pb.Rename2ResponseProto(),
    "delete": pb.DeleteResponseProto(result=True),
    "mkdirs": pb.MkdirsResponseProto(result=True),
    "renewLease": pb.RenewLeaseResponseProto(),
    "getServerDefaults": pb.GetServerDefaultsResponseProto(serverDefaults=_DEFAULTS),
    "getDataEncryptionKey": pb.GetDataEncryptionKeyResponseProto(),
}


class Wire:
    """A socket as the opening of a conversation sees it."""

    peer = "127.0.0.1:0"

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock

    def send(self, parts: Sequence[Any]) -> None:
        self.socket.sendall(b"".join(map(bytes, parts)))

    def close(self, reason: str) -> None:
        raise SystemExit(f"the floor's client: {reason}")

    def resume(self) -> None:
        pass


def open_conversation(sock: socket.socket, endpoint: RpcEndpoint) -> None:
    """By the protocol's own code, up to the answer to the first call."""
    session = RpcSession(endpoint, Wire(sock))
    session.on_preamble(sock.recv(OPENING_BYTES, socket.MSG_WAITALL))
    while not session.client_id:
        size = int.from_bytes(sock.recv(4, socket.MSG_WAITALL))
        session.on_frame(memoryview(sock.recv(size, socket.MSG_WAITALL)))
        session.on_read_end()


class Method(ctypes.Structure):
    """`struct method` of the loop in C."""

    _fields_: ClassVar = [
        ("name", ctypes.c_char_p),
        ("body", ctypes.c_char_p),
        ("body_bytes", ctypes.c_int),
        ("change", ctypes.c_int),
    ]


def _loop() -> ctypes.CDLL:
    sources = ROOT / "bench" / "names_floor.c", ROOT / "src/headrace/runtime/core_keeper.c"
    library = BUILD / "names_floor.so"
    flags = (
        "-O2",
        "-Wall",
        "-shared",
        "-fPIC",
        f"-I{sysconfig.get_path('include')}",
        "-o",
        library,
    )
    subprocess.run([os.environ.get("CC", "cc"), *flags, *sources], check=True)
    return ctypes.CDLL(str(library))


def serve_names(path: Path) -> None:
    endpoint = RpcEndpoint(lambda _, error: sys.exit(repr(error)))
    always = {name: (lambda _, __, answer=answer: answer) for name, answer in ANSWERS.items()}
    endpoint.serve(CLIENT_NAMENODE, always)
    edits = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.write(edits, bytes(EDIT_LOG_BYTES))
    os.fsync(edits)
    bodies = {name: message.SerializeToString() for name, message in ANSWERS.items()}
    assert all(len(body) < 0x80 for body in bodies.values()), "a size is one byte"
    known = [
        Method(name.encode(), body, len(body), CHANGES.get(name, 0))
        for name, body in bodies.items()
    ]
    methods = (Method * (len(known) + 1))(*known)
    epoll = select.epoll()
    loop = _loop()
    served = (epoll.fileno(), edits, methods, EDIT_BYTES, ctypes.c_int64(EDIT_LOG_BYTES), AWAKE_US)
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        threading.Thread(target=loop.serve, args=served, daemon=True).start()
        print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
        while True:
            sock, _ = listener.accept()
            socket_options.prepare(sock)
            open_conversation(sock, endpoint)
            epoll.register(sock.detach(), select.EPOLLIN)


class BlockFiles:
    """What is written to `path`: in place of what was there, and on disk block by block."""

    def __init__(self, path: Path) -> None:
        old = path.with_suffix(".old")
        if path.exists():
            path.rename(old)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        self._size = 0
        threading.Thread(target=old.unlink, args=(True,)).start()

    def write(self, data: memoryview) -> None:
        self._size += os.pwrite(self._fd, data, self._size)
        if self._size % BLOCK_BYTES == 0:
            os.fdatasync(self._fd)

    def close(self) -> None:
        os.fdatasync(self._fd)
        os.close(self._fd)


def serve_relay(path: Path, next_port: int | None) -> None:
    view = memoryview(mmap.mmap(-1, PIECE_BYTES))
    file = BlockFiles(path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
        connection, _ = listener.accept()
    behind = None if next_port is None else socket.create_connection(("127.0.0.1", next_port))
    if behind is not None:
        socket_options.prepare(behind)
    with connection:
        while connection.recv_into(view, 0, socket.MSG_WAITALL):
            if behind is None:
                crc32c.crc32c(view)
            else:
                behind.sendall(view)
            file.write(view)
        file.close()
        if behind is not None:
            behind.shutdown(socket.SHUT_WR)
            behind.recv(1)
        connection.sendall(b"!")
    signal.pause()  # whoever started this looks at its CPU time, then ends it


def _spawn(*words: object) -> tuple["subprocess.Popen[str]", int]:
    command = [sys.executable, "-m", "bench.hdfs_floor", *map(str, words)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert child.stdout is not None
    return child, int(json.loads(child.stdout.readline())["port"])


@contextlib.contextmanager
def _children() -> Iterator[list["subprocess.Popen[str]"]]:
    children: list[subprocess.Popen[str]] = []
    try:
        yield children
    finally:
        for child in children:
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()


class NamesFloor:
    name = "floor"

    def start(self) -> None:
        self._path = BUILD / "floor.edits"
        self._child, port = _spawn("names", self._path)
        self.url = f"hdfs://127.0.0.1:{port}"
        self.pids = [self._child.pid]

    def stop(self) -> None:
        self._child.kill()
        self._child.wait()
        assert self._child.stdout is not None
        self._child.stdout.close()
        self._path.unlink(missing_ok=True)


def write_floor(size: int, replication: int) -> dict[str, float]:
    """`size` bytes through so many relays, one behind the other, in place of what was there."""
    paths = [BUILD / f"floor-{index}.block" for index in range(replication)]
    try:
        _relayed(size, paths)
        return _relayed(size, paths)
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def _relayed(size: int, paths: list[Path]) -> dict[str, float]:
    with _children() as children:
        port: int | None = None
        for path in paths:
            words = ("relay", path) if port is None else ("relay", path, port)
            child, port = _spawn(*words)
            children.append(child)
        assert port is not None
        piece = os.urandom(PIECE_BYTES)
        before_s = sum(cpu_seconds(child.pid) for child in children)
        began_s = time.monotonic()
        with socket.create_connection(("127.0.0.1", port)) as sock:
            for _ in range(size // PIECE_BYTES):
                sock.sendall(piece)
            sock.shutdown(socket.SHUT_WR)
            assert sock.recv(1) == b"!", "the first relay went away"
        seconds = time.monotonic() - began_s
        used_s = sum(cpu_seconds(child.pid) for child in children) - before_s
    return {"mb_per_s": size / 1e6 / seconds, "cpu_s_per_gb": used_s / (size / 1e9)}


if __name__ == "__main__":
    if sys.argv[1] == "names":
        serve_names(Path(sys.argv[2]))
    else:
        serve_relay(Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
