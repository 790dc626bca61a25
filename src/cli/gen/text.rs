//! Records as NDJSON and CSV.

use super::BUFFER_BYTES;
use crate::plan::Workload;
use crate::source::generator::{Field, NexmarkStream, NexmarkValue, Order, OrderStream};
use crate::time::format_timestamp;
use std::io::{self, Write};

/// The longest line is shorter.
const LINE_BYTES: usize = 2_048;

/// What writes numbers and times.
#[derive(Default)]
struct Fields {
    digits: itoa::Buffer,
    event: ClockText,
    arrival: ClockText,
}

/// Writes orders as NDJSON or CSV, and gives the writer back.
pub(super) fn orders<W: Write>(stream: OrderStream, csv: bool, with_partition: bool, out: W) -> io::Result<W> {
    let mut fields = Fields::default();
    let mut orders = stream;
    if csv {
        let mut header = b"order_id,customer_id,amount,event_time,arrival_time".to_vec();
        header.extend_from_slice(if with_partition { b",partition\n" } else { b"\n" });
        let line = |out: &mut Vec<u8>| {
            orders.next().is_some_and(|order| {
                csv_line(&order, with_partition, &mut fields, out);
                true
            })
        };
        return write_lines(line, header, out);
    }
    let line = |out: &mut Vec<u8>| {
        orders.next().is_some_and(|order| {
            json_line(&order, with_partition, &mut fields, out);
            true
        })
    };
    write_lines(line, Vec::new(), out)
}

/// Writes the records of NEXMark likewise. In NDJSON a record has only the fields of its kind.
pub(super) fn nexmark<W: Write>(mut stream: NexmarkStream, csv: bool, with_partition: bool, out: W) -> io::Result<W> {
    let fields: Vec<Field> =
        Field::of(Workload::Nexmark).iter().copied().filter(|f| with_partition || *f != Field::Partition).collect();
    let mut header = Vec::new();
    for (at, field) in fields.iter().enumerate().filter(|_| csv) {
        header.extend_from_slice(if at > 0 { b"," } else { b"" });
        header.extend_from_slice(field.name().as_bytes());
    }
    header.extend_from_slice(if csv { b"\n" } else { b"" });
    let mut writer = Fields::default();
    let mut text = String::new();
    let line = |out: &mut Vec<u8>| {
        let Some(record) = stream.next_arrival() else { return false };
        let mut separator = if csv { &b""[..] } else { b"{" };
        for field in &fields {
            text.clear();
            let value = stream.value(*field, &record, &mut text);
            if csv || value.is_some() {
                out.extend_from_slice(std::mem::replace(&mut separator, b","));
            }
            let Some(value) = value else { continue };
            let quote = !csv && !matches!(value, NexmarkValue::Whole(_));
            if !csv {
                out.push(b'"');
                out.extend_from_slice(field.name().as_bytes());
                out.extend_from_slice(if quote { b"\":\"" } else { b"\":" });
            }
            match value {
                NexmarkValue::Whole(number) => out.extend_from_slice(writer.digits.format(number).as_bytes()),
                NexmarkValue::Time(us) if *field == Field::ArrivalTime => writer.arrival.push(us, out),
                NexmarkValue::Time(us) => writer.event.push(us, out),
                NexmarkValue::Text => out.extend_from_slice(text.as_bytes()),
            }
            out.extend_from_slice(if quote { b"\"" } else { b"" });
        }
        out.extend_from_slice(if csv { b"\n" } else { b"}\n" });
        true
    };
    write_lines(line, header, out)
}

/// Writes a header and lines until `line` has none to append.
fn write_lines<W: Write>(mut line: impl FnMut(&mut Vec<u8>) -> bool, header: Vec<u8>, mut out: W) -> io::Result<W> {
    let mut buffer = header;
    buffer.reserve(BUFFER_BYTES);
    while line(&mut buffer) {
        if buffer.len() > BUFFER_BYTES - LINE_BYTES {
            out.write_all(&buffer)?;
            buffer.clear();
        }
    }
    out.write_all(&buffer)?;
    out.flush()?;
    Ok(out)
}

