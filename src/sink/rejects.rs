//! The reject output, and the first rejects as they are shown at the end of a run.
//!
//! Columns: `partition`, `position`, `place` (file and line), `reason`, `detail`, `raw` (the record's text). Bytes that are not
//! UTF-8 stand in `raw` with U+FFFD for what cannot be shown, and exactly, in hexadecimal, in `raw_hex`: in CSV that column is
//! always there, in NDJSON only on such rows. Sources without text have a NULL `raw`.

use super::cell::Cell;
use super::late::is_csv;
use super::rows::RowEncoder;
use super::text::write_visible;
use crate::record::RejectReason;
use crate::types::{DataType, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Rejects shown at the end of a run.
const SHOWN_MAX: usize = 10;

/// A rejected record.
#[derive(Clone, Debug, PartialEq)]
pub struct RejectRow<'a> {
    /// File and line: `orders.ndjson:812`.
    pub place: &'a str,
    /// The partition's name, if it could be told.
    pub partition: Option<&'a str>,
    /// Line number or offset in the partition.
    pub position: u64,
    /// Why.
    pub reason: RejectReason,
    /// What was expected and found.
    pub detail: &'a str,
    /// The record's bytes, without line end; `None` for sources without text.
    pub raw: Option<&'a [u8]>,
}

/// Writes rejects as NDJSON or CSV.
#[derive(Clone, Debug)]
pub struct RejectEncoder {
    text: RowEncoder,
    /// With the column `raw_hex`.
    binary: RowEncoder,
    csv: bool,
}

impl RejectEncoder {
    /// For a file of this name: CSV if its suffix says so, else NDJSON.
    pub fn new(path: &str) -> RejectEncoder {
        let names = ["partition", "position", "place", "reason", "detail", "raw", "raw_hex"];
        let columns = names.map(|name| (name.to_string(), DataType::Text));
        let csv = is_csv(path);
        let (text, _) = columns.split_at(columns.len() - 1);
        RejectEncoder {
            text: RowEncoder::ndjson(text),
            binary: if csv { RowEncoder::csv(&columns) } else { RowEncoder::ndjson(&columns) },
            csv,
        }
    }

    /// What stands before the first row.
    pub fn header(&self) -> String {
        let mut out = String::new();
        self.binary.write_header(&mut out);
        out
    }

    /// Appends a row.
    pub fn encode(&self, row: &RejectRow<'_>, out: &mut String) {
        let text = |text: &str| Value::Text(text.into());
        let hex = row.raw.filter(|raw| std::str::from_utf8(raw).is_err()).map(hexadecimal);
        let encoder = if self.csv || hex.is_some() { &self.binary } else { &self.text };
        let values = [
            row.partition.map_or(Value::Null, text),
            Cell::count(row.position).value(),
            text(row.place),
            text(row.reason.name()),
            text(row.detail),
            row.raw.map_or(Value::Null, |raw| text(&String::from_utf8_lossy(raw))),
            hex.map_or(Value::Null, |hex| text(&hex)),
        ];
        encoder.write_row(&[&values], out);
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// The first ten rejects by (partition order, position), whatever the order in which they are found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstRejects {
    first: BTreeSet<(u32, u64, String)>,
    total: u64,
}

impl FirstRejects {
    /// Counts a reject and keeps it if it is among the first.
    pub fn offer(&mut self, partition_order: u32, position: u64, place: &str, detail: &str) {
        self.total += 1;
        let full = self.first.len() >= SHOWN_MAX;
        if full && self.first.last().is_some_and(|(o, p, _)| (*o, *p) < (partition_order, position)) {
            return;
        }
        let mut line = String::new();
        write_visible(place, &mut line);
        line.push_str(": ");
        write_visible(detail, &mut line);
        self.keep((partition_order, position, line));
    }

    fn keep(&mut self, reject: (u32, u64, String)) {
        self.first.insert(reject);
        if self.first.len() > SHOWN_MAX {
            self.first.pop_last();
        }
    }

