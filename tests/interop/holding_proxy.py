"""A line to a broker that can hold one request back and deliver it when its time has passed.

    proxy = HoldingProxy()
    with proxy, LocalBroker(settings=proxy.settings, listen=proxy.target):
        proxy.hold(END_TXN)
        …                           # a client's next EndTxn gets no further than here
        late = proxy.release()      # it arrives now; what the broker answers

Owns: one listening socket, the pairs of connections through it, and the request that is held. The
broker tells clients this address, so that all they say comes through here.

    client ── frames ──▶ [ held? ] ──▶ broker
    client ◀── answers ── [ first release what is held? ] ◀── broker

A held request keeps its connection to the broker, on which it arrives later. To its client the
connection is cut, unless `cut=False`: then the client waits for an answer in vain.
"""

import contextlib
import queue
import socket
import struct
import threading

from headrace.wire.kafka.frames import decode_response
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.end_txn import EndTxnResponse
from headrace.wire.kafka.messages.produce import ProduceResponse

PRODUCE, END_TXN = 0, 26
ANSWERS: dict[int, type[Message]] = {PRODUCE: ProduceResponse, END_TXN: EndTxnResponse}
TIMEOUT_S = 20.0

_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhi")
_CORRELATION = struct.Struct(">i")


class HoldingProxy:
    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._target = _free_address()
        self._lock = threading.Lock()
        self._held_key: int | None = None
        self._cuts = True
        self._released_by: int | None = None
        self._held: queue.Queue[_Held] = queue.Queue()
        self._late: queue.Queue[bytes] = queue.Queue()
        self._answer: Message | None = None
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def address(self) -> str:
        host, port = self._server.getsockname()
        return f"{host}:{port}"

    @property
    def target(self) -> str:
        """Where the broker behind it is to listen."""
        host, port = self._target
        return f"{host}:{port}"

    @property
    def settings(self) -> dict[str, str]:
        """Of the broker behind it."""
        return {"advertised.listeners": f"PLAINTEXT://{self.address}"}

    def __enter__(self) -> "HoldingProxy":
        return self

    def __exit__(self, *_: object) -> None:
        for each in [self._server, *self._sockets]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(TIMEOUT_S)

    # -- holding and releasing ---------------------------------------------------------------

    def hold(self, api_key: int, *, cut: bool = True, until: int | None = None) -> None:
        """The next request of that kind; with `until`, up to the moment in which a later request
        of that other kind is to be answered."""
        with self._lock:
            self._held_key, self._cuts, self._released_by = api_key, cut, until

    def release(self) -> Message:
        """Waits for the request if it has not come yet; what the broker answers to it."""
        held = self._held.get(timeout=TIMEOUT_S)
        held.far.sendall(held.frame)
        answer = self._late.get(timeout=TIMEOUT_S)
        _, self._answer = decode_response(ANSWERS[held.api_key], answer, held.version)
        return self._answer

    @property
    def answer(self) -> Message:
        """To what was released by another request's answer."""
        assert self._answer is not None, "nothing was released"
        return self._answer

    # -- the line ----------------------------------------------------------------------------

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                try:
                    far = socket.create_connection(self._target, TIMEOUT_S)
                except OSError:
                    near.close()
                    continue
                far.settimeout(None)
                line = _Line(near, far)
                self._sockets += [near, far]
                for carry in (self._carry_up, self._carry_down):
                    thread = threading.Thread(target=carry, args=(line,), daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _carry_up(self, line: "_Line") -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                frame = _read_frame(line.near)
                api_key, version, correlation_id = _HEADER.unpack_from(frame, _SIZE.size)
                line.asked[correlation_id] = api_key
                if not self._takes(api_key):
                    line.far.sendall(frame)
                    continue
                line.held = correlation_id
                if self._cuts:
                    line.near.shutdown(socket.SHUT_RDWR)
                self._held.put(_Held(line.far, api_key, version, frame))
                if self._cuts:
                    return  # its connection to the broker stays
        if line.held is None:
            with contextlib.suppress(OSError):
                line.far.shutdown(socket.SHUT_RDWR)

    def _takes(self, api_key: int) -> bool:
        with self._lock:
            if api_key != self._held_key:
                return False
            self._held_key = None
            return True

    def _carry_down(self, line: "_Line") -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                frame = _read_frame(line.far)
                (correlation_id,) = _CORRELATION.unpack_from(frame, _SIZE.size)
                if correlation_id == line.held:
                    self._late.put(frame[_SIZE.size :])
                elif self._must_release(line.asked.get(correlation_id)):
                    self.release()
                with contextlib.suppress(OSError):
                    line.near.sendall(frame)
        with contextlib.suppress(OSError):
            line.near.shutdown(socket.SHUT_RDWR)

    def _must_release(self, api_key: int | None) -> bool:
        with self._lock:
            if api_key is None or api_key != self._released_by or self._held.empty():
                return False
            self._released_by = None
            return True


class _Line:
    """A client's connection and ours to the broker."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.near = near
        self.far = far
        self.asked: dict[int, int] = {}
        """API keys by correlation id."""
        self.held: int | None = None


class _Held:
    def __init__(self, far: socket.socket, api_key: int, version: int, frame: bytes) -> None:
        self.far = far
        self.api_key = api_key
        self.version = version
        self.frame = frame


def _free_address() -> tuple[str, int]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        host, port = found.getsockname()
        return host, port


def _read_frame(source: socket.socket) -> bytes:
    head = _read_exactly(source, _SIZE.size)
    return head + _read_exactly(source, _SIZE.unpack(head)[0])


def _read_exactly(source: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = source.recv(size - len(parts))
        if not part:
            raise EOFError("the connection ended")
        parts += part
    return bytes(parts)
