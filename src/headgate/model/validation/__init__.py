"""Validation: what an object is held against, and what is said about it.

`contract.py` tells contracts from functions, `json_schema.py` and the three data frame libraries
hold an object against them, `outcomes.py` keeps what each check said. Nothing here depends on the
network, the clock, chance, or the order of rows.
"""
