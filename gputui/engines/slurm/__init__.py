"""The engine `slurm`: attempts are batch jobs of a cluster.

Slurm is driven by its command line (`commands.py`), whose answers are read in one place (`answers.py`). Claims and
exit records are files of the session's own folder, on the file system that the nodes share. Knows no session.
"""
