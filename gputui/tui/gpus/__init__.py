"""The GPU pane: text and layout of devices; `pane` alone knows Textual's widgets."""
