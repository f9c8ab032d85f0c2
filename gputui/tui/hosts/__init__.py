"""The screen that shows several machines: whose their GPUs are, what is free, and the sessions there.

What may enter: how answers are drawn, and the app around them. Asking is done in `gputui.hosts`.
Called by `gputui hosts --live`.
"""
