"""The command line: one module per command in `commands/`. `run/` and `app` own sessions.

Commands other than the app load neither Textual nor asyncio.
"""
