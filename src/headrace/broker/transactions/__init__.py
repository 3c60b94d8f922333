"""Transactions: the coordinator on `__transaction_state`, its state machine and its markers.

metadata · states     what is known of a transactional id
fencing adding ending expiry    decisions: pure, `now` is an argument
store shards          the log of the coordinator, loading it
coordinator           the door for handlers: decide, append, follow the log
markers               telling partition leaders how a transaction ended
verification producing   the produce path of transactional batches
"""
