"""SQLAlchemy over the Python client."""

import uuid

import pytest
import sqlalchemy as sa
from conftest import HOST, PORT
from trino.sqlalchemy import URL


@pytest.fixture
def engine():
    engine = sa.create_engine(URL(HOST, PORT, catalog="memory", schema="default", user="python"))
    yield engine
    engine.dispose()


@pytest.fixture
def people(engine):
    metadata = sa.MetaData()
    people = sa.Table(
        f"people_{uuid.uuid4().hex}",
        metadata,
        sa.Column("id", sa.BigInteger),
        sa.Column("name", sa.String),
        sa.Column("born", sa.Date),
    )
    metadata.create_all(engine)
    yield people
    metadata.drop_all(engine)


def test_insert_and_select(engine, people):
    with engine.begin() as connection:
        connection.execute(sa.insert(people), [{"id": 1, "name": "ann"}, {"id": 2, "name": "ü'?%"}])
        rows = connection.execute(sa.select(people.c.id, people.c.name).order_by(people.c.id)).fetchall()
    assert rows == [(1, "ann"), (2, "ü'?%")]


def test_reflection(engine, people):
    inspector = sa.inspect(engine)
    assert people.name in inspector.get_table_names("default")
    assert inspector.has_table(people.name)
    columns = inspector.get_columns(people.name)
    assert [(column["name"], str(column["type"])) for column in columns] == [
        ("id", "BIGINT"),
        ("name", "VARCHAR"),
        ("born", "DATE"),
    ]


def test_schemas(engine):
    assert {"default", "information_schema"} <= set(sa.inspect(engine).get_schema_names())


@pytest.mark.parametrize("name", ["nation", "region", "customer"])
def test_reflected_table(engine, name):
    other = sa.create_engine(URL(HOST, PORT, catalog="tpch", schema="tiny", user="python"))
    table = sa.Table(name, sa.MetaData(), autoload_with=other)
    with other.connect() as connection:
        [[count]] = connection.execute(sa.select(sa.func.count()).select_from(table)).fetchall()
        assert len(connection.execute(sa.select(table)).fetchall()) == count
    other.dispose()


def test_error(engine):
    with engine.connect() as connection, pytest.raises(sa.exc.DBAPIError, match="TABLE_NOT_FOUND"):
        connection.execute(sa.text("SELECT * FROM foobar"))


def test_pool_of_connections(engine):
    for number in range(20):
        with engine.connect() as connection:
            assert connection.execute(sa.select(sa.literal(number))).scalar() == number


def test_bound_parameters(engine):
    with engine.connect() as connection:
        sql = sa.text("SELECT name FROM tpch.tiny.nation WHERE nationkey IN (:a, :b) ORDER BY 1")
        assert connection.execute(sql, {"a": 1, "b": 2}).fetchall() == [("ARGENTINA",), ("BRAZIL",)]
