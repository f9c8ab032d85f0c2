"""Other machines, reached by the user's own ssh: where gputui is there, what they answer, which of them is free.

What may enter: command lines for ssh, what a machine tells of itself, who is asked and who is chosen. Nothing here
listens, and no password passes through it.
Called by the command line and by the screen that shows several machines.
"""
