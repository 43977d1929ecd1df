"""Statements, sessions, transactions and errors of the Python client."""

import threading
import time
import uuid

import pytest
import trino
import trino.client
from conftest import HOST, PORT, connect, rows_of
from trino.transaction import IsolationLevel

SLOW = "SELECT count(*) FROM tpch.sf1000.lineitem WHERE comment LIKE '%no such comment%'"
ENCODINGS = [None, "json", "json+zstd", "json+lz4"]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("rows", [0, 1, 999, 1001, 50_000])
def test_rows_in_order(rows, encoding):
    sql = f"SELECT n, 'row ' || CAST(n AS VARCHAR) FROM TABLE(sequence(1, 50000)) t (n) WHERE n <= {rows} ORDER BY n"
    expected = [[n, f"row {n}"] for n in range(1, rows + 1)]
    assert rows_of(sql, encoding=encoding) == expected


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", ["nation", "region", "customer", "supplier", "part", "orders"])
def test_tables(name, encoding):
    rows = rows_of(f"SELECT * FROM tpch.tiny.{name}", encoding=encoding)
    [[count]] = rows_of(f"SELECT count(*) FROM tpch.tiny.{name}")
    assert len(rows) == count
    assert sorted(map(repr, rows)) == sorted(map(repr, rows_of(f"SELECT * FROM tpch.tiny.{name}")))


def test_segments_of_the_spooled_protocol():
    cursor = connect(encoding="json+zstd").cursor("segment")
    cursor.execute("SELECT * FROM tpch.tiny.orders")
    segments = cursor.fetchall()
    assert len(segments) > 1
    assert sum(segment.segment.metadata["rowsCount"] for segment in segments) == 15000
    spooled = [segment for segment in segments if isinstance(segment.segment, trino.client.SpooledSegment)]
    assert len(spooled) > 1


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_fetchmany(size):
    cursor = connect().cursor().execute("SELECT nationkey FROM tpch.tiny.nation ORDER BY 1")
    fetched = []
    while rows := cursor.fetchmany(size):
        assert len(rows) <= size
        fetched += rows
    assert fetched == [[n] for n in range(25)]


def test_description():
    cursor = connect().cursor().execute("SELECT 1 AS a, CAST('x' AS VARCHAR(5)) AS b, DECIMAL '1.10' AS c")
    assert [(column.name, column.type_code) for column in cursor.description] == [
        ("a", "integer"),
        ("b", "varchar(5)"),
        ("c", "decimal(3, 2)"),
    ]


def test_describe():
    columns = connect().cursor().describe("SELECT nationkey, name FROM tpch.tiny.nation")
    assert [(column.name, column.type) for column in columns] == [("nationkey", "bigint"), ("name", "varchar(25)")]


def test_query_id_and_info():
    cursor = connect(source=f"python-{uuid.uuid4().hex}").cursor()
    cursor.execute("SELECT 1").fetchall()
    assert cursor.query_id in cursor.info_uri
    [[state]] = rows_of(f"SELECT state FROM system.runtime.queries WHERE query_id = '{cursor.query_id}'")
    assert state == "FINISHED"
    assert cursor.stats["state"] == "FINISHED"


@pytest.mark.parametrize(
    "sql,error,name",
    [
        ("SELEKT 1", trino.exceptions.TrinoUserError, "SYNTAX_ERROR"),
        ("SELECT * FROM tpch.tiny.foobar", trino.exceptions.TrinoUserError, "TABLE_NOT_FOUND"),
        ("SELECT * FROM foobar.tiny.nation", trino.exceptions.TrinoUserError, "CATALOG_NOT_FOUND"),
        ("SELECT 100 / (nationkey - 7) FROM tpch.tiny.nation", trino.exceptions.TrinoUserError, "DIVISION_BY_ZERO"),
        ("SHOW ROLES FROM hive", trino.exceptions.TrinoUserError, "PERMISSION_DENIED"),
        ("CALL system.runtime.kill_query('20200101_000000_00000_aaaaa')", trino.exceptions.TrinoUserError, "NOT_FOUND"),
    ],
)
@pytest.mark.parametrize("encoding", [None, "json"])
def test_errors(sql, error, name, encoding):
    with pytest.raises(error) as caught:
        rows_of(sql, encoding=encoding)
    assert caught.value.error_name == name
    assert caught.value.query_id is not None


