-- Windows of 10 s every 5 s, and the default rule: each window is judged by its own end.
--
-- When the fourth record (time 40) comes, the watermark is 45: [35, 45) has closed and, without a horizon, stays as it
-- is; [40, 50) is still open and takes it. Lists stand in event-time order, so it reads a, d, b.
CREATE TABLE readings (
  pass BIGINT,
  payload TEXT,
  time TIMESTAMP,
  WATERMARK FOR time AS time - INTERVAL '5 seconds'
) WITH (connector = 'file', path = 'examples/hopping/readings.ndjson', time_unit = 's');

CREATE MATERIALIZED VIEW payloads AS
SELECT window_start, window_end, array_agg(payload) AS payloads
FROM HOP(readings, time, INTERVAL '5 seconds', INTERVAL '10 seconds')
WHERE pass > 0
GROUP BY window_start, window_end;

CREATE SINK changes FROM payloads WITH (connector = 'stdout');
