"""The engine for a Slurm cluster. Attempts are batch jobs that are controlled through Slurm's command-line tools.

Claims and exit records are files in the session directory, on a file system shared by the nodes.
"""
