"""Spark Structured Streaming: micro-batches of one file each, in append mode.

Called by scripts/bench-peers: QUERY FOLDER OUT NAME=VALUE ... (OUT becomes a folder). The watermark moves between batches only, and what is
late is judged by the watermark of the batch before the last: a row is dropped if its window's end is at or before it. Windows that the
watermark has not reached at the end of the input are never written.
"""
import os
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, lit, window
from pyspark.sql.functions import sum as total

query, folder, out = sys.argv[1:4]
settings = dict(setting.split("=", 1) for setting in sys.argv[4:])
threads = settings["threads"]

spark = (
    SparkSession.builder.master(f"local[{threads}]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.memory", settings["memory"])
    .config("spark.sql.shuffle.partitions", threads)
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.log.level", "ERROR")
    .getOrCreate()
)
orders = (
    spark.readStream.schema("customer_id BIGINT, amount DECIMAL(12,2), event_time TIMESTAMP")
    .option("maxFilesPerTrigger", 1)
    .json(folder)
    .withWatermark("event_time", f"{settings['delay']} milliseconds")
)
windows = window("event_time", "60 seconds", "5 seconds") if query == "q2" else window("event_time", "60 seconds")
groups = [windows.alias("w")] if query == "q4" else [windows.alias("w"), "customer_id"]
answer = (
    orders.groupBy(*groups)
    .agg(count("*").alias("orders"), total("amount").alias("revenue"))
    .select(
        (col("w.start").cast("double") * 1000).cast("bigint").alias("window_start"),
        (lit(0) if query == "q4" else col("customer_id")).alias("customer_id"),
        "orders",
        "revenue",
    )
)
with tempfile.TemporaryDirectory() as checkpoint:
    written = answer.writeStream.outputMode("append").option("checkpointLocation", os.path.join(checkpoint, "c"))
    written.trigger(availableNow=True).format("csv").option("path", out).start().awaitTermination()
spark.stop()
