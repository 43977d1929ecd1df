"""Runs transactions with the Python client: python transact.py URL COUNT THREADS

Each has two queries; every other one is rolled back. Prints a JSON line a transaction: {"index", "rows", "error"}.
"""

import json
import sys
import threading
from urllib.parse import urlparse

import trino
from trino.transaction import IsolationLevel


def transact(url, index):
    parts = urlparse(url)
    rows, error = 0, None
    try:
        connection = trino.dbapi.connect(
            host=parts.hostname,
            port=parts.port,
            user="python",
            source="suite-transactions",
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
        )
        for table in ("nation", "region"):
            cursor = connection.cursor()
            cursor.execute(f"SELECT name FROM tpch.tiny.{table}")
            rows += len(cursor.fetchall())
        if index % 2 == 0:
            connection.commit()
        else:
            connection.rollback()
    except Exception as e:  # noqa: BLE001: whatever the client says is what the test looks at
        error = str(e) or repr(e)
    return {"index": index, "rows": rows, "error": error}


def work(url, count, first, step, lock):
    for index in range(first, count, step):
        outcome = transact(url, index)
        with lock:
            print(json.dumps(outcome), flush=True)


def main():
    url, count, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    lock = threading.Lock()
    workers = [threading.Thread(target=work, args=(url, count, t, threads, lock)) for t in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


main()
