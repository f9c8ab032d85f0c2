"""What jobs printed: lines of files of any size, colours as data, progress, crash signatures, and the gate `plain`.

What may enter: reading and understanding output, without Textual and without a session: paths and bytes come in.
Text from outside becomes harmless here, before anybody shows it.
Called by every room above it; `session.owner` takes crash signatures from here.
"""
