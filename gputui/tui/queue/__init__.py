"""The queue pane: which jobs it shows and in which order, what a row says, and how it is drawn."""
