"""Connections of the tests to the server at TRINO_URL."""

import os
import uuid
from urllib.parse import urlparse

import pytest
import trino

_server = urlparse(os.environ["TRINO_URL"])
HOST, PORT = _server.hostname, _server.port


def connect(**options):
    """A connection of user python; options are those of trino.dbapi.connect."""
    settings = {"host": HOST, "port": PORT, "user": "python", "timezone": "UTC", "request_timeout": 60, **options}
    return trino.dbapi.connect(**settings)


def rows_of(sql, params=None, **options):
    """All rows of a statement on a connection of its own."""
    with connect(**options) as connection:
        return connection.cursor().execute(sql, params).fetchall()


@pytest.fixture
def table():
    """The name of a table that no other test has; dropped at the end."""
    name = f"memory.default.python_{uuid.uuid4().hex}"
    yield name
    rows_of(f"DROP TABLE IF EXISTS {name}")
