"""DuckDB: the whole file, then one query. Called by scripts/bench-peers: QUERY FILE OUT.csv NAME=VALUE ...

mode=batch       a GROUP BY over everything: nothing is late
mode=watermark   Slackwater's rule in SQL: the stamp of a record is the greatest event time up to it in the order of the file, less the
                 delay, rounded down; what comes more than the horizon after its window's end is filtered out
Times are milliseconds.
"""
import sys

import duckdb

query, file, out = sys.argv[1:4]
settings = dict(setting.split("=", 1) for setting in sys.argv[4:])
threads, delay, horizon, granularity = (int(settings[name]) for name in ("threads", "delay", "horizon", "granularity"))

columns = "{order_id: 'BIGINT', customer_id: 'BIGINT', amount: 'DECIMAL(12,2)', event_time: 'TIMESTAMP', arrival_time: 'VARCHAR'}"
if file.endswith(".csv"):
    source = f"read_csv('{file}', header = true, columns = {columns})"
else:
    source = f"read_json('{file}', format = 'newline_delimited', columns = {columns})"
slide = 5000 if query == "q2" else 60000
customer = "0" if query == "q4" else "customer_id"

orders = f"SELECT {customer} AS customer_id, amount, epoch_ms(event_time) AS event_ms FROM {source}"
in_time = ""
if settings["mode"] == "watermark":
    # Without an ORDER BY the window runs over the rows as they are read.
    watermark = f"max(event_ms) OVER (ROWS UNBOUNDED PRECEDING) - {delay}"
    orders = f"SELECT *, {watermark} AS watermark FROM ({orders})"
    in_time = f"WHERE watermark - watermark % {granularity} <= window_start + 60000 + {horizon}"
if slide == 60000:
    windows = f"SELECT *, event_ms - event_ms % 60000 AS window_start FROM ({orders})"
else:
    windows = f"SELECT o.*, event_ms - event_ms % {slide} - back AS window_start FROM ({orders}) o, range(0, 60000, {slide}) r(back)"

connection = duckdb.connect()
connection.execute(f"SET threads = {threads}; SET TimeZone = 'UTC'")
connection.execute(
    f"""COPY (SELECT window_start, customer_id, count(*) AS orders, sum(amount) AS revenue
              FROM ({windows}) {in_time} GROUP BY window_start, customer_id)
        TO '{out}' (FORMAT csv, HEADER true)"""
)
