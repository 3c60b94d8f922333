"""The HDFS protocols as bytes: RPC frames, messages, data transfer packets and block files."""
