//! What is measured and what must come out: a TOML file.
//!
//! A definition holds the query, where its input comes from, and for some sizes of the input the digest of the answer.
//! Every run is held to it, so that a wrong run fails however fast it was. A digest is only as good as what it was taken
//! from: `slackwater bench --bless` takes it from the brute-force oracle where the size permits.

use crate::error::{Error, Result};
use crate::plan::{GeneratorPlan, Program, ViewKind, ViewPlan, Workload};
use crate::source::generator;
use crate::sql;
use crate::time::{parse_duration, parse_timestamp};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// What stands in the SQL for the options of the table that is read.
pub const INPUT: &str = "{input}";

/// The most records of an input.
const ROWS_MAX: u64 = 1 << 40;

/// A benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Its name, the file's without suffix.
    pub name: String,
    /// What it measures, in a line.
    pub about: String,
    /// A table whose options are [`INPUT`], and a view. No sinks.
    pub sql: String,
    /// What the closed loop writes.
    pub output: Answer,
    /// Records unless other numbers are asked for; ignored when a file is replayed.
    pub rows: u64,
    /// Format of the input.
    pub format: InputFormat,
    /// Where records come from.
    pub input: Input,
    /// Open loop.
    pub open: OpenSettings,
    /// Answers known beforehand, one a size.
    pub expect: Vec<Expect>,
}

/// What of the answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The latest row of each window and key, as CSV.
    #[default]
    Metrics,
    /// Every change, as NDJSON.
    Changelog,
}

impl Answer {
    /// Its name as a mode of `CREATE SINK`.
    pub fn mode(self) -> &'static str {
        match self {
            Answer::Metrics => "metrics",
            Answer::Changelog => "changelog",
        }
    }

    /// The name of the file that it goes to.
    pub fn file(self) -> &'static str {
        match self {
            Answer::Metrics => "metrics.csv",
            Answer::Changelog => "changelog.ndjson",
        }
    }

    /// Lines of the file that are no rows.
    pub fn header_lines(self) -> u64 {
        match self {
            Answer::Metrics => 1,
            Answer::Changelog => 0,
        }
    }
}

/// Formats of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InputFormat {
    /// One JSON object a line.
    #[default]
    Ndjson,
    /// CSV with a header.
    Csv,
    /// Parquet; not in the open loop.
    Parquet,
}

impl InputFormat {
    /// Its name in SQL, and the suffix of files.
    pub fn name(self) -> &'static str {
        match self {
            InputFormat::Ndjson => "ndjson",
            InputFormat::Csv => "csv",
            InputFormat::Parquet => "parquet",
        }
    }
}

/// Where records come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The built-in generator of orders; `rows` of its settings is set for each run.
    Orders {
        /// Its settings.
        plan: GeneratorPlan,
        /// One file with all partitions and a column that names them, instead of a file each.
        partition_column: bool,
    },
    /// A file, or several by a pattern, as they are.
    Replay(PathBuf),
}

/// How records arrive in the open loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenSettings {
    /// Arrivals a second.
    pub rate: f64,
    /// Seconds of the schedule.
    pub seconds: f64,
}

/// The answer to an input of one size.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Records of the input.
    pub rows: u64,
    /// Rows of the changelog.
    pub changes: u64,
    /// SHA-256 of the changelog as NDJSON, in hexadecimal.
    pub changelog: String,
    /// SHA-256 of the metrics table as CSV.
    pub metrics: String,
}

impl Expect {
    /// The digest of one of the outputs.
    pub fn digest(&self, answer: Answer) -> &str {
        match answer {
            Answer::Metrics => &self.metrics,
            Answer::Changelog => &self.changelog,
        }
    }

