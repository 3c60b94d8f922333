"""Whole clusters in one process: real nodes over simulated disks, clocks and networks, by seed."""
