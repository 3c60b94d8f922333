"""A quorum in one process, by seed: replicas, disks, a network, faults, and checkers R1 to R12.

`seeds.run(seed)` is one whole life of a quorum; it raises a `Violation` that names the broken
rule. `bugs` are mistakes to be switched on, by which the checkers themselves are tested.
"""
