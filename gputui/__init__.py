"""gputui: a terminal app that embeds a GPU job scheduler."""

__version__ = "0.1.0"
