"""The network below the rooms: who may be reached, how it is asked, and with whose keys."""
