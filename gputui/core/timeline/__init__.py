"""A session against time: what ran where and when, what kept jobs from starting, and what is expected.

What may enter: the record of such stretches (`spans`), attempts by place (`rows`), columns and ticks (`cells`), idle
gaps and the future (`gaps`); all pure. Called by the store, by what sees devices, and by every view over time.
"""
