"""What calls take of a processor: a NameNode in this process, without sockets and with its log in
memory.

    python bench/namespace_calls.py [--files 20000] [--rounds 5] [--user NAME]

Eight clients call in turns, as hdfs-native does, and share a turn of the loop and its write. Every
call must take the short way and be answered. Prints one JSON line: microseconds for each
operation, the best of all rounds.
"""

import argparse
import gc
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.log.file_budget import FileBudget
from headrace.namespace import requests
from headrace.namespace.caller import Caller
from headrace.namespace.filesystem import Namespace
from headrace.namespace.journal import Journal, open_log
from headrace.namespace.namenode import NameNode
from headrace.namespace.rpc.asking import ask
from headrace.namespace.rpc.endpoint import namenode_endpoint
from headrace.namespace.settings import NamespaceSettings
from headrace.node.system_groups import SystemGroups
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import DiskStorage
from headrace.testing.clock import SimulatedClock, SimulatedTimers
from headrace.wire.hadoop import rpc_calls
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos.acl_pb2 import FsPermissionProto
from headrace.wire.hadoop.rpc_frames import OPENING_BYTES
from headrace.wire.hadoop.rpc_protocols import CLIENT_NAMENODE
from headrace.wire.hadoop.rpc_session import RpcSession

CLIENTS = 8
FOLDERS = 40
SUPERUSER = "hdfs"

Call = tuple[str, Any]
"""Method and message."""


class Turns:
    """The loop's turns, taken by hand."""

    def __init__(self) -> None:
        self._due: list[Callable[[], None]] = []

    def at_end(self, action: Callable[[], None]) -> bool:
        self._due.append(action)
        return False

    def end(self) -> None:
        while self._due:
            due, self._due = self._due, []
            for action in due:
                action()


class Client:
    """A peer of the NameNode, without a socket."""

    peer = "127.0.0.1:1"

    def __init__(self, endpoint: Any, user: str, number: int) -> None:
        self.name = f"hdfs_native_client-244d7fba-528c-4300-b785-5e408615be{number:02x}"
        self.answers = 0
        self._id = bytes((number,)) * 16
        self._calls = 0
        self.session = RpcSession(endpoint, self)
        opening = rpc_calls.opening(user, CLIENT_NAMENODE.java_name, self._id)
        self.session.on_preamble(opening[:OPENING_BYTES])
        self.session.on_frame(memoryview(opening[OPENING_BYTES + 4 :]))
        self.session.on_read_end()

    def send(self, parts: Sequence[Any]) -> None:
        self.answers += len(parts)

    def close(self, reason: str) -> None:
        raise SystemExit(f"the NameNode closed a connection: {reason}")

    def resume(self) -> None:
        pass

    def frame(self, call: Call) -> bytes:
        method, message = call
        self._calls += 1
        return rpc_calls.request(self._calls, self._id, CLIENT_NAMENODE, method, message)[4:]


def create(client: Client, path: str, _: int) -> Call:
    message = pb.CreateRequestProto(
        src=path,
        masked=FsPermissionProto(perm=0o644),
        clientName=client.name,
        createFlag=1,
        createParent=True,
        replication=3,
        blockSize=128 << 20,
        cryptoProtocolVersion=[2],  # type: ignore[list-item]
    )
    return "create", message


def complete(client: Client, path: str, file_id: int) -> Call:
    return "complete", pb.CompleteRequestProto(src=path, clientName=client.name, fileId=file_id)


def get_file_info(_: Client, path: str, __: int) -> Call:
    return "getFileInfo", pb.GetFileInfoRequestProto(src=path)


def rename(_: Client, path: str, __: int) -> Call:
    message = pb.Rename2RequestProto(
        src=path, dst=path + "-moved", overwriteDest=False, moveToTrash=False
    )
    return "rename2", message


def delete(_: Client, path: str, __: int) -> Call:
    return "delete", pb.DeleteRequestProto(src=path + "-moved", recursive=False)


