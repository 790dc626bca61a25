-- Departures from New York's three airports per hour of scheduled departure, in March 2013.
--
-- A flight's record is complete when it reaches its gate, hours after it was due to leave: half of the records are more
-- than 1.9 hours behind the newest departure seen, one in a hundred more than 7. With 4 hours of patience most hours are
-- right when they are first published; longer flights correct them for 3 hours more, and what comes after that is listed
-- in the late output.
-- At night nothing arrives: the idle timeout lets the airports' watermarks go on without each other.

CREATE TABLE flights (
  partition TEXT,                       -- the airport
  status TEXT,
  carrier TEXT,
  flight BIGINT,
  dep_delay BIGINT,                     -- minutes; NULL if cancelled
  distance BIGINT,
  event_time TIMESTAMP,
  arrival_time TIMESTAMP,
  WATERMARK FOR event_time AS event_time - INTERVAL '4 hours'
) WITH (
  connector = 'file', path = 'examples/flights/nyc_flights_2013-03.csv.gz',
  partition = 'partition', partitions = 'EWR,JFK,LGA', arrival_time = 'arrival_time', tick = '1 minute',
  idle_timeout = '2 hours'
  -- Each airport judged by its own watermark alone: lateness_scope = 'partition', without idle_timeout.
);

CREATE MATERIALIZED VIEW per_airport WITH (horizon = '3 hours', late = 'out/flights_late.csv') AS
SELECT partition AS airport, window_start, window_end,
       count(*) AS flights,
       count(*) FILTER (WHERE status = 'cancelled') AS cancelled,
       avg(dep_delay) AS mean_delay_min,
       approx_percentile(dep_delay, 0.9) AS p90_delay_min,
       count(DISTINCT carrier) AS carriers
FROM TUMBLE(flights, event_time, INTERVAL '1 hour')
GROUP BY partition, window_start, window_end;

CREATE SINK changes FROM per_airport WITH (connector = 'file', path = 'out/flights_changes.ndjson');
CREATE SINK metrics FROM per_airport WITH (connector = 'file', path = 'out/flights.csv', mode = 'metrics');
CREATE SINK backfills FROM per_airport WITH (connector = 'file', path = 'out/flights_backfills.csv', mode = 'backfills');
