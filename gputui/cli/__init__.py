"""The command line. `verbs/` has a module for each command; `run/` and `app` own sessions; the rest is what they share.

Commands other than the app load neither Textual nor asyncio.
"""
