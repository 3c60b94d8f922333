"""Spark between the log and the file system.

Owns: reading ranges of the log into Arrow (`log_reader`), the Spark source `format("headrace")`
(`source`), and the flush that publishes files. Must not know: how brokers or NameNodes work
inside: it talks to both through `client` and public protocols, so Apache's serve as well.
"""
