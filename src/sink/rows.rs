//! Rows in a format: NDJSON, CSV, and by way of [`super::table`] and `parquet` the others.
//!
//! A row is given as cells, so that the columns of a sink and the columns of the query need not be copied together. Line ends are `\n` in every text format. Cost: one pass over the row; NDJSON keys are escaped
//! once.

use super::Flow;
use super::cell::Cell;
use super::file::{PipeWait, Prepared};
use super::table::TableWriter;
use super::target::{Output, StdoutHandle};
use super::text::{write_csv, write_csv_text, write_json, write_json_string};
use crate::error::{Error, Result};
use crate::plan::{SinkFormat, SinkTarget};
use crate::types::{DataType, Value};

/// Name and type of each column of a sink.
pub type Columns = [(String, DataType)];

/// Writes rows of one sink.
pub trait RowWriter: Send {
    /// Writes a row: its cells in order.
    ///
    /// # Errors
    /// When the bytes cannot be written; the error names the target.
    fn cells(&mut self, row: &[Cell<'_>]) -> Result<Flow>;
    /// Writes a row: its values in order, in parts.
    ///
    /// # Errors
    /// As [`Self::cells`].
    #[cfg(test)]
    fn write(&mut self, row: &[&[Value]]) -> Result<Flow> {
        self.cells(&row.iter().copied().flatten().map(Cell::Value).collect::<Vec<_>>())
    }
    /// Ends a watermark step that others follow at once.
    ///
    /// # Errors
    /// As [`Self::cells`].
    fn step(&mut self) -> Result<Flow> {
        Ok(Flow::Open)
    }
    /// Ends the last of several watermark steps: a reader that waits gets everything written so far. A file is left alone.
    ///
    /// # Errors
    /// When the bytes cannot be written.
    fn flush(&mut self) -> Result<Flow>;
    /// Writes the rest; a file has yet to get its name. A writer dropped instead leaves no file behind.
    ///
    /// # Errors
    /// When the bytes cannot be written or the file could not be renamed.
    fn prepare(self: Box<Self>) -> Result<Prepared>;
}

/// How sinks reach the outside.
#[derive(Clone, Debug, Default)]
pub struct OutputOptions {
    /// Whether standard output is a terminal: it then gets tables, else NDJSON, unless a format is stated.
    pub stdout_is_terminal: bool,
    /// Format of standard output for sinks that state none.
    pub stdout_format: Option<SinkFormat>,
    /// Standard output itself.
    pub stdout: StdoutHandle,
    /// How long named pipes wait for their readers.
    pub wait: PipeWait,
}

impl OutputOptions {
    /// Options for the process's own standard output.
    pub fn new(stdout_is_terminal: bool, stdout_format: Option<SinkFormat>) -> Self {
        OutputOptions { stdout_is_terminal, stdout_format, ..OutputOptions::default() }
    }
}

/// Opens a writer of rows with these columns. `title` names the sink where several share standard output.
///
/// # Errors
/// When the file cannot be created, the format cannot go there, or two columns have one name.
pub fn open(
    target: &SinkTarget,
    columns: &Columns,
    title: &str,
    options: &OutputOptions,
) -> Result<Box<dyn RowWriter>> {
    refuse_equal_names(columns)?;
    let format = match target {
        SinkTarget::File(_, format) => *format,
        SinkTarget::Stdout(format) => format.or(options.stdout_format).unwrap_or(if options.stdout_is_terminal {
            SinkFormat::Table
        } else {
            SinkFormat::Ndjson
        }),
    };
    if format == SinkFormat::Parquet {
        return open_parquet(target, columns, &options.wait);
    }
    let output = match target {
        SinkTarget::File(path, _) => Output::file(path, &options.wait)?,
        SinkTarget::Stdout(_) => Output::stdout(&options.stdout),
    };
    Ok(match format {
        SinkFormat::Csv => Box::new(TextWriter::new(RowEncoder::csv(columns), output)),
        SinkFormat::Table => Box::new(TableWriter::new(columns, title, output)),
        SinkFormat::Ndjson | SinkFormat::Parquet => Box::new(TextWriter::new(RowEncoder::ndjson(columns), output)),
    })
}

#[cfg(feature = "parquet")]
fn open_parquet(target: &SinkTarget, columns: &Columns, wait: &PipeWait) -> Result<Box<dyn RowWriter>> {
    match target {
        SinkTarget::File(path, _) => Ok(Box::new(super::parquet::ParquetWriter::create(path, columns, wait)?)),
        SinkTarget::Stdout(_) => Err(Error::usage("standard output cannot take Parquet")
            .with_hint("write to a file: CREATE SINK … WITH (connector = 'file', path = 'out.parquet')")),
    }
}

#[cfg(not(feature = "parquet"))]
fn open_parquet(_target: &SinkTarget, _columns: &Columns, _wait: &PipeWait) -> Result<Box<dyn RowWriter>> {
    Err(Error::usage("this build writes no Parquet")
        .with_hint("build with --features parquet, or write .ndjson or .csv"))
}

fn refuse_equal_names(columns: &Columns) -> Result<()> {
    let mut seen = std::collections::BTreeSet::new();
    match columns.iter().find(|(name, _)| !seen.insert(name)) {
        Some((name, _)) => Err(Error::usage(format!("two columns of the output are called \"{name}\""))
            .with_hint("give the query's column another name with AS")),
        None => Ok(()),
    }
}

/// Turns rows into lines of NDJSON or CSV.
#[derive(Clone, Debug)]
pub struct RowEncoder {
    names: Vec<String>,
    /// `{"a":`, `,"b":`, … for NDJSON; empty for CSV.
    keys: Vec<String>,
    json: bool,
}

impl RowEncoder {
    /// One JSON object a line.
    pub fn ndjson(columns: &Columns) -> Self {
        let key = |(i, (name, _)): (usize, &(String, DataType))| {
            let mut key = String::from(if i == 0 { "{" } else { "," });
            write_json_string(name, &mut key);
            key.push(':');
            key
        };
        RowEncoder { names: Vec::new(), keys: columns.iter().enumerate().map(key).collect(), json: true }
    }

    /// CSV with a header, delimiter `,`.
    pub fn csv(columns: &Columns) -> Self {
        RowEncoder { names: columns.iter().map(|(name, _)| name.clone()).collect(), keys: Vec::new(), json: false }
    }

    /// What stands before the first row: the header of CSV.
    pub fn write_header(&self, out: &mut String) {
        if self.json {
            return;
        }
        for (i, name) in self.names.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            write_csv_text(name, out);
        }
        out.push('\n');
    }

    /// Appends a row. A row is as long as the columns; what is too much is left out.
    pub fn write_row(&self, row: &[&[Value]], out: &mut String) {
        let cells = row.iter().copied().flatten().map(Cell::Value);
        if self.json {
            self.json_row(cells, out, |_, cell, out| cell.write_json(out))
        } else {
            self.csv_row(cells, out, |_, cell, out| cell.write_csv(out))
        }
    }

    fn json_row<'a>(
        &self,
        row: impl Iterator<Item = Cell<'a>>,
        out: &mut String,
        mut write: impl FnMut(usize, Cell<'a>, &mut String),
    ) {
        for (i, (key, cell)) in self.keys.iter().zip(row).enumerate() {
            out.push_str(key);
            write(i, cell, out);
        }
        out.push_str("}\n");
    }

    fn csv_row<'a>(
        &self,
        row: impl Iterator<Item = Cell<'a>>,
        out: &mut String,
        mut write: impl FnMut(usize, Cell<'a>, &mut String),
    ) {
        for (i, cell) in row.take(self.names.len()).enumerate() {
            if i > 0 {
                out.push(',');
            }
            write(i, cell, out);
        }
        out.push('\n');
    }
}

/// The last time that was written in each column, and its text: windows of many keys have the same.
#[derive(Debug, Default)]
struct Times(Vec<(i64, String)>);

impl Times {
    fn write(&mut self, column: usize, us: i64, quoted: bool, out: &mut String) {
        if self.0.len() <= column {
            self.0.resize(column + 1, (i64::MIN, String::new()));
        }
        let Some((last, text)) = self.0.get_mut(column) else { return };
        if *last != us || text.is_empty() {
            *last = us;
            text.clear();
            let value = Value::Timestamp(us);
            if quoted { write_json(&value, text) } else { write_csv(&value, text) }
        }
        out.push_str(text);
    }
}

/// A [`RowEncoder`] with its output.
struct TextWriter {
    encoder: RowEncoder,
    times: Times,
    output: Output,
}

impl TextWriter {
    fn new(encoder: RowEncoder, mut output: Output) -> Self {
        encoder.write_header(output.text());
        TextWriter { encoder, times: Times::default(), output }
    }
}

impl RowWriter for TextWriter {
    fn cells(&mut self, row: &[Cell<'_>]) -> Result<Flow> {
        let (times, out) = (&mut self.times, self.output.text());
        let cells = row.iter().copied();
        if self.encoder.json {
            self.encoder.json_row(cells, out, |i, cell, out| match cell.time() {
                Some(us) => times.write(i, us, true, out),
                None => cell.write_json(out),
            });
        } else {
            self.encoder.csv_row(cells, out, |i, cell, out| match cell.time() {
                Some(us) => times.write(i, us, false, out),
                None => cell.write_csv(out),
            });
        }
        self.output.row_done()
    }
    /// Sinks that share standard output take turns step by step, whether steps come one by one or together.
    fn step(&mut self) -> Result<Flow> {
        if self.output.is_shared() { self.flush() } else { Ok(Flow::Open) }
    }
    fn flush(&mut self) -> Result<Flow> {
        self.output.flush()
    }
    fn prepare(self: Box<Self>) -> Result<Prepared> {
        self.output.prepare()
    }
}

#[cfg(test)]
mod tests {
    use super::super::target::tests::Captured;
    use super::*;

