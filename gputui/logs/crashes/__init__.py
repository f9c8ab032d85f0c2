"""Why a job failed, from the last lines that it printed: traces, complaints, consequences, kinds, likeness.

What may enter: rules about what programs, launchers, shells and drivers say, pure, and of bounded cost for any input.
Called by `logs.signatures` alone, which decides between them.
"""
