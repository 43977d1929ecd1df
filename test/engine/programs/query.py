"""Runs queries with the Python client: python query.py URL FILE THREADS

FILE has one query a line, a word (run or cancel) before it. Prints a JSON line a query:
{"index", "queryId", "rows", "digest" (of the sorted rows), "error"}.
"""

import hashlib
import json
import sys
import threading
import time
from urllib.parse import urlparse

import trino


def connect(url):
    parts = urlparse(url)
    return trino.dbapi.connect(
        host=parts.hostname, port=parts.port, user="python", source="suite-python", timezone="UTC"
    )


def cancel_when_running(cursor, finished):
    while not finished.is_set():
        query = getattr(cursor, "_query", None)
        if query is not None and (query.stats or {}).get("state") == "RUNNING":
            cursor.cancel()
        time.sleep(0.02)


def run(connection, index, sql, cancel):
    rows, error = [], None
    cursor = connection.cursor()
    finished = threading.Event()
    if cancel:
        threading.Thread(target=cancel_when_running, args=(cursor, finished), daemon=True).start()
    try:
        cursor.execute(sql)
        rows = [repr(row) for row in cursor.fetchall()]
        if cancel and not rows:
            error = "cancelled"
    except Exception as e:  # noqa: BLE001: whatever the client says is what the test looks at
        error = str(e) or repr(e)
    finally:
        finished.set()
    query_id = getattr(getattr(cursor, "_query", None), "query_id", None)
    digest = hashlib.sha256("".join(f"{row}\n" for row in sorted(rows)).encode()).hexdigest()
    return {"index": index, "queryId": query_id, "rows": len(rows), "digest": digest, "error": error}


def work(url, lines, first, step, lock):
    connection = connect(url)
    for index in range(first, len(lines), step):
        word, sql = lines[index].split(" ", 1)
        outcome = run(connection, index, sql, word == "cancel")
        with lock:
            print(json.dumps(outcome), flush=True)


def main():
    url, file, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with open(file, encoding="utf-8") as source:
        lines = source.read().splitlines()
    lock = threading.Lock()
    workers = [threading.Thread(target=work, args=(url, lines, t, threads, lock)) for t in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


main()
