-- Taxi trips in New York in March 2019: trips and takings of the last hour, every quarter of an hour.
--
-- The event is the pickup, the record comes at the dropoff: one in ten is more than 15 minutes behind the newest pickup
-- seen, one in a hundred more than 43. Times are local with their offset, across the change to summer time; money is
-- DECIMAL, so that sums are exact to the cent. The two colours of cab are partitions; green ones are rare.

CREATE TABLE trips (
  color TEXT,
  payment TEXT,
  pickup_borough TEXT,
  distance DOUBLE,                      -- miles
  fare DECIMAL(8,2),
  tip DECIMAL(8,2),
  total DECIMAL(8,2),
  event_time TIMESTAMP,
  arrival_time TIMESTAMP,
  partition TEXT,
  WATERMARK FOR event_time AS event_time - INTERVAL '15 minutes'
) WITH (
  connector = 'file', path = 'examples/taxi/nyc_taxi_2019-03.csv.gz',
  partition = 'partition', partitions = 'green,yellow', arrival_time = 'arrival_time',
  idle_timeout = '30 minutes'
  -- Each colour judged by its own watermark alone: lateness_scope = 'partition', without idle_timeout.
);

CREATE MATERIALIZED VIEW last_hour WITH (horizon = '30 minutes', late = 'out/taxi_late.csv') AS
SELECT color, window_start, window_end,
       count(*) AS trips, sum(total) AS takings, avg(total) AS mean_total, max(tip) AS best_tip,
       sum(tip) FILTER (WHERE payment = 'credit card') AS card_tips
FROM HOP(trips, event_time, INTERVAL '15 minutes', INTERVAL '60 minutes')
GROUP BY color, window_start, window_end;

CREATE SINK changes FROM last_hour WITH (connector = 'file', path = 'out/taxi_changes.ndjson');
CREATE SINK metrics FROM last_hour WITH (connector = 'file', path = 'out/taxi.csv', mode = 'metrics');
CREATE SINK backfills FROM last_hour WITH (connector = 'file', path = 'out/taxi_backfills.csv', mode = 'backfills');
