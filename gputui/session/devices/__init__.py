"""The owner's view of devices. Samples are turned into facts for the scheduler, usage figures for attempts, and
pictures for viewers.

This package holds what connects `gpus` with a session: processes of jobs, leases, and slots that follow a file.
`gpus.external_processes` decides what counts as an external process, and `core.placement` what to do about it.
`session.owner` calls this package in its turns; `control` and `tui` send it requests.
"""
