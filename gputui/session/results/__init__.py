"""Results of jobs in a session: logs are read as they grow, and what they say is kept per attempt.

What may enter: which files an attempt writes, how far they were read, the thread that reads them, and what the owner
keeps of it. What a line means is known in logs/metrics, what readings add up to in core/results. Called by the owner.
"""
