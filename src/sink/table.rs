//! The aligned table for people: rows as they come, numbers to the right, plain text without frames or colour.
//!
//! A changelog has no end that one could wait for, so column widths settle with the first step and only ever grow. Rows
//! wait for the end of their step, at most `WAITING_ROWS_MAX` of them. Cost: one string a cell.

use super::Flow;
use super::cell::Cell;
use super::file::Prepared;
use super::rows::{Columns, RowWriter};
use super::target::Output;
use super::text::{display_width, write_cell, write_visible};
use crate::error::Result;
use crate::types::DataType;

/// Rows held back so that columns can be aligned.
const WAITING_ROWS_MAX: usize = 1_000;
/// A wider cell sticks out instead of widening its column.
const WIDTH_MAX: usize = 40;

/// Writes the table.
#[derive(Debug)]
pub struct TableWriter {
    title: String,
    header: Vec<String>,
    right: Vec<bool>,
    widths: Vec<usize>,
    waiting: Vec<Vec<String>>,
    header_written: bool,
    output: Output,
}

impl TableWriter {
    /// A table with these columns. The title is shown only where several tables share the output.
    pub fn new(columns: &Columns, title: &str, output: Output) -> Self {
        let visible = |text: &str| {
            let mut out = String::new();
            write_visible(text, &mut out);
            out
        };
        let header: Vec<String> = columns.iter().map(|(name, _)| visible(name)).collect();
        TableWriter {
            title: visible(title),
            widths: header.iter().map(|name| display_width(name)).collect(),
            right: columns.iter().map(|(_, dtype)| dtype.is_numeric() || *dtype == DataType::Interval).collect(),
            header,
            waiting: Vec::new(),
            header_written: false,
            output,
        }
    }

    /// Lays out the rows that wait.
    fn settle(&mut self) {
        for row in &self.waiting {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(display_width(cell).min(WIDTH_MAX));
            }
        }
        // Another table on the same terminal came in between: say again what follows.
        let again = self.header_written && self.output.is_shared() && self.output.is_interrupted();
        if !self.header_written || again {
            let (shared, begun) = (self.output.is_shared(), self.output.is_begun());
            let text = self.output.text();
            if shared {
                text.push_str(if begun { "\n" } else { "" });
                text.push_str(&self.title);
                text.push_str(":\n");
            }
            write_line(&self.header, &self.widths, &self.right, text);
            let rule: Vec<String> = self.widths.iter().map(|width| "-".repeat(*width)).collect();
            write_line(&rule, &self.widths, &self.right, text);
            self.header_written = true;
        }
        for row in self.waiting.drain(..) {
            write_line(&row, &self.widths, &self.right, self.output.text());
        }
    }
}

impl RowWriter for TableWriter {
    fn cells(&mut self, row: &[Cell<'_>]) -> Result<Flow> {
        let text = |cell: &Cell<'_>| {
            let mut out = String::new();
            cell.with(|value| write_cell(value, &mut out));
            out
        };
        self.waiting.push(row.iter().map(text).collect());
        if self.waiting.len() < WAITING_ROWS_MAX {
            return Ok(Flow::Open);
        }
        self.settle();
        self.output.row_done()
    }

    /// Widths settle step by step, whether steps come one by one or together.
    fn step(&mut self) -> Result<Flow> {
        self.flush()
    }

    fn flush(&mut self) -> Result<Flow> {
        if self.output.is_live() && !self.waiting.is_empty() {
            self.settle();
        }
        self.output.flush()
    }

    fn prepare(mut self: Box<Self>) -> Result<Prepared> {
        if !self.waiting.is_empty() || !self.header_written {
            self.settle();
        }
        self.output.prepare()
    }
}

