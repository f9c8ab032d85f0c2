"""The owner: takes requests and reports, turn by turn: handle, place, commit, release, publish, answer.

What may enter: steps of a turn, requests that one turn carries out, and helpers that must not hold a turn up.
Nothing is done in the world before it is durable; nobody is answered before that either.
Called by `ownership.holding`; from other threads by `Owner.do`, from other processes through `session.control`.
"""
