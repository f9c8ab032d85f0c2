"""The contract with the terminal: how the app gets one, draws on it, leaves it, and survives its loss.

What may enter: everything that relies on how this version of Textual works inside, and every byte to and from a tty.
Nothing here knows jobs or sessions.
Called by `tui.app`; its checks also by `cli.app`, before there is a screen.
"""
