-- Orders per minute, 10 s of patience, corrections for 3 minutes.
--
-- Seven orders; the last two come when their minute has been closed. The first result of 12:00 counts 3 orders and is
-- published when the watermark reaches 12:01:00. The two late orders find the watermark at 12:01:10, 10 s past the end
-- of their window: one correction, from 3 to 5.
CREATE TABLE orders (
  order_id BIGINT,
  customer_id BIGINT,
  amount DECIMAL(12,2),
  event_time TIMESTAMP,
  WATERMARK FOR event_time AS event_time - INTERVAL '10 seconds'
) WITH (connector = 'file', path = 'examples/orders/orders.ndjson');

CREATE MATERIALIZED VIEW per_minute WITH (horizon = '180 seconds') AS
SELECT window_start, window_end, count(*) AS orders, sum(amount) AS revenue
FROM TUMBLE(orders, event_time, INTERVAL '1 minute')
GROUP BY window_start, window_end;

-- Every change, and then the windows that were corrected.
CREATE SINK changes FROM per_minute WITH (connector = 'stdout');
CREATE SINK backfills FROM per_minute WITH (connector = 'stdout', mode = 'backfills');
