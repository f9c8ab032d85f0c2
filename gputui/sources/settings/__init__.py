"""The one table of all that can be said of a job, and how words and values become rows of it.

What may enter: the table, what a row of it is, and readers of values; nothing that knows a kind of file.
Called by every source, and by whoever asks for settings: flags, forms, the settings file, the Python interface.
"""