    fn columns() -> Vec<(String, DataType)> {
        vec![
            ("op".into(), DataType::Text),
            ("the \"key\", quoted".into(), DataType::Text),
            ("total".into(), DataType::Decimal { precision: 38, scale: 2 }),
        ]
    }

    fn run(format: SinkFormat, rows: &[[Value; 3]]) -> String {
        let captured = Captured::new(usize::MAX);
        let options = OutputOptions { stdout: captured.handle(), ..OutputOptions::default() };
        let mut writer = open(&SinkTarget::Stdout(Some(format)), &columns(), "", &options).unwrap();
        for row in rows {
            let (first, then) = row.split_at(1);
            assert_eq!(writer.write(&[first, then]).unwrap(), Flow::Open);
        }
        assert_eq!(writer.prepare().unwrap().complete().unwrap(), Flow::Open);
        captured.text()
    }

    fn rows() -> [[Value; 3]; 2] {
        [
            [Value::Text("+I".into()), Value::Text("a,b".into()), Value::Decimal(-1250, 2)],
            [Value::Text("-D".into()), Value::Null, Value::Null],
        ]
    }

    #[test]
    fn ndjson() {
        assert_eq!(
            run(SinkFormat::Ndjson, &rows()),
            concat!(
                r#"{"op":"+I","the \"key\", quoted":"a,b","total":-12.50}"#,
                "\n",
                r#"{"op":"-D","the \"key\", quoted":null,"total":null}"#,
                "\n"
            )
        );
        assert_eq!(run(SinkFormat::Ndjson, &[]), "");
    }

