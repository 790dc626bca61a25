"""Polars: a lazy query over the whole file, with the streaming engine: nothing is late.

Called by scripts/bench-peers: QUERY FILE OUT.csv NAME=VALUE ... The number of threads comes in POLARS_MAX_THREADS.
"""
import sys

import polars as pl

query, file, out = sys.argv[1:4]
schema = {
    "order_id": pl.Int64,
    "customer_id": pl.Int64,
    "amount": pl.Float64,
    "event_time": pl.String,
    "arrival_time": pl.String,
}
scan = pl.scan_csv(file, schema=schema) if file.endswith(".csv") else pl.scan_ndjson(file, schema=schema)
orders = scan.select(
    customer_id=pl.lit(0, dtype=pl.Int64) if query == "q4" else pl.col("customer_id"),
    # Cents are exact; sums of doubles would not be.
    cents=(pl.col("amount") * 100).round().cast(pl.Int64),
    at=pl.col("event_time").str.to_datetime("%Y-%m-%dT%H:%M:%S%.3fZ", time_unit="ms").dt.epoch("ms"),
)
if query == "q2":
    back = pl.LazyFrame({"back": list(range(0, 60_000, 5_000))}, schema={"back": pl.Int64})
    windows = orders.join(back, how="cross").with_columns(
        window_start=pl.col("at") - pl.col("at") % 5_000 - pl.col("back")
    )
else:
    windows = orders.with_columns(window_start=pl.col("at") - pl.col("at") % 60_000)
answer = windows.group_by("window_start", "customer_id").agg(orders=pl.len(), cents=pl.col("cents").sum())
answer.select("window_start", "customer_id", "orders", "cents").sink_csv(out, engine="streaming")