    /// As it stands in a definition.
    pub fn to_toml(&self) -> String {
        let Expect { rows, changes, changelog, metrics } = self;
        format!(
            "[[expect]]\nrows = {rows}\nchanges = {changes}\nchangelog = \"{changelog}\"\nmetrics = \"{metrics}\"\n"
        )
    }
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    about: String,
    sql: Option<String>,
    sql_file: Option<String>,
    #[serde(default)]
    output: Answer,
    #[serde(default = "default_rows")]
    rows: u64,
    #[serde(default)]
    format: InputFormat,
    input: toml::Table,
    #[serde(default)]
    open: WrittenOpen,
    #[serde(default)]
    expect: Vec<Expect>,
}

fn default_rows() -> u64 {
    1_000_000
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenOpen {
    rate: f64,
    seconds: f64,
}

impl Default for WrittenOpen {
    fn default() -> Self {
        WrittenOpen { rate: 100_000.0, seconds: 20.0 }
    }
}

/// The settings of `slackwater gen`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenOrders {
    seed: Option<u64>,
    rate: Option<f64>,
    keys: Option<u64>,
    partitions: Option<u32>,
    #[serde(default)]
    partition_column: bool,
    delay_mean: Option<String>,
    late_share: Option<f64>,
    late_max: Option<String>,
    silent_every: Option<String>,
    silent_for: Option<String>,
    start: Option<String>,
}

impl WrittenOrders {
    fn input(self) -> Result<Input, String> {
        let mut plan = generator::default_plan();
        fn set<T>(to: &mut T, value: Option<T>) {
            value.into_iter().for_each(|value| *to = value);
        }
        set(&mut plan.seed, self.seed);
        set(&mut plan.rate, self.rate);
        set(&mut plan.keys, self.keys);
        set(&mut plan.partitions, self.partitions);
        set(&mut plan.late_share, self.late_share);
        let duration = |name: &str, text: Option<String>| {
            text.map(|t| parse_duration(&t).map_err(|e| format!("input.{name}: {e}"))).transpose()
        };
        set(&mut plan.delay_mean_us, duration("delay_mean", self.delay_mean)?);
        set(&mut plan.late_max_us, duration("late_max", self.late_max)?);
        set(&mut plan.silent_every_us, duration("silent_every", self.silent_every)?);
        set(&mut plan.silent_for_us, duration("silent_for", self.silent_for)?);
        if let Some(text) = self.start {
            plan.start_us = parse_timestamp(text.as_bytes()).ok_or_else(|| {
                format!("input.start: expected a time such as 2026-01-01T00:00:00Z, found \"{text}\"")
            })?;
        }
        Ok(Input::Orders { plan, partition_column: self.partition_column })
    }
}

impl Definition {
    /// Reads a definition. `name` is its name, `place` says for messages where it stands, and `read` gives the text of a
    /// file that it names, by the path as written.
    ///
    /// # Errors
    /// When it is not what a definition must be; the place is the definition's.
    pub fn parse(name: &str, place: &str, text: &str, read: &dyn Fn(&str) -> Result<String>) -> Result<Definition> {
        let wrong = |message: String| Error::usage(message).at(place);
        let written: Written = toml::from_str(text).map_err(|e| wrong(e.to_string().trim_end().to_owned()))?;
        let sql = match (written.sql, written.sql_file) {
            (Some(sql), None) => sql,
            (None, Some(file)) => read(&file)?,
            _ => return Err(wrong("expected one of \"sql\" and \"sql_file\"".to_owned())),
        };
        let input = input(written.input).map_err(wrong)?;
        let definition = Definition {
            name: name.to_owned(),
            about: written.about,
            sql,
            output: written.output,
            rows: written.rows,
            format: written.format,
            input,
            open: OpenSettings { rate: written.open.rate, seconds: written.open.seconds },
            expect: written.expect,
        };
        definition.check().map_err(|error| if error.place().is_none() { error.at(place) } else { error })?;
        Ok(definition)
    }

