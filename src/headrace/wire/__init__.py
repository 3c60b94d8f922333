"""The public protocols, as bytes: what a peer sends becomes values, and values become frames.

Nothing here opens a socket, reads a clock or knows what a request is for.
"""
