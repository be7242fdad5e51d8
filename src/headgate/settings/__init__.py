"""Settings: the environment and `headgate.toml` are read here and nowhere else.

A setting is declared once, as a field of `Settings` in table.py, with its default, what it allows
and what it is for. Its variable is HEADGATE_ and its name in capitals. Reading (load.py),
`headgate config show` and the reference page (reference.py) derive from that declaration.

Every command pays for importing this, so it costs no more than the standard library's small change.
"""

from .table import DECLARED, Row, Settings, variable

__all__ = ["DECLARED", "Row", "Settings", "variable"]
