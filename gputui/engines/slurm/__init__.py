"""The engine of a Slurm cluster: a batch job for each attempt, its claim and exit record on the shared file system.

What may enter: what an attempt is in Slurm. `commands` runs Slurm's command line, `answers` reads what it says;
`supervisor` is the batch script and, with the claims, the exactly-once protocol: stored sessions depend on its form.
Called through `engines.protocol`.
"""