    fn check(&self) -> Result<()> {
        if self.sql.matches(INPUT).count() != 1 {
            return Err(Error::usage(format!("the SQL must hold {INPUT} once, as the options of its table"))
                .with_hint(format!("CREATE TABLE orders (…) WITH ({INPUT})")));
        }
        if let Input::Orders { .. } = self.input {
            self.check_rows(self.rows)?;
        }
        let OpenSettings { rate, seconds } = self.open;
        if !(rate > 0.0 && rate <= 1e9 && seconds > 0.0 && seconds <= 86_400.0) {
            return Err(Error::usage(format!(
                "[open]: expected a rate above 0 and at most 1000000000, and above 0 and at most 86400 seconds; found {rate} and {seconds}"
            )));
        }
        for (i, expect) in self.expect.iter().enumerate() {
            let digests = [&expect.changelog, &expect.metrics];
            if digests.iter().any(|d| d.len() != 64 || d.bytes().any(|b| !matches!(b, b'0'..=b'9' | b'a'..=b'f'))) {
                return Err(Error::usage(format!(
                    "the answer to {} records: a digest is 64 hexadecimal digits in lower case",
                    expect.rows
                )));
            }
            if self.expect.iter().take(i).any(|other| other.rows == expect.rows) {
                return Err(Error::usage(format!("the answer to {} records stands there twice", expect.rows)));
            }
        }
        let program = self.planned()?;
        let generated = matches!(self.input, Input::Orders { .. });
        program
            .tables
            .iter()
            .filter(|_| generated)
            .try_for_each(|table| generator::check_table(Workload::Orders, table))
    }

    /// Checks a number of records that an input is to have.
    ///
    /// # Errors
    /// When the generator cannot give so many, or they are far too many.
    pub fn check_rows(&self, rows: u64) -> Result<()> {
        if rows == 0 || rows > ROWS_MAX {
            return Err(Error::usage(format!("expected 1 to {ROWS_MAX} records, found {rows}")));
        }
        match &self.input {
            Input::Orders { plan, .. } => generator::check_plan(&GeneratorPlan { rows, ..plan.clone() }),
            Input::Replay(_) => Ok(()),
        }
    }

    /// The answer to an input of so many records, if it is known beforehand.
    pub fn expected(&self, rows: u64) -> Option<&Expect> {
        self.expect.iter().find(|e| e.rows == rows)
    }

    /// What stands for [`INPUT`].
    fn options(&self, feed: &Feed<'_>) -> String {
        let format = self.format.name();
        match feed {
            Feed::Stdin => format!("connector = 'stdin', format = '{format}'"),
            Feed::Files(path) => format!("connector = 'file', path = {}, format = '{format}'", quoted(path)),
        }
    }

    /// The program over some input, planned: for what does not depend on where it comes from.
    ///
    /// # Errors
    /// As [`Definition::program`].
    pub fn planned(&self) -> Result<Program> {
        self.program(&anywhere(), &Sink::Stdout)
    }

    /// The program: the definition's SQL over an input, with a sink.
    pub fn text(&self, feed: &Feed<'_>, view: &str, sinks: &Sink<'_>) -> String {
        let mut text = self.sql.replace(INPUT, &self.options(feed));
        let view = format!("\"{}\"", view.replace('"', "\"\""));
        text.push('\n');
        match sinks {
            Sink::Stdout => {
                text.push_str(&format!(
                    "CREATE SINK answer FROM {view} WITH (connector = 'stdout', format = 'ndjson');\n"
                ));
            }
            Sink::Files(files) => {
                for (answer, path) in *files {
                    let mode = answer.mode();
                    text.push_str(&format!(
                        "CREATE SINK {mode} FROM {view} WITH (connector = 'file', path = {}, mode = '{mode}');\n",
                        quoted(path)
                    ));
                }
            }
        }
        text
    }

    /// The program as [`Definition::text`] gives it, planned.
    ///
    /// # Errors
    /// When the SQL is wrong or is more than one table, one view and no sink.
    pub fn program(&self, feed: &Feed<'_>, sinks: &Sink<'_>) -> Result<Program> {
        sql::plan(&self.name, &self.text(feed, &self.view()?, sinks), &sql::BareSelectDefaults::default())
    }

