//! Values, and the checks of the table, in their order.

use super::*;

#[test]
fn leap_seconds_are_clamped_where_they_can_be() {
    // Case 087, after https://github.com/time-rs/time/issues/404
    let text = b"ts,key\n2015-06-30T23:59:59.7Z,a\n2015-06-30T23:59:60Z,a\n2012-06-30T16:59:60-07:00,b\n\
        2015-06-30T23:30:60Z,c\n2015-07-01T00:00:00Z,a\n";
    let seen = read_everywhere(text, &Format::Csv(csv_options()), KEYED);
    let times: Vec<_> = seen.iter().map(|s| s.event_time_us).collect();
    assert_eq!(
        times,
        [
            Some(1_435_708_799_700_000),
            Some(1_435_708_799_999_999),
            Some(1_341_100_799_999_999),
            None,
            Some(1_435_708_800_000_000)
        ]
    );
    assert_eq!(details(&seen), ["expected a timestamp in column \"ts\", found \"2015-06-30T23:30:60Z\""]);
}

#[test]
fn fine_digits_are_floored() {
    // Case 088, after https://github.com/bytewax/bytewax/pull/416
    let text = b"ts,key\n2024-01-01T09:59:59.9999995Z,a\n2024-01-01T09:59:59.999999999Z,a\n\
        2024-01-01T10:00:00.0000001Z,a\n1969-12-31T23:59:59.9999999Z,b\n";
    let seen = read_everywhere(text, &Format::Csv(csv_options()), KEYED);
    let times: Vec<_> = seen.iter().filter_map(|s| s.event_time_us).collect();
    assert_eq!(times, [1_704_103_199_999_999, 1_704_103_199_999_999, 1_704_103_200_000_000, -1]);
}

#[test]
fn event_times_out_of_range_are_rejects() {
    // Case 048, after https://github.com/pinpoint-apm/pinpoint/issues/7635
    let text = b"{\"ts\":9223372036854775807}\n{\"ts\":-9223372036854775808}\n{\"ts\":253402300800000}\n\
        {\"ts\":\"+010000-01-01T00:00:00Z\"}\n{\"ts\":1e400}\n{\"ts\":5}\n{\"ts\":\"-009999-01-01\"}\n";
    let seen = read_everywhere(text, &Format::Json, KEYED);
    let range = Some(RejectReason::Range);
    assert_eq!(reasons(&seen), [(1, range), (2, range), (3, range), (4, range), (5, range), (6, None), (7, None)]);
    assert_eq!(
        details(&seen)[0],
        "expected a time within the years -9999 to 9999 in column \"ts\", found 9223372036854775807"
    );
}

#[test]
fn nan_and_decimals_are_read_as_they_are() {
    // Cases 072 and 074.
    let columns = [
        ("ts", DataType::Timestamp),
        ("x", DataType::Double),
        ("m", DataType::Decimal { precision: 12, scale: 2 }),
        ("n", DataType::BigInt),
    ];
    let text = b"ts,x,m,n\n1,NaN,0.1,9007199254740993\n2,1e5,-1.10,\n3,abc,0.001,9223372036854775808\n";
    let seen = read_everywhere(text, &Format::Csv(csv_options()), &columns);
    assert_eq!(
        seen[0].values[1..],
        [Some(Value::Double(f64::NAN)), Some(Value::Decimal(10, 2)), Some(Value::BigInt(9_007_199_254_740_993))]
    );
    assert_eq!(seen[1].values[1..], [Some(Value::Double(1e5)), Some(Value::Decimal(-110, 2)), Some(Value::Null)]);
    assert_eq!(seen[2].values[1..], [Some(Value::Null), Some(Value::Null), Some(Value::Null)]);
    let messages: Vec<&str> = seen[2].errors.iter().map(|e| &*e.1).collect();
    assert_eq!(
        messages,
        [
            "expected a value of DOUBLE in column \"x\", found \"abc\"",
            "expected a value of DECIMAL(12,2) in column \"m\", found \"0.001\"",
            "expected a value of BIGINT in column \"n\", found \"9223372036854775808\"",
        ]
    );
}

#[test]
fn the_checks_of_the_table_come_in_order() {
    let columns =
        [("ts", DataType::Timestamp), ("at", DataType::Timestamp), ("p", DataType::Text), ("v", DataType::BigInt)];
    let text = br#"{"ts":1,"at":10,"p":"a","v":1}
{"at":20,"p":"b"}
{"ts":null,"p":"a","at":"x"}
{"ts":"soon","at":30}
{"ts":4,"p":"a"}
{"ts":5,"at":50}
{"ts":1e300,"at":60,"p":null}
{"ts":1e300,"at":70,"p":"a"}
{"ts":1200,"at":100,"p":"c","v":"x"}
{"ts":1101,"at":100,"p":"c","v":[1]}
{"ts":9,"at":10,"p":"c","v":1.5}
"#;
    let directory = temporary();
    let mut table = table(&write(directory.path(), "f", text), Format::Json, &columns);
    table.max_future_us = Some(1_000_000);
    use RejectReason::{ArrivalTime, EventTime, Future, Partition, Range};
    let seen = read(&table, 1 << 20);
    assert_eq!(
        reasons(&seen).into_iter().map(|r| r.1).collect::<Vec<_>>(),
        [
            None,
            Some(EventTime),
            Some(EventTime),
            Some(EventTime),
            Some(ArrivalTime),
            Some(Partition),
            Some(Partition),
            Some(Range),
            Some(Future),
            Some(Future),
            None
        ]
    );
    let known: Vec<_> = seen.iter().map(|s| (s.arrived_us, s.partition.as_deref())).collect();
    assert_eq!(
        known[1..8],
        [
            (Some(20_000), Some("b")),
            (None, Some("a")),
            (Some(30_000), None),
            (None, Some("a")),
            (Some(50_000), None),
            (Some(60_000), None),
            (Some(70_000), Some("a"))
        ]
    );
    assert_eq!(
        details(&seen),
        [
            "expected a timestamp in column \"ts\", found nothing",
            "expected a timestamp in column \"ts\", found null",
            "expected a timestamp in column \"ts\", found \"soon\"",
            "expected a timestamp in column \"at\", found nothing",
            "expected a text in column \"p\", found nothing",
            "expected a text in column \"p\", found null",
            "expected a time within the years -9999 to 9999 in column \"ts\", found 1e300",
            "expected an event at most 1s ahead of its arrival at 1970-01-01T00:00:00.100Z, found 1970-01-01T00:00:01.200Z",
            "expected an event at most 1s ahead of its arrival at 1970-01-01T00:00:00.100Z, found 1970-01-01T00:00:01.101Z",
        ]
    );
    // Rejects of the table do not depend on what is asked for.
    let source = open(&table, &BTreeSet::new(), &SourceOptions::default()).expect("opens");
    let nothing = read_source(&*source, 1);
    assert_eq!(reasons(&nothing), reasons(&seen));
    assert!(nothing.iter().all(|s| s.errors.is_empty() && s.values.iter().all(Option::is_none)));
}
