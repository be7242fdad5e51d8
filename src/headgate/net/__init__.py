"""The network below the rooms: guarded clients, sessions, signatures."""
