"""The crash breaker: pauses a scope (a group of jobs, or all) when jobs crash alike, and later tries one of them alone.

What may enter: pure decisions on failures, and what the store keeps of them; as pure as the rest of `core`.
Called by `core.scheduler`, `core.transitions`, `core.commands` and `core.placement`.
"""
