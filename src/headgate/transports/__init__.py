"""Wires: queues that hand us messages, and whether they are set as they must be."""