    /// Takes over what another worker found.
    pub fn merge(&mut self, other: FirstRejects) {
        self.total += other.total;
        other.first.into_iter().for_each(|reject| self.keep(reject));
    }

    /// Rejects in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The lines to show: the first ten, and how many more there are. Control characters are escaped.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.first.iter().map(|(_, _, line)| line.clone()).collect();
        let more = self.total.saturating_sub(lines.len() as u64);
        if more > 0 {
            lines.push(format!("… and {} more", super::summary::grouped(more)));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: RejectRow<'_> = RejectRow {
        place: "orders.ndjson:812",
        partition: Some("orders.ndjson"),
        position: 812,
        reason: RejectReason::EventTime,
        detail: "expected a timestamp in column \"event_time\", found \"2026-13-01\"",
        raw: Some(b"{\"event_time\":\"2026-13-01\"}"),
    };

    #[test]
    fn ndjson_has_hexadecimal_for_broken_text_only() {
        let encoder = RejectEncoder::new("rejects.ndjson");
        let mut out = encoder.header();
        encoder.encode(&ROW, &mut out);
        let broken = RejectRow { reason: RejectReason::Encoding, detail: "bad", raw: Some(b"a\xff\x00"), ..ROW };
        encoder.encode(&broken, &mut out);
        encoder.encode(&RejectRow { partition: None, detail: "none", raw: None, ..ROW }, &mut out);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(
            lines,
            [
                concat!(
                    r#"{"partition":"orders.ndjson","position":812,"place":"orders.ndjson:812","reason":"event_time","#,
                    r#""detail":"expected a timestamp in column \"event_time\", found \"2026-13-01\"","#,
                    r#""raw":"{\"event_time\":\"2026-13-01\"}"}"#
                ),
                concat!(
                    r#"{"partition":"orders.ndjson","position":812,"place":"orders.ndjson:812","reason":"encoding","#,
                    r#""detail":"bad","raw":"a�\u0000","raw_hex":"61ff00"}"#
                ),
                concat!(
                    r#"{"partition":null,"position":812,"place":"orders.ndjson:812","reason":"event_time","#,
                    r#""detail":"none","raw":null}"#
                ),
            ]
        );
    }

    #[test]
    fn csv_always_has_the_column() {
        let encoder = RejectEncoder::new("rejects.csv");
        let mut out = encoder.header();
        encoder.encode(&RejectRow { detail: "x", raw: Some(b"\xfe"), ..ROW }, &mut out);
        encoder.encode(&RejectRow { detail: "x", raw: Some(b"a,b"), ..ROW }, &mut out);
        assert_eq!(
            out,
            "partition,position,place,reason,detail,raw,raw_hex\n\
             orders.ndjson,812,orders.ndjson:812,event_time,x,�,fe\n\
             orders.ndjson,812,orders.ndjson:812,event_time,x,\"a,b\",\n"
        );
    }

    #[test]
    fn the_first_ten_whatever_the_order() {
        let offers: Vec<(u32, u64)> = (0..3).flat_map(|o| (0..6).map(move |p| (o, p))).collect();
        let expected: Vec<String> = offers
            .iter()
            .take(10)
            .map(|(o, p)| format!("f{o}:{p}: bad\\n"))
            .chain(["… and 8 more".to_string()])
            .collect();
        // Strides that are coprime to 18 visit every offer once.
        for stride in [1, 5, 7, 11, 17] {
            let mut workers = [FirstRejects::default(), FirstRejects::default()];
            for i in 0..offers.len() {
                let (order, position) = offers[i * stride % offers.len()];
                workers[i % 2].offer(order, position, &format!("f{order}:{position}"), "bad\n");
            }
            let [mut first, second] = workers;
            first.merge(second);
            assert_eq!(first.lines(), expected);
            assert_eq!(first.total(), 18);
        }
        assert_eq!(FirstRejects::default().lines(), [""; 0]);
    }
}
