"""How far a follower cuts its log so that it agrees with the leader's.

Owns: the one rule, pure. Must not know: logs, requests.
Spec: KIP-101, KIP-279. A follower never truncates to its high watermark: that one lags, and what
lies above it may be acknowledged (KIP-101's first scenario).

    leader's answer  (epoch, end)   the largest epoch it has at or below ours, and where that ended
    ours             (epoch, end)   the same question put to our own log

If both name the same epoch, the logs agree up to the smaller end. If ours is older, all of ours
from its end on was written in epochs that the leader never had: cut there and ask again.
"""


def cut_for(
    leader_epoch: int, leader_end: int, own_epoch: int, own_end: int, log_end_offset: int
) -> int:
    """`own_*`: our log's answer for `leader_epoch`; an unknown epoch is -1."""
    if own_epoch == leader_epoch:
        return min(leader_end, own_end, log_end_offset)
    if own_epoch < 0:
        # Nothing of ours is as old as that epoch: only what the leader's has below its end.
        return min(leader_end, log_end_offset)
    return min(own_end, log_end_offset)