    /// The name of the view whose answer counts.
    ///
    /// # Errors
    /// As [`Definition::program`].
    pub fn view(&self) -> Result<String> {
        let text = self.sql.replace(INPUT, &self.options(&anywhere()));
        let program = sql::plan(&self.name, &text, &sql::BareSelectDefaults::default())?;
        let windowed = |view: &&ViewPlan| matches!(view.kind, ViewKind::Windowed(_));
        let named = |view: &ViewPlan| view.name.clone();
        match (program.tables.as_slice(), program.views.as_slice(), program.sinks.as_slice()) {
            ([table], [view], sinks) => match Some(view).filter(windowed).and_then(named) {
                // One without a name is implied.
                Some(name) if table.event_time.is_some() && sinks.iter().all(|s| s.name.is_none()) => Ok(name),
                _ => Err(shape()),
            },
            _ => Err(shape()),
        }
    }
}

fn shape() -> Error {
    Error::usage("the SQL must be one table with a watermark, one view that groups by a window, and no sink")
        .with_hint("CREATE TABLE t (…, WATERMARK FOR …) WITH ({input}); CREATE MATERIALIZED VIEW v AS SELECT …")
}

/// How records come to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed<'a> {
    /// On standard input.
    Stdin,
    /// As files: a path or a pattern.
    Files(&'a Path),
}

/// Files that nobody looks for.
fn anywhere() -> Feed<'static> {
    Feed::Files(Path::new("input"))
}

/// Where the answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink<'a> {
    /// The changelog to standard output.
    Stdout,
    /// To files.
    Files(&'a [(Answer, PathBuf)]),
}

/// A path as a string of SQL.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "''"))
}

