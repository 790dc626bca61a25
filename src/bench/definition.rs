//! What is measured and what must come out: a TOML file.
//!
//! A definition holds the query, where its input comes from, and for some sizes of the input the digest of the answer.
//! Every run is held to it, so that a wrong run fails however fast it was. A digest is only as good as what it was taken
//! from: `slackwater bench --bless` takes it from the brute-force oracle where the size permits.

use super::settings::{self, Variant};
use crate::error::{Error, Result};
use crate::plan::{GeneratorPlan, Program, ViewKind};
use crate::source::generator;
use crate::sql;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// What stands in the SQL for the options of the table that is read.
pub const INPUT: &str = "{input}";

/// The most records of an input.
const ROWS_MAX: u64 = 1 << 40;

/// A benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Its name: the file's without suffix, with the variant's behind it if it is one.
    pub name: String,
    /// Whether it is a variant of a file with several.
    pub variant: bool,
    /// What it measures, in a line.
    pub about: String,
    /// A table with a watermark whose options are [`INPUT`], and a view. No sinks.
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
    /// The built-in generator; `rows` of its settings is set for each run.
    Generated {
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
    /// SHA-256 of the metrics table as CSV; of views with windows.
    pub metrics: Option<String>,
}

impl Expect {
    /// The digest of one of the outputs, if the view has it.
    pub fn digest(&self, answer: Answer) -> Option<&str> {
        match answer {
            Answer::Metrics => self.metrics.as_deref(),
            Answer::Changelog => Some(&self.changelog),
        }
    }

    /// As it stands in a definition, or under one of its variants.
    pub fn to_toml(&self, variant: bool) -> String {
        let Expect { rows, changes, changelog, metrics } = self;
        let head = if variant { "[[variant.expect]]" } else { "[[expect]]" };
        let metrics = metrics.as_ref().map(|digest| format!("metrics = \"{digest}\"\n")).unwrap_or_default();
        format!("{head}\nrows = {rows}\nchanges = {changes}\nchangelog = \"{changelog}\"\n{metrics}")
    }
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    about: String,
    sql: Option<String>,
    sql_file: Option<String>,
    output: Option<Answer>,
    #[serde(default = "default_rows")]
    rows: u64,
    #[serde(default)]
    format: InputFormat,
    input: toml::Table,
    #[serde(default)]
    open: WrittenOpen,
    #[serde(default)]
    expect: Vec<Expect>,
    #[serde(default)]
    variant: Vec<Variant>,
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

impl Definition {
    /// Reads a file of definitions: one, or one for each of its variants. `name` is its name, `place` says for messages where it
    /// stands, and `read` gives the text of a file that it names, by the path as written.
    ///
    /// # Errors
    /// When it is not what a definition must be; the place is the definition's.
    pub fn parse(
        name: &str,
        place: &str,
        text: &str,
        read: &dyn Fn(&str) -> Result<String>,
    ) -> Result<Vec<Definition>> {
        let wrong = |message: String| Error::usage(message).at(place);
        let mut written: Written = toml::from_str(text).map_err(|e| wrong(e.to_string().trim_end().to_owned()))?;
        let sql = match (written.sql.take(), written.sql_file.take()) {
            (Some(sql), None) => sql,
            (None, Some(file)) => read(&file)?,
            _ => return Err(wrong("expected one of \"sql\" and \"sql_file\"".to_owned())),
        };
        let variants = std::mem::take(&mut written.variant);
        if variants.is_empty() {
            let input = settings::input(written.input.clone()).map_err(wrong)?;
            let definition = written.definition(name.to_owned(), sql, input);
            return Ok(vec![definition.checked(written.output, place)?]);
        }
        if !written.expect.is_empty() {
            return Err(wrong("with variants, answers are those of a variant: [[variant.expect]]".to_owned()));
        }
        let mut out: Vec<Definition> = Vec::new();
        for variant in variants {
            let name = format!("{name}-{}", variant.name);
            if out.iter().any(|other| other.name == name) {
                return Err(wrong(format!("two variants are called \"{}\"", variant.name)));
            }
            let input = settings::input(variant.over(&written.input)).map_err(wrong)?;
            let mut definition = written.definition(name, sql.clone(), input);
            definition.variant = true;
            definition.about = format!("{}, {}", definition.about, variant.about.unwrap_or(variant.name));
            definition.expect = variant.expect;
            out.push(definition.checked(written.output, place)?);
        }
        Ok(out)
    }

    /// The definition with its output, which `output` asks for.
    fn checked(mut self, output: Option<Answer>, place: &str) -> Result<Definition> {
        let check = |definition: &mut Definition| {
            definition.check()?;
            let answers = definition.answers()?;
            definition.output = output.or(answers.first().copied()).unwrap_or_default();
            if !answers.contains(&definition.output) {
                return Err(Error::usage("a view without windows has no metrics")
                    .with_hint("leave \"output\" out, or make it \"changelog\""));
            }
            Ok(())
        };
        check(&mut self).map_err(|error| if error.place().is_none() { error.at(place) } else { error })?;
        Ok(self)
    }

