"""What `gputui gpus` shows of devices: those of this machine, and the nodes of a cluster.

What may enter: asking for a sample and laying it out as text and JSON. `gpus` is the verb itself, called by the door.
"""
