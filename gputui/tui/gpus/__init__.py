"""The GPU pane: the text and layout for devices. Only `pane` uses Textual widgets."""
