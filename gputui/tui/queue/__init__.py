"""The queue pane: the table of jobs, its cursor and marks, and the line in which one filters.

What may enter: how rows are drawn and moved through; which jobs there are and in which order is `tui.model.rows`.
Called by `tui.screens`.
"""
