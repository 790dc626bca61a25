-- The same orders with 30 s of patience: the watermark has only reached 12:00:50 when the last two come, so that they are
-- on time. 12:00 is published once, with 5 orders, and there is no backfill. The price is that results come 20 s later.
CREATE TABLE orders (
  order_id BIGINT,
  customer_id BIGINT,
  amount DECIMAL(12,2),
  event_time TIMESTAMP,
  WATERMARK FOR event_time AS event_time - INTERVAL '30 seconds'
) WITH (connector = 'file', path = 'examples/orders/orders.ndjson');

CREATE MATERIALIZED VIEW per_minute WITH (horizon = '180 seconds') AS
SELECT window_start, window_end, count(*) AS orders, sum(amount) AS revenue
FROM TUMBLE(orders, event_time, INTERVAL '1 minute')
GROUP BY window_start, window_end;

-- Every change, and then the windows that were corrected.
CREATE SINK changes FROM per_minute WITH (connector = 'stdout');
CREATE SINK backfills FROM per_minute WITH (connector = 'stdout', mode = 'backfills');
