"""Record batches into Arrow, by compiled code.

    walk       the headers of a fetched buffer: whole batches, CRC, aborted and control ones
    unfold     their records sections, decompressed into one arena where they are compressed
    kernels    two passes of machine code over the sections: parse, then copy (numba)
    columnar   the arrays as Arrow columns, without another copy
    checksum   the checksum of rows that files carry

Nothing here looks at a record in Python.
"""
