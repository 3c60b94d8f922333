"""The hot path's codecs in one place: Produce and Fetch without message objects.

Owns: nothing; `hot_produce` and `hot_fetch` do. They agree byte for byte with the compiled codec,
which the tests check for every version.
"""

from headrace.wire.kafka.hot_fetch import (
    FetchedPartition,
    FetchFrame,
    encode_fetch_response_head,
    parse_fetch,
)
from headrace.wire.kafka.hot_produce import ProduceFrame, encode_produce_response, parse_produce

__all__ = [
    "FetchFrame",
    "FetchedPartition",
    "ProduceFrame",
    "encode_fetch_response_head",
    "encode_produce_response",
    "parse_fetch",
    "parse_produce",
]
