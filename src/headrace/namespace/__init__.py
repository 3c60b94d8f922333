"""The NameNode: the tree of files, who writes which, where blocks are, and what must be copied.

Must not know: sockets, loops, clocks, dice (all handed in), the broker, the DataNode's insides.
The tree changes only by `Namespace.replay`; where replicas are is soft state, made of reports.
"""