WORKS = {
    "create+complete": (create, complete),
    "getFileInfo": (get_file_info,),
    "rename2": (rename,),
    "delete": (delete,),
}


class World:
    def __init__(self, folder: str, user: str) -> None:
        self.turns = Turns()
        storage, clock = DiskStorage(), SystemClock()
        log = open_log(storage, folder, clock, FileBudget(storage, 64))

        def journal(ns: Namespace, on_durable: Callable[[], None]) -> Journal:
            return Journal(
                log,
                ns,
                clock,
                on_durable=on_durable,
                on_fatal=_fail,
                at_turn_end=self.turns.at_end,
            )

        self.namenode = NameNode(
            Namespace(NamespaceSettings(superuser=SUPERUSER)),
            journal,
            clock=clock,
            timers=SimulatedTimers(SimulatedClock()),
            random=random.Random(1),
            events=EventLog(lambda _: None, clock),
        )
        self._settled(self.namenode.load(cluster_id="bench"))
        self.namenode.start()
        assert not self.namenode.safe_mode.is_on
        endpoint = namenode_endpoint(
            self.namenode, SystemGroups(clock), lambda _, error: _fail(error)
        )
        self.clients = [Client(endpoint, user, number) for number in range(CLIENTS)]
        self.folders = [f"/bench/{index % 4}/{index:03d}" for index in range(FOLDERS)]
        for path in self.folders:
            self._settled(ask(self.namenode, requests.Mkdirs(path, 0o777), Caller(SUPERUSER)))
        for client in self.clients:  # the first call of each way is a long one
            for number, (method, message) in enumerate(self._round(client, "/bench/0/000/first")):
                file_id = self.namenode.ns.last_inode_id
                if number == 1:
                    message.fileId = file_id
                client.session.on_frame(memoryview(client.frame((method, message))))
                client.session.on_read_end()
                self.turns.end()

    @staticmethod
    def _round(client: Client, path: str) -> Iterator[Call]:
        for acts in WORKS.values():
            for act in acts:
                yield act(client, path, 0)

    def _settled(self, promise: Promise[Any]) -> None:
        self.turns.end()
        promise.value()

    def measure(self, work: str, paths: list[str]) -> float:
        """Microseconds for each path."""
        first_id = self.namenode.ns.last_inode_id + 1
        frames: list[tuple[Client, bytes]] = []
        for start in range(0, len(paths), CLIENTS):
            for act in WORKS[work]:
                for index, path in enumerate(paths[start : start + CLIENTS]):
                    client = self.clients[index]
                    frames.append(
                        (client, client.frame(act(client, path, first_id + start + index)))
                    )
        before, answered = sum(client.answers for client in self.clients), 0
        gc.collect()
        began_s = time.process_time()
        for index, (client, frame) in enumerate(frames):
            answer = client.session.on_lone_frame(frame)
            assert answer is not None, f"{work} took the long way"
            answered += bool(answer)
            if index % CLIENTS == CLIENTS - 1:
                self.turns.end()
        self.turns.end()
        took_s = time.process_time() - began_s
        answered += sum(client.answers for client in self.clients) - before
        assert answered == len(frames), f"{answered} answers to {len(frames)} calls"
        return 1e6 * took_s / len(paths)


def _fail(error: BaseException) -> None:
    raise SystemExit(f"the NameNode failed: {error!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=20_000, help="a multiple of eight")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--user", default=SUPERUSER, help="who calls; the superuser by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        world = World(folder, options.user)
        paths = [
            f"{world.folders[index % FOLDERS]}/file-{index:06d}" for index in range(options.files)
        ]
        gc.freeze()
        gc.set_threshold(20_000, 20, 100)  # as the NameNode's process has it
        best = dict.fromkeys(WORKS, float("inf"))
        for _ in range(options.rounds):
            for work in WORKS:
                best[work] = min(best[work], world.measure(work, paths))
    print(json.dumps({work: round(value, 1) for work, value in best.items()}))


if __name__ == "__main__":
    main()
