"""The DB-API's own tests of drivers (PEP 249), with tables in the memory catalog."""

import uuid

import dbapi20
import trino.dbapi
from conftest import HOST, PORT


class TestDbApi(dbapi20.DatabaseAPI20Test):
    driver = trino.dbapi
    connect_kw_args = {"host": HOST, "port": PORT, "user": "python", "catalog": "memory", "schema": "default"}
    table_prefix = f"dbapi20_{uuid.uuid4().hex}_"
    ddl1 = f"create table {table_prefix}booze (name varchar(20))"
    ddl2 = f"create table {table_prefix}barflys (name varchar(20), drink varchar(30))"
    xddl1 = f"drop table {table_prefix}booze"
    xddl2 = f"drop table {table_prefix}barflys"

    def test_setoutputsize(self):
        """The DB-API leaves it to drivers what this does."""

    def test_nextset(self):
        """The driver has one result a statement."""
        assert not hasattr(self.driver.connect(**self.connect_kw_args).cursor(), "nextset")