    #[test]
    fn csv() {
        let header = "op,\"the \"\"key\"\", quoted\",total\n";
        assert_eq!(run(SinkFormat::Csv, &rows()), format!("{header}+I,\"a,b\",-12.50\n-D,,\n"));
        assert_eq!(run(SinkFormat::Csv, &[]), header);
    }

    #[test]
    fn standard_output_is_a_table_on_a_terminal_only() {
        for (terminal, format, first) in [
            (true, None, "op  the \"key\", quoted   total\n"),
            (false, None, "{\"op\":\"+I\""),
            (true, Some(SinkFormat::Csv), "op,\"the"),
        ] {
            let captured = Captured::new(usize::MAX);
            let options = OutputOptions { stdout: captured.handle(), ..OutputOptions::new(terminal, format) };
            let mut writer = open(&SinkTarget::Stdout(None), &columns(), "", &options).unwrap();
            assert_eq!(writer.write(&[&rows()[0]]).unwrap(), Flow::Open);
            assert_eq!(captured.text(), "");
            assert_eq!(writer.flush().unwrap(), Flow::Open);
            assert!(captured.text().starts_with(first), "{:?}", captured.text());
        }
    }

    #[test]
    fn refusals() {
        let twice = [("a".to_string(), DataType::Text), ("a".to_string(), DataType::Text)];
        let error = open(&SinkTarget::Stdout(None), &twice, "", &OutputOptions::default()).err().unwrap();
        assert_eq!(error.to_string(), "two columns of the output are called \"a\"");
        let parquet = SinkTarget::Stdout(Some(SinkFormat::Parquet));
        assert!(open(&parquet, &columns(), "", &OutputOptions::default()).is_err());
    }
}
