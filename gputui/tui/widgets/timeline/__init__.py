"""The timeline as cells: bars of jobs by lane, gaps with the colour of their reason, load, and tables of words below.

What may enter: drawing of what `core.timeline` computed; `chart` alone knows Textual's widgets.
Called by `tui.screens.timeline`.
"""
