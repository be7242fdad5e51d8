"""The logical operation: key, lease, conditions, work, journal, without the runtime.

lifecycle   the nine steps, as a generator that stops where the caller's code is to be called
tx          SQL in the transaction that also records the operation
keeper      leases of this process, renewed while their work goes on
codec       results as bytes, and back
holder      who holds a lease, and whether that process is still there
"""
