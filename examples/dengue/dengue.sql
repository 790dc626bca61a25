-- Dengue cases in Puerto Rico per week of onset, 1990 to 2010, as the reports came in.
--
-- A case is dated by the week in which it began and arrives in the week in which it was reported; a tenth of the reports
-- are two weeks or more behind, one in a hundred five weeks or more, the slowest 25. Each week's count is published once the watermark has
-- passed it, and corrected for twelve weeks more; the backfills table then tells by how much the first figure fell short.
-- Windows are counted from 1970-01-01, a Thursday; the offset of four days makes weeks start on Monday.

CREATE TABLE cases (
  onset_week DATE,
  report_week DATE,
  event_time TIMESTAMP,
  arrival_time TIMESTAMP,
  WATERMARK FOR event_time AS event_time - INTERVAL '7 days'
) WITH (
  connector = 'file', path = 'examples/dengue/dengue_pr_1990-2010.csv.gz',
  arrival_time = 'arrival_time', tick = '1 day'
  -- One partition: both lateness scopes say the same, and there is nobody to be idle.
);

CREATE MATERIALIZED VIEW per_week WITH (horizon = '84 days', offset = '4 days', late = 'out/dengue_late.csv', spike_above = 10) AS
SELECT window_start, window_end, count(*) AS cases, max(report_week) AS last_report
FROM TUMBLE(cases, event_time, INTERVAL '7 days')
GROUP BY window_start, window_end;

CREATE SINK changes FROM per_week WITH (connector = 'file', path = 'out/dengue_changes.ndjson');
CREATE SINK metrics FROM per_week WITH (connector = 'file', path = 'out/dengue.csv', mode = 'metrics');
CREATE SINK backfills FROM per_week WITH (connector = 'file', path = 'out/dengue_backfills.csv', mode = 'backfills');
