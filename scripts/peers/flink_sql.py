"""Flink SQL in a cluster inside one JVM: window functions over a file; rows go out when the watermark passes a window's end.

Called by scripts/bench-peers: QUERY FILE OUT NAME=VALUE ... (OUT becomes a folder). A record whose window has closed is dropped; SQL's
window functions know no allowed lateness. A window [start, end) is closed when the watermark reaches its last millisecond.
The watermark is emitted with every record (auto-watermark-interval 0), so that the answer does not depend on timing.
"""
import os
import sys

from pyflink.table import EnvironmentSettings, TableEnvironment

query, file, out = sys.argv[1:4]
settings = dict(setting.split("=", 1) for setting in sys.argv[4:])

flink = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
for name, value in {
    "execution.target": "local",
    "table.local-time-zone": "UTC",
    "parallelism.default": settings["threads"],
    "pipeline.auto-watermark-interval": "0 ms",
    "taskmanager.memory.managed.size": "512m",
}.items():
    flink.get_config().set(name, value)

flink.execute_sql(
    f"""CREATE TABLE orders (
          customer_id BIGINT, amount DECIMAL(12, 2), event_time TIMESTAMP_LTZ(3),
          WATERMARK FOR event_time AS event_time - INTERVAL '{int(settings["delay"]) // 1000}' SECOND
        ) WITH ('connector' = 'filesystem', 'path' = 'file://{os.path.abspath(file)}',
                'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601')"""
)
# Sums as text, because the CSV format writes some decimals with an exponent.
flink.execute_sql(
    f"""CREATE TABLE answer (window_start STRING, customer_id BIGINT, orders BIGINT, revenue STRING)
        WITH ('connector' = 'filesystem', 'path' = 'file://{os.path.abspath(out)}', 'format' = 'csv')"""
)
by_customer = query != "q4"
hop = "HOP(TABLE orders, DESCRIPTOR(event_time), INTERVAL '5' SECOND, INTERVAL '1' MINUTE)"
tumble = "TUMBLE(TABLE orders, DESCRIPTOR(event_time), INTERVAL '1' MINUTE)"
flink.execute_sql(
    f"""INSERT INTO answer
        SELECT CAST(window_start AS STRING), {"customer_id" if by_customer else "CAST(0 AS BIGINT)"},
               COUNT(*), CAST(SUM(amount) AS STRING)
        FROM TABLE({hop if query == "q2" else tumble})
        GROUP BY window_start, window_end{", customer_id" if by_customer else ""}"""
).wait()
