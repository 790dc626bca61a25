-- Earthquakes per seismic network and 6 hours, as they were reported and revised over a week.
--
-- Twelve networks report through one feed; each is a partition. An event's arrival is its latest revision, so that half
-- of the records are more than 3.6 hours behind the newest event seen, a tenth more than 45 hours.
-- Some networks report rarely (one of them once), and would hold the watermark back for ever: after a day of silence
-- (in arrival time) a network no longer counts.

CREATE TABLE quakes (
  id TEXT,
  partition TEXT,                       -- the network
  mag DOUBLE,
  "type" TEXT,
  event_time TIMESTAMP,
  arrival_time TIMESTAMP,
  WATERMARK FOR event_time AS event_time - INTERVAL '6 hours'
) WITH (
  connector = 'file', path = 'examples/quakes/usgs_quakes.ndjson.gz',
  partition = 'partition', arrival_time = 'arrival_time', tick = '1 minute',
  idle_timeout = '1 day'
  -- Leave idle_timeout out, and the quietest network holds every window open until the end of the input.
  -- Each network judged by its own watermark alone: lateness_scope = 'partition', without idle_timeout.
);

CREATE MATERIALIZED VIEW per_network WITH (horizon = '3 days', late = 'out/quakes_late.ndjson', spike_above = 5) AS
SELECT partition AS network, window_start, window_end,
       count(*) AS quakes, max(mag) AS strongest
FROM TUMBLE(quakes, event_time, INTERVAL '6 hours')
WHERE "type" = 'earthquake'
GROUP BY partition, window_start, window_end;

CREATE SINK changes FROM per_network WITH (connector = 'file', path = 'out/quakes_changes.ndjson');
CREATE SINK metrics FROM per_network WITH (connector = 'file', path = 'out/quakes.csv', mode = 'metrics');
CREATE SINK backfills FROM per_network WITH (connector = 'stdout', mode = 'backfills');
