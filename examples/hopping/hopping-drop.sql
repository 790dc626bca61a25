-- Windows of 10 s every 5 s, and the strict rule: a record behind the watermark is dropped from all its windows.
--
-- The third record is filtered out, but it has moved the watermark to 45. The fourth (time 40) is behind that and is
-- dropped, also from [40, 50), which is still open: both windows hold a, b.
CREATE TABLE readings (
  pass BIGINT,
  payload TEXT,
  time TIMESTAMP,
  WATERMARK FOR time AS time - INTERVAL '5 seconds'
) WITH (connector = 'file', path = 'examples/hopping/readings.ndjson', time_unit = 's', late_records = 'drop');

CREATE MATERIALIZED VIEW payloads AS
SELECT window_start, window_end, array_agg(payload) AS payloads
FROM HOP(readings, time, INTERVAL '5 seconds', INTERVAL '10 seconds')
WHERE pass > 0
GROUP BY window_start, window_end;

CREATE SINK changes FROM payloads WITH (connector = 'stdout');
