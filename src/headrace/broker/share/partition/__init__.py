"""A share-partition (KIP-932): which of a partition's records a share group has yet to deliver.

Pure: no files, no clocks, no persister. `states` are the words, `runs` the window of records in
flight, `acquiring` how records are handed out, `share_partition` every transition and what has to
be kept of it.
"""