def test_cancel():
    connection = connect(source=f"python-{uuid.uuid4().hex}")
    cursor = connection.cursor()
    failures = []

    def fetch():
        try:
            cursor.execute(SLOW).fetchall()
        except Exception as error:  # noqa: BLE001: looked at below
            failures.append(error)

    thread = threading.Thread(target=fetch)
    thread.start()
    state_of = f"SELECT query_id, state FROM system.runtime.queries WHERE source = '{connection.source}'"
    deadline = time.monotonic() + 30
    while not [query for query, state in rows_of(state_of) if state == "RUNNING"]:
        assert time.monotonic() < deadline
    [[query_id, _]] = rows_of(state_of)
    rows_of(f"CALL system.runtime.kill_query('{query_id}', 'enough')")
    thread.join(30)
    [failure] = failures
    assert failure.error_name == "ADMINISTRATIVELY_KILLED"
    assert "enough" in failure.message


def test_close_ends_the_query():
    cursor = connect(source=f"python-{uuid.uuid4().hex}").cursor()
    cursor.execute("SELECT * FROM tpch.sf1.orders")
    cursor.fetchone()
    query_id = cursor.query_id
    cursor.cancel()
    deadline = time.monotonic() + 30
    state = None
    while state != "FAILED":
        [[state]] = rows_of(f"SELECT state FROM system.runtime.queries WHERE query_id = '{query_id}'")
        assert time.monotonic() < deadline, state


@pytest.mark.parametrize("legacy", [True, False], ids=["prepare", "immediate"])
def test_tables_written(table, legacy):
    connection = connect(legacy_prepared_statements=legacy)
    cursor = connection.cursor()
    cursor.execute(f"CREATE TABLE {table} (n BIGINT, t VARCHAR)").fetchall()
    cursor.execute(f"INSERT INTO {table} VALUES (?, ?)", (1, "one"))
    assert cursor.rowcount == 1
    cursor.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(2, "two"), (3, None)])
    assert rows_of(f"SELECT * FROM {table} ORDER BY n") == [[1, "one"], [2, "two"], [3, None]]
    assert cursor.execute(f"SELECT t FROM {table} WHERE n = ?", (2,)).fetchall() == [["two"]]


def test_use_keeps_catalog_and_schema():
    connection = connect(catalog="memory", schema="default")
    cursor = connection.cursor()
    cursor.execute("USE tpch.tiny").fetchall()
    assert cursor.execute("SELECT count(*) FROM region").fetchall() == [[5]]
    assert cursor.execute("SELECT current_catalog, current_schema").fetchall() == [["tpch", "tiny"]]


def test_session_properties():
    connection = connect(session_properties={"query_max_run_time": "17m"})
    cursor = connection.cursor()
    show = "SHOW SESSION LIKE 'query_max_run_time'"
    assert cursor.execute(show).fetchall()[0][1] == "17m"
    cursor.execute("SET SESSION query_max_run_time = '18m'").fetchall()
    assert cursor.execute(show).fetchall()[0][1] == "18m"
    cursor.execute("RESET SESSION query_max_run_time").fetchall()
    assert cursor.execute(show).fetchall()[0][1] == "100.00d"


@pytest.mark.parametrize("role", ["admin", "NONE", "ALL"])
def test_roles_of_the_connection(role):
    show = "SHOW ROLES FROM hive"
    if role == "admin":
        assert ["admin"] in rows_of(show, roles={"hive": role})
    else:
        with pytest.raises(trino.exceptions.TrinoUserError, match="Access Denied"):
            rows_of(show, roles={"hive": role})


def test_role_that_is_set():
    cursor = connect().cursor()
    cursor.execute("SET ROLE admin IN hive").fetchall()
    assert ["admin"] in cursor.execute("SHOW ROLES FROM hive").fetchall()
    cursor.execute("SET ROLE NONE IN hive").fetchall()
    with pytest.raises(trino.exceptions.TrinoUserError, match="Access Denied"):
        cursor.execute("SHOW ROLES FROM hive").fetchall()


