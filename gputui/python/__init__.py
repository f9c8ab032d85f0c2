"""The Python API (`api`, re-exported by `gputui`), and the code that runs in users' Python interpreters
(`user_code`).
"""