fn json_line(order: &Order, with_partition: bool, fields: &mut Fields, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"order_id\":");
    out.extend_from_slice(fields.digits.format(order.order_id).as_bytes());
    out.extend_from_slice(b",\"customer_id\":");
    out.extend_from_slice(fields.digits.format(order.customer_id).as_bytes());
    out.extend_from_slice(b",\"amount\":");
    push_cents(order.amount_cents, &mut fields.digits, out);
    out.extend_from_slice(b",\"event_time\":\"");
    fields.event.push(order.event_time_us, out);
    out.extend_from_slice(b"\",\"arrival_time\":\"");
    fields.arrival.push(order.arrival_time_us, out);
    if with_partition {
        out.extend_from_slice(b"\",\"partition\":\"");
        out.extend_from_slice(fields.digits.format(order.partition).as_bytes());
    }
    out.extend_from_slice(b"\"}\n");
}

fn csv_line(order: &Order, with_partition: bool, fields: &mut Fields, out: &mut Vec<u8>) {
    out.extend_from_slice(fields.digits.format(order.order_id).as_bytes());
    out.push(b',');
    out.extend_from_slice(fields.digits.format(order.customer_id).as_bytes());
    out.push(b',');
    push_cents(order.amount_cents, &mut fields.digits, out);
    out.push(b',');
    fields.event.push(order.event_time_us, out);
    out.push(b',');
    fields.arrival.push(order.arrival_time_us, out);
    if with_partition {
        out.push(b',');
        out.extend_from_slice(fields.digits.format(order.partition).as_bytes());
    }
    out.push(b'\n');
}

fn push_cents(cents: u64, digits: &mut itoa::Buffer, out: &mut Vec<u8>) {
    out.extend_from_slice(digits.format(cents / 100).as_bytes());
    out.extend_from_slice(&[b'.', b'0' + (cents / 10 % 10) as u8, b'0' + (cents % 10) as u8]);
}

/// Writes times of one column; the text up to the second is kept from one time to the next.
#[derive(Default)]
struct ClockText {
    /// The second whose text is kept, if any.
    second: Option<i64>,
    /// `2026-01-01T00:00:00`, as the crate writes it.
    text: String,
}

impl ClockText {
    fn push(&mut self, us: i64, out: &mut Vec<u8>) {
        let second = us.div_euclid(1_000_000);
        if self.second != Some(second) {
            self.second = Some(second);
            self.text.clear();
            format_timestamp(second.saturating_mul(1_000_000), &mut self.text);
            // Whole seconds have no fraction: what remains is the `Z`.
            self.text.pop();
        }
        let ms = us.rem_euclid(1_000_000) / 1_000;
        out.extend_from_slice(self.text.as_bytes());
        let digit = |v: i64| b'0' + (v % 10) as u8;
        out.extend_from_slice(&[b'.', digit(ms / 100), digit(ms / 10), digit(ms), b'Z']);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_documented() {
        let order = Order {
            order_id: 7,
            customer_id: 42,
            amount_cents: 1_205,
            event_time_us: 1_767_225_600_000_000,
            arrival_time_us: 1_767_225_601_009_000,
            partition: 3,
        };
        let mut fields = Fields::default();
        let mut out = Vec::new();
        json_line(&order, false, &mut fields, &mut out);
        json_line(&order, true, &mut fields, &mut out);
        csv_line(&order, true, &mut fields, &mut out);
        assert_eq!(
            String::from_utf8(out).expect("text"),
            "{\"order_id\":7,\"customer_id\":42,\"amount\":12.05,\"event_time\":\"2026-01-01T00:00:00.000Z\",\"arrival_time\":\"2026-01-01T00:00:01.009Z\"}\n\
             {\"order_id\":7,\"customer_id\":42,\"amount\":12.05,\"event_time\":\"2026-01-01T00:00:00.000Z\",\"arrival_time\":\"2026-01-01T00:00:01.009Z\",\"partition\":\"3\"}\n\
             7,42,12.05,2026-01-01T00:00:00.000Z,2026-01-01T00:00:01.009Z,3\n"
        );
    }
}
