"""The log pane: the streams of the job under the cursor, shown line by line."""