/// Appends cells two spaces apart, without spaces at the end of the line.
fn write_line(cells: &[String], widths: &[usize], right: &[bool], out: &mut String) {
    let mut gap = 0;
    for ((cell, width), right) in cells.iter().zip(widths).zip(right) {
        let fill = width.saturating_sub(display_width(cell));
        let (before, after) = if *right { (fill, 0) } else { (0, fill) };
        if !cell.is_empty() {
            out.extend(std::iter::repeat_n(' ', gap + before));
            out.push_str(cell);
            gap = after + 2;
        } else {
            gap += fill + 2;
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::target::tests::Captured;
    use super::*;
    use crate::types::Value;

    fn columns() -> Vec<(String, DataType)> {
        vec![
            ("op".into(), DataType::Text),
            ("key".into(), DataType::Text),
            ("n".into(), DataType::BigInt),
            ("note".into(), DataType::Text),
        ]
    }
    fn row(key: &str, n: i64, note: Value) -> [Value; 4] {
        [Value::Text("+I".into()), Value::Text(key.into()), Value::BigInt(n), note]
    }

    #[test]
    fn widths_settle_with_the_first_step_and_grow() {
        let captured = Captured::new(usize::MAX);
        let mut table = Box::new(TableWriter::new(&columns(), "t", Output::stdout(&captured.handle())));
        assert_eq!(table.flush().unwrap(), Flow::Open);
        assert_eq!(captured.text(), "");
        for row in [row("a", 1, Value::Null), row("漢", 1000, Value::Text("".into()))] {
            assert_eq!(table.write(&[&row]).unwrap(), Flow::Open);
        }
        assert_eq!(table.flush().unwrap(), Flow::Open);
        assert_eq!(
            captured.text(),
            concat!("op  key     n  note\n", "--  ---  ----  ----\n", "+I  a       1  NULL\n", "+I  漢   1000\n",)
        );
        assert_eq!(table.write(&[&row("longer", 5, Value::Text("x\n".into()))]).unwrap(), Flow::Open);
        assert_eq!(table.write(&[&row(&"w".repeat(50), 5, Value::Null)]).unwrap(), Flow::Open);
        assert_eq!(table.prepare().unwrap().flow(), Flow::Open);
        let text = captured.text();
        let lines: Vec<&str> = text.lines().skip(4).collect();
        let wide = format!("+I  {}     5  NULL", "w".repeat(50));
        let padded = format!("+I  longer{}     5  x\\n", " ".repeat(34));
        assert_eq!(lines, [padded.as_str(), wide.as_str()]);
    }

    #[test]
    fn an_empty_table_has_a_header() {
        let captured = Captured::new(usize::MAX);
        let table = Box::new(TableWriter::new(&columns(), "t", Output::stdout(&captured.handle())));
        assert_eq!(table.prepare().unwrap().flow(), Flow::Open);
        assert_eq!(captured.text(), "op  key  n  note\n--  ---  -  ----\n");
    }

    #[test]
    fn tables_that_share_a_terminal_say_which_is_which() {
        let captured = Captured::new(usize::MAX);
        let handle = captured.handle();
        let mut one = Box::new(TableWriter::new(&columns()[..1], "one", Output::stdout(&handle)));
        let mut two = Box::new(TableWriter::new(&columns()[..1], "two", Output::stdout(&handle)));
        let plus = [Value::Text("+I".into())];
        for _ in 0..2 {
            assert_eq!(one.write(&[&plus]).unwrap(), Flow::Open);
            assert_eq!(one.flush().unwrap(), Flow::Open);
        }
        assert_eq!(two.write(&[&plus]).unwrap(), Flow::Open);
        assert_eq!(two.flush().unwrap(), Flow::Open);
        assert_eq!(one.write(&[&plus]).unwrap(), Flow::Open);
        assert_eq!(one.prepare().unwrap().flow(), Flow::Open);
        assert_eq!(captured.text(), "one:\nop\n--\n+I\n+I\n\ntwo:\nop\n--\n+I\n\none:\nop\n--\n+I\n");
    }
}
