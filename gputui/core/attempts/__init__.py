"""One attempt after the other: what a job asks for, what an attempt leaves of itself, and whether another follows.

What may enter: the user's wishes for a job in trouble, and pure decisions about them; as pure as the rest of `core`.
Called by `core.transitions` and `core.placement`; its words are read by `sources`.
"""
