"""PostgreSQL: connections, transactions, SQL files, the schema, and the embedded server.

Database, Link          a pool and its connections; transactions whose end is always known
Joined(db, link)        the same from inside an open transaction
queries.load(__file__)  the SQL beside a module
migrate.migrate(...)    the ledger's schema; also plan, check, require
embedded.start(home)    a server of our own, for one host; also `async with embedded(home)`
"""

from headgate.pg import embedded, migrate, queries
from headgate.pg.address import redact, where
from headgate.pg.database import Database
from headgate.pg.driver import Connection, Record
from headgate.pg.embedded import Server
from headgate.pg.joined import Joined
from headgate.pg.link import Link
from headgate.pg.migrate import Plan
from headgate.pg.queries import Queries

__all__ = [
    "Connection",
    "Database",
    "Joined",
    "Link",
    "Plan",
    "Queries",
    "Record",
    "Server",
    "embedded",
    "migrate",
    "queries",
    "redact",
    "where",
]