    fn check(&self) -> Result<()> {
        if self.sql.matches(INPUT).count() != 1 {
            return Err(Error::usage(format!("the SQL must hold {INPUT} once, as the options of its table"))
                .with_hint(format!("CREATE TABLE orders (…) WITH ({INPUT})")));
        }
        if let Input::Generated { .. } = self.input {
            self.check_rows(self.rows)?;
        }
        let OpenSettings { rate, seconds } = self.open;
        if !(rate > 0.0 && rate <= 1e9 && seconds > 0.0 && seconds <= 86_400.0) {
            return Err(Error::usage(format!(
                "[open]: expected a rate above 0 and at most 1000000000, and above 0 and at most 86400 seconds; found {rate} and {seconds}"
            )));
        }
        let answers = self.answers()?;
        for (i, expect) in self.expect.iter().enumerate() {
            if expect.metrics.is_some() != answers.contains(&Answer::Metrics) {
                return Err(Error::usage(format!(
                    "the answer to {} records: expected a digest of the metrics if the view has windows, and none if not",
                    expect.rows
                )));
            }
            let mut digests = std::iter::once(&expect.changelog).chain(&expect.metrics);
            if digests.any(|d| d.len() != 64 || d.bytes().any(|b| !matches!(b, b'0'..=b'9' | b'a'..=b'f'))) {
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
        match &self.input {
            Input::Generated { plan, .. } => {
                program.tables.iter().try_for_each(|table| generator::check_table(plan.workload, table))
            }
            Input::Replay(_) => Ok(()),
        }
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
            Input::Generated { plan, .. } => generator::check_plan(&GeneratorPlan { rows, ..plan.clone() }),
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
        self.look().map(|(name, _)| name)
    }

    /// The outputs that the view has; the usual one first.
    ///
    /// # Errors
    /// As [`Definition::program`].
    pub fn answers(&self) -> Result<&'static [Answer]> {
        let (_, windows) = self.look()?;
        Ok(if windows { &[Answer::Metrics, Answer::Changelog] } else { &[Answer::Changelog] })
    }

    /// The view's name, and whether it has windows.
    fn look(&self) -> Result<(String, bool)> {
        let text = self.sql.replace(INPUT, &self.options(&anywhere()));
        let program = sql::plan(&self.name, &text, &sql::BareSelectDefaults::default())?;
        match (program.tables.as_slice(), program.views.as_slice(), program.sinks.as_slice()) {
            ([table], [view], sinks) => match view.name.clone() {
                // A sink without a name is implied.
                Some(name) if table.event_time.is_some() && sinks.iter().all(|s| s.name.is_none()) => {
                    Ok((name, matches!(view.kind, ViewKind::Windowed(_))))
                }
                _ => Err(shape()),
            },
            _ => Err(shape()),
        }
    }
}

impl Written {
    /// The definition, not checked.
    fn definition(&self, name: String, sql: String, input: Input) -> Definition {
        Definition {
            name,
            variant: false,
            about: self.about.clone(),
            sql,
            output: Answer::default(),
            rows: self.rows,
            format: self.format,
            input,
            open: OpenSettings { rate: self.open.rate, seconds: self.open.seconds },
            expect: self.expect.clone(),
        }
    }
}

fn shape() -> Error {
    Error::usage("the SQL must be one table with a watermark, one view, and no sink")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Workload;

    const MINIMAL: &str = "about = 'x'\nsql = '''CREATE TABLE o (customer_id BIGINT, event_time TIMESTAMP, \
         WATERMARK FOR event_time AS event_time) WITH ({input});\nCREATE MATERIALIZED VIEW \"a \"\"b\" AS SELECT \
         customer_id, window_start, window_end, count(*) AS n FROM TUMBLE(o, event_time, INTERVAL '1 minute') \
         GROUP BY customer_id, window_start, window_end;'''\n[input]\ngenerator = 'orders'\n";

    fn parse_all(text: &str) -> Result<Vec<Definition>> {
        Definition::parse("d", "d.toml", text, &|file| Err(Error::usage(format!("no {file}"))))
    }

    fn parse(text: &str) -> Result<Definition> {
        parse_all(text).map(|mut all| all.pop().unwrap())
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
        assert_eq!(found.input, Input::Generated { plan: generator::default_plan(), partition_column: false });
        assert_eq!(found.open, OpenSettings { rate: 100_000.0, seconds: 20.0 });
        assert_eq!(found.expected(5), None);
    }

    #[test]
    fn the_settings_of_the_generator_are_those_of_gen() {
        let text = format!(
            "rows = 5\n{MINIMAL}keys = 7\nseed = 3\nrate = 50\npartitions = 2\ndelay_mean = '1s'\nlate_share = 0.5\n\
             late_max = '2m'\nsilent_every = '3m'\nsilent_for = '4s'\ndelay_quantiles = '1ms:50%,1s:100%'\ndelayed_keys = 0.25\n\
             key_delay = '7s'\nstart = '1970-01-01T00:00:01Z'\n"
        );
        let Input::Generated { plan, .. } = parse(&text).unwrap().input else { panic!("orders") };
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
            delay_quantiles: vec![(1_000, 0.5), (1_000_000, 1.0)],
            delayed_keys: 0.25,
            key_delay_us: 7_000_000,
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
        let expect = Expect { rows: 20, changes: 3, changelog: digest.clone(), metrics: Some(digest.clone()) };
        let found = parse(&format!("{MINIMAL}{}", expect.to_toml(false))).unwrap();
        assert_eq!(found.expected(20), Some(&expect));
        assert_eq!(found.expected(21), None);
        refused(&format!("{MINIMAL}{0}{0}", expect.to_toml(false)), "twice");
        refused(&format!("{MINIMAL}{}", expect.to_toml(false).replace("0123", "0X23")), "64 hexadecimal digits");
    }

    #[test]
    fn variants_are_definitions_of_their_own() {
        let digest = "0123456789abcdef".repeat(4);
        let expect = Expect { rows: 20, changes: 3, changelog: digest.clone(), metrics: Some(digest) };
        let text = format!(
            "{MINIMAL}late_share = 0.5\nkeys = 7\n[[variant]]\nname = 'a'\n[[variant]]\nname = 'b'\nabout = 'all late'\n\
             input.late_share = 1.0\n{}",
            expect.to_toml(true)
        );
        let found = parse_all(&text).unwrap();
        let plan = |d: &Definition| match &d.input {
            Input::Generated { plan, .. } => (plan.late_share, plan.keys),
            Input::Replay(_) => panic!("generated"),
        };
        let seen: Vec<_> = found.iter().map(|d| (d.name.as_str(), d.about.as_str(), d.variant, plan(d))).collect();
        assert_eq!(seen, [("d-a", "x, a", true, (0.5, 7)), ("d-b", "x, all late", true, (1.0, 7))]);
        assert_eq!((found[0].expected(20), found[1].expected(20)), (None, Some(&expect)));
        refused(&text.replace("'b'", "'a'"), "two variants are called \"a\"");
        refused(&text.replace("input.late_share = 1", "input.lat_share = 1"), "lat_share");
        refused(&text.replace("'b'", "'B/x'"), "expected a name");
        refused(&text.replace("[[variant.expect]]", "[[variant]]\nname = 'c'\n[[expect]]"), "[[variant.expect]]");
    }

    #[test]
    fn views_without_windows_have_a_changelog_only() {
        let (from, to) = (MINIMAL.find("SELECT").unwrap(), MINIMAL.find("[input]").unwrap() - 4);
        let text = format!("{}SELECT customer_id FROM o;{}", &MINIMAL[..from], &MINIMAL[to..]);
        let found = parse(&text).unwrap();
        assert_eq!((found.output, found.answers().unwrap()), (Answer::Changelog, &[Answer::Changelog][..]));
        refused(&format!("output = 'metrics'\n{text}"), "no metrics");
        let digest = "0123456789abcdef".repeat(4);
        let mut expect = Expect { rows: 20, changes: 20, changelog: digest.clone(), metrics: None };
        assert_eq!(parse(&format!("{text}{}", expect.to_toml(false))).unwrap().expected(20), Some(&expect));
        refused(&format!("{MINIMAL}{}", expect.to_toml(false)), "if the view has windows");
        expect.metrics = Some(digest);
        refused(&format!("{text}{}", expect.to_toml(false)), "if the view has windows");
    }

    #[test]
    fn mistakes_are_named() {
        refused("", "about");
        refused(&MINIMAL.replace("about", "abuot"), "abuot");
        refused(&MINIMAL.replace("{input}", ""), "{input}");
        refused(&MINIMAL.replace("sql = ", "sql_file = 'q'\nsql = "), "one of");
        refused(&MINIMAL.replace("orders'", "people'"), "expected \"orders\" or \"nexmark\", found \"people\"");
        refused(&MINIMAL.replace("orders'", "nexmark'"), "no column \"customer_id\"");
        refused(&format!("{}keys = 5\n", MINIMAL.replace("orders'", "nexmark'")), "input.keys: this is for orders");
        refused(&format!("{MINIMAL}delay_mean = '-1s'\n"), "delay_mean");
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
