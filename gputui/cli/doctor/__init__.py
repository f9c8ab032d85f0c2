"""What `gputui doctor` looks at: a module for each part of the machine, which gives findings with what to do.

What may enter: looking, without changing anything. A finding is `gputui.cli.doctor.machine.Finding`;
the verb prints them.
`doctor` is the verb itself, called by the door.
"""
