"""`gputui report`: a session as one page of HTML that needs nothing else, neither a network nor this program.

What may enter: what the page holds (contents.py), how it is put together (page.py), and its style and script.
Text from outside reaches the page only as JSON, and the document only as text nodes. Called by the verb.
"""
