"""The queue pane: which jobs it shows, in which order, with which text, and how they are drawn."""
