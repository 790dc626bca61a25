-- The same orders with 10 s of patience, but corrections for 5 s only: the last two orders come 10 s after their window
-- has closed and are too late. 12:00 keeps its first result, 3 orders; the summary counts 2 records too late, and the
-- late output lists them.
CREATE TABLE orders (
  order_id BIGINT,
  customer_id BIGINT,
  amount DECIMAL(12,2),
  event_time TIMESTAMP,
  WATERMARK FOR event_time AS event_time - INTERVAL '10 seconds'
) WITH (connector = 'file', path = 'examples/orders/orders.ndjson');

CREATE MATERIALIZED VIEW per_minute WITH (horizon = '5 seconds', late = 'out/orders_late.ndjson') AS
SELECT window_start, window_end, count(*) AS orders, sum(amount) AS revenue
FROM TUMBLE(orders, event_time, INTERVAL '1 minute')
GROUP BY window_start, window_end;

-- Every change, and then the windows that were corrected.
CREATE SINK changes FROM per_minute WITH (connector = 'stdout');
CREATE SINK backfills FROM per_minute WITH (connector = 'stdout', mode = 'backfills');
