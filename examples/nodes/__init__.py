"""Several nodes: one is killed, another restarted, and the group goes on."""
