"""`=`: what came of the session, on the whole screen; by itself when the last job ends and when the user comes back.

What may enter: how the summary is painted and when it is shown. What it says is made in core/views/summary.py.
"""
