"""How fast Headgate is, measured beside a bare loop and beside others, on one server in one go.

    python -m bench                         everything; writes bench/latest.json
    python -m bench rows later --n 60000 --reps 3
    python -m bench --list

A bare loop runs right before and right after each workload. What counts is the ratio: the machine's
own speed, and what else it is doing, are in both of its terms.
"""
