"""Values of every type, inline, spooled and in each direction."""

import uuid
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from conftest import connect, rows_of

EXPRESSIONS = [
    "true",
    "CAST(NULL AS BOOLEAN)",
    "TINYINT '-128'",
    "SMALLINT '32767'",
    "INTEGER '-2147483648'",
    "BIGINT '9007199254740993'",
    "REAL '1.5'",
    "1e300",
    "infinity()",
    "-infinity()",
    "DECIMAL '12345678901234567890.123456789012345678'",
    "1.50",
    "'é ✓ ☃'",
    "''",
    "CAST('abc' AS CHAR(5))",
    "X'65683F'",
    "JSON '{\"a\":[1,null]}'",
    "DATE '2026-11-21'",
    "DATE '1582-10-10'",
    "TIME '01:02:03.123'",
    "TIME '01:02:03.123456789'",
    "TIME '01:02:03.456 +05:45'",
    "TIMESTAMP '2026-11-21 01:02:03'",
    "TIMESTAMP '2026-11-21 01:02:03.456789'",
    "TIMESTAMP '2026-11-21 01:02:03.123456789012'",
    "TIMESTAMP '2026-11-21 01:02:03.456 Europe/Berlin'",
    "TIMESTAMP '2026-11-21 01:02:03.456789 -08:00'",
    "INTERVAL '2' DAY",
    "INTERVAL '-3 04:05:06.789' DAY TO SECOND",
    "INTERVAL '3' MONTH",
    "INTERVAL '-1-2' YEAR TO MONTH",
    "UUID '12151fd2-7586-11e9-8f9e-2a86e4085a59'",
    "IPADDRESS '2001:db8::1'",
    "ARRAY[1, 2, NULL]",
    "ARRAY[ARRAY['a'], ARRAY[]]",
    "ARRAY[TIMESTAMP '2026-11-21 01:02:03.456 UTC', NULL]",
    "MAP(ARRAY['a', 'b'], ARRAY[1, NULL])",
    "MAP(ARRAY[1, 2], ARRAY[DATE '2026-11-21', NULL])",
    "ROW(1, 'x', NULL)",
    "CAST(ROW(1, 'x') AS ROW(number BIGINT, text VARCHAR))",
    "CAST(ROW(1, ARRAY[ROW(DECIMAL '1.1')]) AS ROW(a BIGINT, b ARRAY(ROW(c DECIMAL(2, 1)))))",
    "approx_set(1)",
]

# What the client makes of a value that the test need not compute.
REFERENCE = {
    "true": True,
    "CAST(NULL AS BOOLEAN)": None,
    "BIGINT '9007199254740993'": 9007199254740993,
    "1e300": 1e300,
    "1.50": Decimal("1.50"),
    "'é ✓ ☃'": "é ✓ ☃",
    "X'65683F'": b"eh?",
    "DATE '2026-11-21'": date(2026, 11, 21),
    "TIME '01:02:03.123'": time(1, 2, 3, 123000),
    "TIMESTAMP '2026-11-21 01:02:03.456789'": datetime(2026, 11, 21, 1, 2, 3, 456789),
    "INTERVAL '2' DAY": timedelta(days=2),
    "UUID '12151fd2-7586-11e9-8f9e-2a86e4085a59'": uuid.UUID("12151fd2-7586-11e9-8f9e-2a86e4085a59"),
    "ARRAY[1, 2, NULL]": [1, 2, None],
    "MAP(ARRAY['a', 'b'], ARRAY[1, NULL])": {"a": 1, "b": None},
    "ROW(1, 'x', NULL)": (1, "x", None),
}

ENCODINGS = [None, "json", "json+zstd", "json+lz4"]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("sql", EXPRESSIONS)
def test_value(sql, encoding):
    [[value]] = rows_of(f"SELECT {sql}", encoding=encoding)
    if sql in REFERENCE:
        assert value == REFERENCE[sql]
    # The text that the server makes of it is the same with every protocol.
    [[again]] = rows_of(f"SELECT {sql}")
    assert repr(value) == repr(again)


@pytest.mark.parametrize("sql", EXPRESSIONS)
def test_raw_value(sql):
    cursor = connect(legacy_primitive_types=True).cursor()
    [[value]] = cursor.execute(f"SELECT {sql}").fetchall()
    assert value is None or isinstance(value, (bool, int, float, str, list, tuple, dict, bytes))


PARAMETERS = [
    (None, "unknown"),
    (True, "boolean"),
    (2**40, "bigint"),
    (1.5, "double"),
    (Decimal("12.340"), "decimal(5,3)"),
    ("it's ? % {}", None),
    ("ü" * 4000, None),
    (b"\x00\xff", "varbinary"),
    (date(2026, 11, 21), "date"),
    (time(1, 2, 3, 4000), None),
    (datetime(2026, 11, 21, 1, 2, 3, 456789), "timestamp(6)"),
    (datetime(2026, 11, 21, 1, 2, 3, 456789, timezone.utc), "timestamp(6) with time zone"),
    (datetime(2026, 11, 21, 1, 2, 3, 456789, ZoneInfo("Europe/Berlin")), "timestamp(6) with time zone"),
    (uuid.UUID("12151fd2-7586-11e9-8f9e-2a86e4085a59"), "uuid"),
    ([1, 2, 3], "array(integer)"),
    ({"a": 1}, None),
]


@pytest.mark.parametrize("legacy", [True, False], ids=["prepare", "immediate"])
@pytest.mark.parametrize("value,kind", PARAMETERS)
def test_parameter(value, kind, legacy):
    sql = "SELECT ?, typeof(?)" if value is not None else "SELECT ?, 'unknown' WHERE ? IS NULL"
    [[back, of_type]] = rows_of(sql, (value, value), legacy_prepared_statements=legacy)
    assert back == value
    if kind is not None:
        assert of_type == kind
