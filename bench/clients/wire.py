"""A client on asyncio that counts and does not think: requests in bytes, answers as bytes.

Owns: one connection, its correlation ids, the frames. Versions are given by the caller: the works
use ones that both servers speak.
"""

import asyncio
import struct
from typing import TypeVar

from headrace.wire.kafka.frames import decode_response, encode_request
from headrace.wire.kafka.message import Message

_SIZE = struct.Struct(">i")
FRAME_BYTES_MAX = 1 << 28

M = TypeVar("M", bound=Message)


class WireClient:
    """One request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._correlation_id = 0

    @classmethod
    async def connect(cls, address: tuple[str, int], timeout_s: float = 5.0) -> "WireClient":
        opening = asyncio.open_connection(*address, limit=1 << 22)
        reader, writer = await asyncio.wait_for(opening, timeout_s)
        return cls(reader, writer)

    async def frame(self, request: Message, version: int, timeout_s: float = 60.0) -> bytes:
        """The answer as it came, without its size."""
        self._correlation_id += 1
        self._writer.write(encode_request(request, version, self._correlation_id, "bench"))
        return await asyncio.wait_for(self._read(), timeout_s)

    async def _read(self) -> bytes:
        (size,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
        if not 0 < size < FRAME_BYTES_MAX:
            raise ConnectionError(f"a frame of {size} bytes")
        return await self._reader.readexactly(size)

    async def ask(
        self, request: Message, version: int, response_class: type[M], timeout_s: float = 60.0
    ) -> M:
        return decode_response(
            response_class, await self.frame(request, version, timeout_s), version
        )[1]

    def close(self) -> None:
        self._writer.close()
