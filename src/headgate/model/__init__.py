"""Values. Nothing in here does I/O, reads a clock or rolls a die."""
