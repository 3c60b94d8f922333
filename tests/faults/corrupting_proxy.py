"""A line that damages records: what a follower hears of its leader, with bytes flipped (N8).

    python corrupting_proxy.py PORT TARGET_HOST TARGET_PORT MARK COUNT_FILE

Owns: one listening socket; what connects to it is carried to the target over a socket with the
mark MARK, which tells it from the connections that are led here. Requests pass as they are. Of
every third answer that holds a long run of the load's padding, one byte of that padding is flipped:
bytes of records, and nothing that frames them. The number of flips is kept in COUNT_FILE.
"""

import asyncio
import contextlib
import socket
import struct
import sys
from pathlib import Path

PADDING = b"-" * 64
EVERY = 3
READ_BYTES = 65_536


class Line:
    def __init__(self, target: tuple[str, int], mark: int, count: Path) -> None:
        self._target = target
        self._mark = mark
        self._count = count
        self._seen = 0
        self._flips = 0

    def begin(self) -> None:
        self._count.write_text("0")

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, self._mark)
            connection.setblocking(False)
            await asyncio.get_running_loop().sock_connect(connection, self._target)
            far_reader, far_writer = await asyncio.open_connection(sock=connection)
            try:
                tasks = [
                    asyncio.ensure_future(self._pass_on(reader, far_writer)),
                    asyncio.ensure_future(self._damage(far_reader, writer)),
                ]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
            finally:
                far_writer.close()
        writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(READ_BYTES):
            writer.write(data)
            await writer.drain()

    async def _damage(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readexactly(4)
            (size,) = struct.unpack(">i", head)
            writer.write(head + self._damaged(await reader.readexactly(size)))
            await writer.drain()

    def _damaged(self, frame: bytes) -> bytes:
        at = frame.find(PADDING)
        if at < 0:
            return frame
        self._seen += 1
        if self._seen % EVERY:
            return frame
        self._flips += 1
        self._count.write_text(str(self._flips))
        changed = bytearray(frame)
        changed[at + len(PADDING) // 2] ^= 0x01
        return bytes(changed)


async def main(words: list[str]) -> None:
    port, host, target_port, mark, count = words
    line = Line((host, int(target_port)), int(mark), Path(count))
    server = await asyncio.start_server(line.carry, "0.0.0.0", int(port))
    line.begin()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
