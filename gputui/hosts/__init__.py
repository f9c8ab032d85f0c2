"""Other machines, reached through the user's own ssh: their status, and the choice of one for a job.

Nothing here listens on the network or handles passwords.
"""
