#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
sqlite-alone.py RECORDING...: what SQLite itself takes to write the rows of a recording, all in one transaction, with
no journal, and without anybody who has to make them: no recorder that uses it takes less. CPU, of the best of five.
"""

import os
import sqlite3
import sys
import tempfile
import time

ROUNDS = 5


def tables(db):
    return db.execute("SELECT name, sql FROM src.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").fetchall()


def seconds(statements, db):
    before = time.process_time()
    for statement in statements:
        db.execute(statement).fetchall()
    return time.process_time() - before


def alone(path, directory):
    """Seconds to write all rows, and of these to read them."""
    copy = os.path.join(directory, "copy")
    with open(copy, "wb"):
        pass
    db = sqlite3.connect(copy, isolation_level=None)
    db.execute("ATTACH ? AS src", (f"file:{os.path.abspath(path)}?mode=ro",))
    page_size, = db.execute("PRAGMA src.page_size").fetchone()
    db.execute(f"PRAGMA main.page_size = {page_size}")
    db.execute("PRAGMA main.journal_mode = OFF")
    db.execute("PRAGMA main.synchronous = OFF")
    read, write = [], ["BEGIN"]
    for name, sql in tables(db):
        db.execute(sql)
        columns = [row[1] for row in db.execute(f"PRAGMA src.table_info({name})")]
        # Columns by name: or SQLite would copy whole records without looking at them.
        names = ", ".join(f'"{column}"' for column in columns)
        read.append("SELECT " + ", ".join(f'max("{column}")' for column in columns) + f" FROM src.{name}")
        write.append(f"INSERT INTO main.{name}({names}) SELECT {names} FROM src.{name} ORDER BY rowid" if "WITHOUT ROWID" not in sql
                     else f"INSERT INTO main.{name}({names}) SELECT {names} FROM src.{name}")
    result = seconds(write + ["COMMIT"], db), seconds(read, db)
    db.close()
    return result


def main():
    with tempfile.TemporaryDirectory() as directory:
        for path in sys.argv[1:]:
            with sqlite3.connect(f"file:{os.path.abspath(path)}?mode=ro", uri=True) as db:
                samples, = db.execute("SELECT count(*) FROM sample").fetchone()
            written, read = min(alone(path, directory) for _ in range(ROUNDS))
            print(f"{path}: {samples} samples: {1e3 * written:.1f} ms, {1e6 * written / max(1, samples):.2f} us a sample, "
                  f"of which {1e3 * read:.1f} ms to read them")


main()
