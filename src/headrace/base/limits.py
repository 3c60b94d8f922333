"""Every bound of the project, in one place, with its unit in its name.

Owns: numbers that nobody can configure, each of them used (a test looks). Where Kafka has a key
for a bound (say `socket.request.max.bytes`), the key decides and the number here is its ceiling.
Must not know: anything else.
"""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * 1024

# Frames and requests.
FRAME_BYTES_MAX: Final = 100 * MIB
"""Largest request frame (`socket.request.max.bytes`)."""
FRAME_PROGRESS_TIMEOUT_MS: Final = 60_000
"""A started frame that gains no byte for so long loses its connection."""
RESPONSE_PROGRESS_TIMEOUT_MS: Final = 120_000
"""A peer that reads no byte of a waiting response for so long loses its connection."""

# Connections.
OPENING_TIMEOUT_MS: Final = 60_000
"""From accepting it to the last byte of what opens a connection (Hadoop RPC: preamble, SASL and
context): one that trickles in is never still, and would be waited for without end."""
OPENING_FRAME_BYTES_MAX: Final = 64 * KIB - 4
"""Largest frame until then, of peers that nobody knows: a context has some hundred bytes, and a
token some thousand. No more than what moves out of a shared buffer."""
IN_FLIGHT_REQUESTS_MAX: Final = 100
"""Requests of one connection read and not yet answered; then reading stops."""
REQUEST_BUFFERS_BYTES_MAX: Final = 512 * MIB
"""Bytes of half-read frames over all connections."""

RECEIVE_BUFFER_BYTES: Final = 2 * MIB
"""One shared receive buffer; a frame that fits is never copied between two reads."""
PRIVATE_BUFFER_BYTES_MIN: Final = 64 * KIB
"""Less than this of an unfinished frame moves out of the shared buffer."""
SENDFILE_BYTES_MIN: Final = 16 * KIB
"""A smaller piece of a file is read and sent with the bytes around it: one call less."""
LISTEN_BACKLOG: Final = 4_096
ACCEPTS_PER_TURN_MAX: Final = 64
"""Connections accepted in one turn of the loop."""

# Records.
DECOMPRESSED_BYTES_MAX: Final = 64 * MIB
"""What one batch may grow to when it is decompressed here."""

# Topics.
TOPIC_NAME_CHARS_MAX: Final = 249
"""So that the folder `name-partition` stays a legal file name."""
PARTITIONS_PER_TOPIC_MAX: Final = 10_000
"""What one topic may have; a request for more is refused before anything is built."""
PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""Partitions made by one CreateTopics or CreatePartitions request."""
PARTITIONS_MAX: Final = 200_000
CONFIG_VALUE_CHARS_MAX: Final = 32 * KIB - 1
CONFIGS_PER_RESOURCE_MAX: Final = 1_000

# Metadata log.
METADATA_BATCH_BYTES_MAX: Final = 8 * MIB
"""One decision's records, encoded."""
METADATA_WAITING_MAX: Final = 10_000
"""Decisions that wait for their sync; more are refused."""
PRODUCER_ID_BLOCK_SIZE: Final = 1_000

# Files.
PAGE_BYTES: Final = 4 * KIB
"""What a write around the page cache is made of: no disk asks for more."""
DIRECT_BUFFER_BYTES: Final = 8 * MIB
"""Of one writer around the page cache: what is being written, and what comes meanwhile."""
DIRECT_BUFFERS_MAX: Final = 16
"""Writers around the page cache at once; the others go through it."""
OPEN_SEGMENT_FILES_MAX: Final = 4_000
"""Ceiling of the descriptor budget; the process limit may set it lower."""

# Stopping.
SHUTDOWN_TIMEOUT_MS: Final = 5_000
"""From SIGTERM to exit."""
