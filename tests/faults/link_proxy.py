"""A line that does harm: what two nodes say to each other, damaged, delayed or cut off.

    python link_proxy.py MODE PORT TARGET_HOST TARGET_PORT MARK COUNT_FILE

Owns: one listening socket; what connects to it is carried to the target over a socket with the
mark MARK, which tells it from the connections that are led here. The number of times that harm was
done is kept in COUNT_FILE, which is there once the line is. By MODE:

corrupt   N8: of every third answer to a Fetch that holds a long run of the load's padding, one byte
          of that padding is flipped: bytes of records, and nothing that frames them
delay     N6: every piece comes 75 ± 50 ms later, each way, in its order
cut       N7: the n-th connection is reset after n bytes of what it asks, the next after n bytes of
          what it hears, and so on
carry     nothing but carrying; the count is that of connections
"""

import asyncio
import contextlib
import random
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

PADDING = b"-" * 64
EVERY = 3
READ_BYTES = 65_536
FETCH = 1
DELAY_S = (0.025, 0.125)
Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter


class Line:
    def __init__(self, mode: str, target: tuple[str, int], mark: int, count: Path) -> None:
        self._mode = mode
        self._target = target
        self._mark = mark
        self._count = count
        self._chance = random.Random(75)
        self._connections = 0
        self._seen = 0
        self._harm = 0

    def begin(self) -> None:
        self._count.write_text("0")

    def _on_harm(self) -> None:
        self._harm += 1
        self._count.write_text(str(self._harm))

    async def carry(self, reader: Reader, writer: Writer) -> None:
        self._connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, self._mark)
            connection.setblocking(False)
            await asyncio.get_running_loop().sock_connect(connection, self._target)
            far_reader, far_writer = await asyncio.open_connection(sock=connection)
            try:
                tasks = self._ways(reader, writer, far_reader, far_writer)
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:
                far_writer.close()
        writer.close()

    def _ways(
        self, reader: Reader, writer: Writer, far_reader: Reader, far_writer: Writer
    ) -> list["asyncio.Future[None]"]:
        match self._mode:
            case "corrupt":
                fetches: set[int] = set()
                ways = [
                    self._note_fetches(reader, far_writer, fetches),
                    self._damage(far_reader, writer, fetches),
                ]
            case "delay":
                ways = [self._delay(reader, far_writer), self._delay(far_reader, writer)]
            case "cut":
                limits = [self._connections // 2, 1 << 40]
                if self._connections % 2:
                    limits.reverse()
                ends = [writer, far_writer]
                ways = [
                    self._cut(reader, far_writer, limits[0], ends),
                    self._cut(far_reader, writer, limits[1], ends),
                ]
            case _:
                self._on_harm()
                ways = [self._pass_on(reader, far_writer), self._pass_on(far_reader, writer)]
        return [asyncio.ensure_future(way) for way in ways]

    async def _pass_on(self, reader: Reader, writer: Writer) -> None:
        while data := await reader.read(READ_BYTES):
            writer.write(data)
            await writer.drain()

    # -- N8 ----------------------------------------------------------------------------------------

    async def _note_fetches(self, reader: Reader, writer: Writer, fetches: set[int]) -> None:
        while True:
            frame = await _frame(reader)
            api_key, _, correlation_id = struct.unpack_from(">hhi", frame, 4)
            if api_key == FETCH:
                fetches.add(correlation_id)
            writer.write(frame)
            await writer.drain()

    async def _damage(self, reader: Reader, writer: Writer, fetches: set[int]) -> None:
        while True:
            frame = await _frame(reader)
            (correlation_id,) = struct.unpack_from(">i", frame, 4)
            if correlation_id in fetches:
                fetches.discard(correlation_id)
                frame = self._damaged(frame)
            writer.write(frame)
            await writer.drain()

    def _damaged(self, frame: bytes) -> bytes:
        at = frame.find(PADDING)
        if at < 0:
            return frame
        self._seen += 1
        if self._seen % EVERY:
            return frame
        self._on_harm()
        changed = bytearray(frame)
        changed[at + len(PADDING) // 2] ^= 0x01
        return bytes(changed)

    # -- N6 ----------------------------------------------------------------------------------------

    async def _delay(self, reader: Reader, writer: Writer) -> None:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due_s, data = await waiting.get()
                await asyncio.sleep(max(0.0, due_s - loop.time()))
                if not data:
                    return
                self._on_harm()
                writer.write(data)
                await writer.drain()

        delivering = asyncio.ensure_future(deliver())
        try:
            data = b"-"
            while data:
                data = await reader.read(READ_BYTES)
                waiting.put_nowait((loop.time() + self._chance.uniform(*DELAY_S), data))
            await delivering
        finally:
            delivering.cancel()

    # -- N7 ----------------------------------------------------------------------------------------

    async def _cut(
        self, reader: Reader, writer: Writer, limit_bytes: int, ends: list[Writer]
    ) -> None:
        left = limit_bytes
        while data := await reader.read(READ_BYTES):
            writer.write(data[:left])
            await writer.drain()
            left -= len(data)
            if left <= 0:
                self._on_harm()
                for end in ends:
                    _reset(end)
                return


async def _frame(reader: Reader) -> bytes:
    head = await reader.readexactly(4)
    (size,) = struct.unpack(">i", head)
    return head + await reader.readexactly(size)


def _reset(writer: Writer) -> None:
    """RST in place of FIN."""
    end: socket.socket = writer.get_extra_info("socket")
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def main(words: list[str]) -> None:
    mode, port, host, target_port, mark, count = words
    line = Line(mode, (host, int(target_port)), int(mark), Path(count))
    on_connection: Callable[[Reader, Writer], object] = line.carry
    server = await asyncio.start_server(on_connection, "0.0.0.0", int(port))
    line.begin()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
