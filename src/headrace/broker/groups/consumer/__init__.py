"""Consumer groups of the new protocol (KIP-848): the coordinator assigns, members reconcile.

member · group         who is in a group; a group changes by `replay` of its records alone
heartbeat              the one request: join, live, leave; a decision is records and an answer
target                 who should own what: the group's epoch and its assignors (uniform, range)
reconciliation         how one member goes from what it owns to what it should own
classic_members        members that still speak the classic protocol in such a group
conversion             classic groups that become consumer groups, and back
regex · subscriptions  topic names by pattern (`regex_syntax` reads it)
expiry                 silence, and who does not let go in time
records                all of it as records of `__consumer_offsets`, in Kafka's format
coordination           where decisions meet the log
"""
