"""`format("headrace")`: topics of a log as Spark DataFrames, batch and streaming.

    source_options   the options of Spark's own `kafka` source, read and refused
    positions        offsets of many partitions as one value, and as the checkpoint's JSON
    planning         where to start and stop, how much a trigger takes, what is lost: pure
    rows             raw columns as the source's columns
    readers          what Spark calls: the batch and the stream reader
    data_source      the class that Spark finds

Everything that knows PySpark is in the last two.
"""
