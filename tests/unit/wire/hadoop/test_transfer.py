"""Messages of the data transfer that are written by hand: the same bytes as protobuf's."""

import pytest

from headrace.wire.hadoop.protos import data_transfer_pb2 as pb
from headrace.wire.hadoop.transfer import encode_delimited, encode_read_answer


@pytest.mark.parametrize("checksum_type", [0, 1, 2])
@pytest.mark.parametrize("bytes_per_checksum", [1, 512, 1 << 20])
@pytest.mark.parametrize("offset", [0, 127, 128, 512, (1 << 27) - 512, 1 << 62])
def test_the_answer_to_a_read(checksum_type: int, bytes_per_checksum: int, offset: int) -> None:
    checksum = pb.ChecksumProto(
        type=checksum_type,  # type: ignore[arg-type]
        bytesPerChecksum=bytes_per_checksum,
    )
    info = pb.ReadOpChecksumInfoProto(checksum=checksum, chunkOffset=offset)
    answer = pb.BlockOpResponseProto(status=pb.Status.SUCCESS, readOpChecksumInfo=info)
    assert encode_read_answer(checksum_type, bytes_per_checksum, offset) == encode_delimited(answer)