def test_session_authorization():
    connection = connect()
    cursor = connection.cursor()
    cursor.execute("SET SESSION AUTHORIZATION python").fetchall()
    assert cursor.execute("SELECT current_user").fetchall() == [["python"]]
    cursor.execute("RESET SESSION AUTHORIZATION").fetchall()
    with pytest.raises(trino.exceptions.TrinoUserError, match="cannot impersonate user ann"):
        cursor.execute("SET SESSION AUTHORIZATION ann").fetchall()


def test_client_tags_and_source():
    source = f"python-{uuid.uuid4().hex}"
    cursor = connect(source=source, client_tags=["one", "two"]).cursor()
    cursor.execute("SELECT 1").fetchall()
    assert rows_of(f"SELECT source FROM system.runtime.queries WHERE query_id = '{cursor.query_id}'") == [[source]]


def test_extra_credentials_and_headers():
    options = {"extra_credential": [("name", "value")], "http_headers": {"X-Trino-Client-Info": "suite"}}
    assert rows_of("SELECT 1", **options) == [[1]]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Los_Angeles"])
def test_time_zone(zone):
    assert rows_of("SELECT current_timezone()", timezone=zone) == [[zone]]


@pytest.mark.parametrize("isolation", list(IsolationLevel)[1:])
def test_transaction_levels(isolation):
    connection = connect(isolation_level=isolation)
    cursor = connection.cursor()
    if isolation is IsolationLevel.READ_UNCOMMITTED:
        assert cursor.execute("SELECT count(*) FROM tpch.tiny.nation").fetchall() == [[25]]
        connection.commit()
    else:
        # The catalog tpch has the lowest level alone; others come to the server, which says so or not.
        assert cursor.execute("SELECT 1").fetchall() == [[1]]
        connection.rollback()


def test_transactions_one_after_the_other():
    connection = connect(isolation_level=IsolationLevel.READ_UNCOMMITTED)
    for end in (connection.commit, connection.rollback) * 5:
        for number in range(3):
            assert connection.cursor().execute(f"SELECT {number}").fetchall() == [[number]]
        end()


def test_transaction_that_fails():
    connection = connect(isolation_level=IsolationLevel.READ_UNCOMMITTED)
    cursor = connection.cursor()
    with pytest.raises(trino.exceptions.TrinoUserError):
        cursor.execute("SELECT * FROM tpch.tiny.foobar").fetchall()
    # The server answers that the query failed before it marks the transaction: a statement in between still succeeds.
    with pytest.raises(trino.exceptions.TrinoUserError) as caught:
        for _ in range(100):
            cursor.execute("SELECT 1").fetchall()
    assert caught.value.error_name == "TRANSACTION_ALREADY_ABORTED"
    connection.rollback()
    assert connection.cursor().execute("SELECT 2").fetchall() == [[2]]


def test_many_prepared_statements():
    connection = connect(legacy_prepared_statements=True)
    cursor = connection.cursor()
    for number in range(40):
        assert cursor.execute("SELECT ? + 1", (number,)).fetchall() == [[number + 1]]


def test_large_statement():
    values = ", ".join(f"'{number:060}'" for number in range(8000))
    sql = f"SELECT count(*) FROM (VALUES 'x') t (v) WHERE v NOT IN ({values})"
    assert rows_of(sql) == [[1]]


def test_statement_over_the_servers_limit():
    with pytest.raises(trino.exceptions.TrinoUserError) as caught:
        rows_of(f"SELECT '{'x' * 5_100_000}'")
    assert caught.value.error_name == "QUERY_TEXT_TOO_LARGE"


def test_threads_that_share_a_connection():
    connection = connect()
    results = {}

    def work(number):
        results[number] = connection.cursor().execute(f"SELECT {number}, count(*) FROM tpch.tiny.nation").fetchall()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {number: [[number, 25]] for number in range(16)}


def test_url_with_a_path_that_is_none():
    connection = trino.dbapi.connect(host=f"http://{HOST}:{PORT}", user="python")
    assert connection.cursor().execute("SELECT 1").fetchall() == [[1]]
