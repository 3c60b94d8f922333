"""Share groups (KIP-932) where their records are: delivery, acknowledgement, and its state.

`persister` is the seam between both halves: whoever leads a partition of data hands out its
records and asks the persister to keep what became of them; `state` is where that is kept, in
`__share_group_state`. Membership is elsewhere (`broker.groups.share`).
"""
