"""The command line: what a user's words mean, what is printed, and with which status it ends.

What may enter: reading words, asking the user, printing, exit statuses; what a session decides belongs to `session`.
The rooms: `parsing` reads words, `output` prints, `verbs` has a module for each verb, `run` and `app` own sessions.
Called by `gputui.__main__` alone; nothing below imports it. Verbs load neither Textual nor asyncio.
"""
