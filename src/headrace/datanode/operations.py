"""The table of data transfer operations that are served.

READ_METADATA is dead in Hadoop 3, BLOCK_GROUP_CHECKSUM belongs to erasure coding, CUSTOM to
nobody: their opcodes are known and cost the connection.
"""

from headrace.datanode.balancing import replace_block
from headrace.datanode.block_checksum import block_checksum
from headrace.datanode.copying import transfer_block
from headrace.datanode.reading import (
    copy_block,
    read_block,
    release_short_circuit_fds,
    request_short_circuit_fds,
    request_short_circuit_shm,
)
from headrace.datanode.session import Start
from headrace.datanode.writing import write_block
from headrace.wire.hadoop.transfer import Op

OPERATIONS: dict[Op, Start] = {
    Op.WRITE_BLOCK: write_block,
    Op.READ_BLOCK: read_block,
    Op.TRANSFER_BLOCK: transfer_block,
    Op.COPY_BLOCK: copy_block,
    Op.REPLACE_BLOCK: replace_block,
    Op.BLOCK_CHECKSUM: block_checksum,
    Op.REQUEST_SHORT_CIRCUIT_FDS: request_short_circuit_fds,
    Op.RELEASE_SHORT_CIRCUIT_FDS: release_short_circuit_fds,
    Op.REQUEST_SHORT_CIRCUIT_SHM: request_short_circuit_shm,
}
