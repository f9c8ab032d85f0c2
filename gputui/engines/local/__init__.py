"""The engine of this machine: a wrapper in sh for each attempt, its claim file, its process tree, its recovery.

What may enter: what an attempt is as processes and claims; the Linux underneath is in `process`.
`wrapper` and `claims` are the exactly-once protocol: stored sessions depend on their form.
Called through `engines.protocol`; `session.store` reads claims when it rebuilds a damaged store.
"""
