def first_bad_piece(
    pieces: list[memoryview], checksums: list[memoryview], chunk_bytes: int, /
) -> int:
    """The index of a piece that is not what its checksums say, or -1. Each starts a chunk."""