/// Either a generator with its options or a file.
fn input(mut table: toml::Table) -> Result<Input, String> {
    let text = |value: toml::Value, name: &str| match value {
        toml::Value::String(text) => Ok(text),
        other => Err(format!("input.{name}: expected a text, found {}", other.type_str())),
    };
    match (table.remove("generator"), table.remove("replay")) {
        (Some(generator), None) => match text(generator, "generator")?.as_str() {
            "orders" => {
                let written: WrittenOrders =
                    toml::Value::Table(table).try_into().map_err(|e| format!("input: {}", e.to_string().trim_end()))?;
                written.input()
            }
            other => Err(format!("input.generator: expected \"orders\", found \"{other}\"")),
        },
        (None, Some(replay)) => match table.keys().next() {
            None => Ok(Input::Replay(PathBuf::from(text(replay, "replay")?))),
            Some(more) => Err(format!("input: a replay has no \"{more}\"")),
        },
        _ => Err("input: expected one of \"generator\" and \"replay\"".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = "about = 'x'\nsql = '''CREATE TABLE o (customer_id BIGINT, event_time TIMESTAMP, \
         WATERMARK FOR event_time AS event_time) WITH ({input});\nCREATE MATERIALIZED VIEW \"a \"\"b\" AS SELECT \
         customer_id, window_start, window_end, count(*) AS n FROM TUMBLE(o, event_time, INTERVAL '1 minute') \
         GROUP BY customer_id, window_start, window_end;'''\n[input]\ngenerator = 'orders'\n";

    fn parse(text: &str) -> Result<Definition> {
        Definition::parse("d", "d.toml", text, &|file| Err(Error::usage(format!("no {file}"))))
    }

    #[track_caller]
    fn refused(text: &str, part: &str) {
        let error = parse(text).expect_err("refused");
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.place().is_some_and(|p| p.starts_with('d')), "{error}");
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let found = parse(MINIMAL).unwrap();
        assert_eq!((found.output, found.format, found.rows), (Answer::Metrics, InputFormat::Ndjson, 1_000_000));
        assert_eq!(found.input, Input::Orders { plan: generator::default_plan(), partition_column: false });
        assert_eq!(found.open, OpenSettings { rate: 100_000.0, seconds: 20.0 });
        assert_eq!(found.expected(5), None);
    }

    #[test]
    fn the_settings_of_the_generator_are_those_of_gen() {
        let text = format!(
            "rows = 5\n{MINIMAL}keys = 7\nseed = 3\nrate = 50\npartitions = 2\ndelay_mean = '1s'\nlate_share = 0.5\n\
             late_max = '2m'\nsilent_every = '3m'\nsilent_for = '4s'\nstart = '1970-01-01T00:00:01Z'\n"
        );
        let Input::Orders { plan, .. } = parse(&text).unwrap().input else { panic!("orders") };
        let expected = GeneratorPlan {
            workload: Workload::Orders,
            seed: 3,
            rows: generator::default_plan().rows,
            rate: 50.0,
            keys: 7,
            partitions: 2,
            delay_mean_us: 1_000_000,
            late_share: 0.5,
            late_max_us: 120_000_000,
            silent_every_us: 180_000_000,
            silent_for_us: 4_000_000,
            start_us: 1_000_000,
        };
        assert_eq!(plan, expected);
    }

    #[test]
    fn programs_read_what_they_are_given() {
        let found = parse(MINIMAL).unwrap();
        assert_eq!(found.view().unwrap(), "a \"b");
        let files = [(Answer::Changelog, PathBuf::from("it's/c.ndjson")), (Answer::Metrics, PathBuf::from("m.csv"))];
        let program = found.program(&Feed::Files(Path::new("x'y.ndjson")), &Sink::Files(&files)).unwrap();
        assert_eq!(program.sinks.len(), 2);
        assert_eq!(found.program(&Feed::Stdin, &Sink::Stdout).unwrap().sinks.len(), 1);
    }

    #[test]
    fn expectations_are_read_as_they_are_written() {
        let digest = "0123456789abcdef".repeat(4);
        let expect = Expect { rows: 20, changes: 3, changelog: digest.clone(), metrics: digest.clone() };
        let found = parse(&format!("{MINIMAL}{}", expect.to_toml())).unwrap();
        assert_eq!(found.expected(20), Some(&expect));
        assert_eq!(found.expected(21), None);
        refused(&format!("{MINIMAL}{0}{0}", expect.to_toml()), "twice");
        refused(&format!("{MINIMAL}{}", expect.to_toml().replace("0123", "0X23")), "64 hexadecimal digits");
    }

    #[test]
    fn mistakes_are_named() {
        refused("", "about");
        refused(&MINIMAL.replace("about", "abuot"), "abuot");
        refused(&MINIMAL.replace("{input}", ""), "{input}");
        refused(&MINIMAL.replace("sql = ", "sql_file = 'q'\nsql = "), "one of");
        refused(&MINIMAL.replace("orders'", "nexmark'"), "expected \"orders\", found \"nexmark\"");
        refused(&format!("{MINIMAL}replay = 'x'\n"), "one of \"generator\" and \"replay\"");
        refused(&MINIMAL.replace("generator = 'orders'", "replay = 'x'\nkeys = 5"), "a replay has no \"keys\"");
        refused(&format!("{MINIMAL}kyes = 1\n"), "kyes");
        refused(&format!("{MINIMAL}keys = 0\n"), "keys");
        refused(&format!("{MINIMAL}late_max = 'x'\n"), "input.late_max");
        refused(&format!("{MINIMAL}start = 'x'\n"), "input.start");
        refused(&format!("rows = 0\n{MINIMAL}"), "1 to");
        refused(&format!("{MINIMAL}[open]\nrate = 0\n"), "[open]");
        refused(&MINIMAL.replace("customer_id BIGINT", "customer BIGINT"), "customer");
        refused(&MINIMAL.replace("CREATE MATERIALIZED VIEW \"a \"\"b\" AS", ""), "one view");
        let with_sink = MINIMAL.replace("window_end;'''", "window_end;\nCREATE SINK s FROM \"a \"\"b\";'''");
        refused(&with_sink, "no sink");
    }
}
