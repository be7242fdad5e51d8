"""`headgate prove`: the user's own pipeline on scratch copies, killed, repeated and raced."""
