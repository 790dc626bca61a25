use super::*;
use proptest::prelude::*;

fn timestamp(text: &str) -> Option<i64> {
    let direct = parse_timestamp(text.as_bytes());
    let mut parser = TimestampParser::default();
    assert_eq!(parser.parse(text.as_bytes()), direct, "{text}");
    assert_eq!(parser.parse(text.as_bytes()), direct, "{text}, date remembered");
    let padded = format!("{text}\"                    ");
    if let Some((us, length)) = parser.parse_front(padded.as_bytes()) {
        // What is behind it is no part of it: then the whole is not what was read.
        let whole = length == text.len();
        assert_eq!(Some(us), if whole { direct } else { parse_timestamp(&text.as_bytes()[..length]) }, "{text}");
    }
    direct
}

fn written(us: i64) -> String {
    let mut out = String::new();
    format_timestamp(us, &mut out);
    out
}

fn written_date(days: i64) -> String {
    let mut out = String::new();
    format_date(days, &mut out);
    out
}

#[test]
fn dates_from_minus_9999_to_9999_agree_with_jiff() {
    // Every day of one whole era, and every 13th of all others.
    let mut date = jiff::civil::date(-9999, 1, 1);
    let mut days = EVENT_TIME_MIN_US / DAY_US;
    let mut last;
    loop {
        let text = date.to_string();
        assert_eq!(parse_date(text.as_bytes()), Some(days), "{text}");
        assert_eq!(written_date(days), text);
        last = i64::from(date.year());
        let step = if (1600..=2000).contains(&last) { 1 } else { 13 };
        let Ok(next) = date.checked_add(jiff::Span::new().days(step)) else { break };
        date = next;
        days += step;
    }
    assert_eq!(last, 9999);
}

#[test]
fn limits_are_the_years_named() {
    assert_eq!(timestamp("-009999-01-01T00:00:00Z"), Some(EVENT_TIME_MIN_US));
    assert_eq!(timestamp("9999-12-31T23:59:59.999999Z"), Some(EVENT_TIME_MAX_US));
    assert_eq!(written(EVENT_TIME_MIN_US), "-009999-01-01T00:00:00Z");
    assert_eq!(written(EVENT_TIME_MAX_US), "9999-12-31T23:59:59.999999Z");
    assert_eq!(written(EVENT_TIME_MAX_US + 1), "+010000-01-01T00:00:00Z");
    assert_eq!(timestamp("+012345-01-01T00:00:00Z"), Some(327_403_382_400_000_000));
    assert_eq!(timestamp("+999999-01-01T00:00:00Z"), None, "beyond 64 bits");
    assert_eq!(timestamp("-999999-01-01"), None, "beyond 64 bits");
    for us in [i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX] {
        assert_eq!(timestamp(&written(us)), Some(us));
    }
    assert_eq!(written_date(i64::MAX), "+25252734927768524-07-27");
    assert_eq!(written_date(i64::MIN), "-25252734927764585-06-07");
}

#[test]
fn forms_of_a_timestamp() {
    let noon = Some(1_767_268_800_000_000);
    for text in [
        "2026-01-01T12:00:00Z",
        "2026-01-01t12:00:00z",
        "2026-01-01 12:00:00",
        "2026-01-01T12:00:00",
        "+002026-01-01T12:00:00Z",
        "2026-01-01T12:00:00.0Z",
        "2026-01-01T12:00:00.000000000000000000000000000009Z",
        "2026-01-01T17:30:00+05:30",
        "2026-01-01T17:30:00+0530",
        "2026-01-01T17:00:00+05",
        "2026-01-01 07:00:00-05",
        "2026-01-01T12:00:00-00:00",
        "2026-01-02T11:59:00+23:59",
    ] {
        assert_eq!(timestamp(text), noon, "{text}");
    }
    assert_eq!(timestamp("2026-01-01"), noon.map(|us| us - 12 * HOUR_US));
    assert_eq!(timestamp("2026-01-01T12:00:00.25+00"), noon.map(|us| us + 250_000));
    for text in [
        "",
        "2",
        "2026",
        "2026-1-01",
        "2026-01-01T",
        "2026-01-01T12",
        "2026-01-01T12:00",
        "2026-01-01T12:00:0",
        "2026-01-01T24:00:00Z",
        "2026-01-01T12:60:00Z",
        "2026-01-01T12:00:61Z",
        "2026-13-01",
        "2026-00-01",
        "2026-01-00",
        "2026-01-32",
        "2026-02-29",
        "1900-02-29",
        "2026-01-01T12:00:00.Z",
        "2026-01-01T12:00:00,5Z",
        "2026-01-01T12:00:00Zx",
        "2026-01-01T12:00:00+5",
        "2026-01-01T12:00:00+24:00",
        "2026-01-01T12:00:00+05:60",
        "2026-01-01T12:00:00+05:3",
        "2026-01-01T12:00:00 Z",
        " 2026-01-01T12:00:00Z",
        "2026-01-01x12:00:00Z",
        "-000000-01-01",
        "+2026-01-01",
        "2026/01/01",
        "20260101T120000Z",
        "2026-01-01T1a:00:00Z",
        "2026-01-01T12:00:00:00",
        "2026-01-01T12:00:00\u{663}",
        "٢٠٢٦-01-01",
    ] {
        assert_eq!(timestamp(text), None, "{text}");
    }
    assert!(parse_date(b"2000-02-29").is_some());
    assert_eq!(parse_date(b"2026-01-01T00:00:00Z"), None);
}

#[test]
fn digits_finer_than_a_microsecond_are_floored() {
    assert_eq!(timestamp("1969-12-31T23:59:59.9999999Z"), Some(-1));
    assert_eq!(timestamp("2024-01-01T09:59:59.9999995Z"), Some(1_704_103_199_999_999));
    assert_eq!(timestamp("2024-01-01T10:00:00.0000001Z"), Some(1_704_103_200_000_000));
    assert_eq!(timestamp("1970-01-01T00:00:00.12"), Some(120_000));
}

#[test]
fn second_60_only_where_a_leap_second_can_be() {
    let last = timestamp("2015-06-30T23:59:59.999999Z");
    assert!(last.is_some());
    assert_eq!(timestamp("2015-06-30T23:59:60Z"), last);
    assert_eq!(timestamp("2015-06-30T23:59:60.5Z"), last);
    assert_eq!(timestamp("2015-07-01T05:29:60+05:30"), last);
    assert_eq!(timestamp("2012-06-30T16:59:60-07:00"), timestamp("2012-06-30T23:59:59.999999Z"));
    assert!(timestamp("2016-12-31T23:59:60Z").is_some());
    assert!(timestamp("1972-02-29T23:59:60Z").is_some(), "any month may have one");
    for text in [
        "2015-06-30T23:30:60Z",
        "2015-06-29T23:59:60Z",
        "2015-06-30T23:59:60+05:30",
        "2015-06-30T16:59:60Z",
        "1972-02-28T23:59:60Z",
    ] {
        assert_eq!(timestamp(text), None, "{text}");
    }
}

#[test]
fn the_remembered_date_follows_the_stream() {
    let mut parser = TimestampParser::default();
    for text in [
        "2026-01-01T00:00:01Z",
        "2026-01-01T00:00:02Z",
        "2026-01-02T00:00:01Z",
        "2026-02-30T00:00:00Z",
        "2026-01-02",
        "2026-01-01T00:00:60Z",
        "+012345-01-01T00:00:00Z",
        "2026-01-02T00:00:01",
        "short",
    ] {
        assert_eq!(parser.parse(text.as_bytes()), parse_timestamp(text.as_bytes()), "{text}");
    }
}

#[test]
fn the_shortest_exact_fraction_is_written() {
    assert_eq!(written(0), "1970-01-01T00:00:00Z");
    assert_eq!(written(-1), "1969-12-31T23:59:59.999999Z");
    assert_eq!(written(1_000), "1970-01-01T00:00:00.001Z");
    assert_eq!(written(1_500_010), "1970-01-01T00:00:01.500010Z");
}

#[test]
fn durations() {
    let cases: [(&str, i64); 22] = [
        ("5s", 5 * SECOND_US),
        ("1h30m", 90 * MINUTE_US),
        ("250ms", 250_000),
        ("2d", 2 * DAY_US),
        ("10us", 10),
        ("10µs", 10),
        ("3 minutes", 3 * MINUTE_US),
        ("1 day 2 hours", 26 * HOUR_US),
        ("30 seconds", 30 * SECOND_US),
        ("1 Day 02 HOURS", 26 * HOUR_US),
        (" 1 s ", SECOND_US),
        ("-1h30m", -90 * MINUTE_US),
        ("- 1 day", -DAY_US),
        ("+5s", 5 * SECOND_US),
        ("0", 0),
        ("0s", 0),
        ("1.5h", 90 * MINUTE_US),
        ("0.25us 0.75us", 1),
        ("1w", 7 * DAY_US),
        ("0.000001s", 1),
        ("9223372036854775807us", i64::MAX),
        ("-9223372036854775808us", i64::MIN),
    ];
    for (text, us) in cases {
        // A part must be whole by itself.
        let expected = if text == "0.25us 0.75us" { None } else { Some(us) };
        assert_eq!(parse_duration(text).ok(), expected, "{text}");
    }
    for (text, why) in [
        ("", "expected a duration"),
        ("-", "expected a duration"),
        ("5", "expected a unit"),
        ("s", "expected a number"),
        ("5 parsecs", "unknown unit \"parsecs\""),
        ("1 month", "no fixed length"),
        ("1y", "no fixed length"),
        ("1h-30m", "expected a number"),
        ("--1h", "expected a number"),
        ("1..5s", "expected a number"),
        (".5s", "expected a number"),
        ("1.s", "expected a number"),
        ("0.0000001s", "not a whole number"),
        ("9223372036854775808us", "longer than 64 bits"),
        ("99999999999999999999999999999999999999999d", "too many digits"),
        ("106751992d", "longer than 64 bits"),
    ] {
        let found = parse_duration(text).expect_err(text);
        assert!(found.contains(why), "{text}: {found}");
    }
    for (us, text) in
        [(0, "0s"), (5 * SECOND_US, "5s"), (90 * MINUTE_US, "1h30m"), (-250_000, "-250ms"), (DAY_US + 1, "1d1us")]
    {
        assert_eq!(format_duration(us), text);
    }
}

proptest! {
    #[test]
    fn timestamps_read_back_and_agree_with_jiff(us in EVENT_TIME_MIN_US + 2 * DAY_US..=EVENT_TIME_MAX_US - 2 * DAY_US, offset in -1439i64..=1439) {
        let text = written(us);
        prop_assert_eq!(timestamp(&text), Some(us));
        let theirs = jiff::Timestamp::from_microsecond(us).expect("in jiff's range");
        prop_assert_eq!(text.parse::<jiff::Timestamp>().expect("jiff reads it"), theirs);
        // The same instant written at an offset, by jiff.
        let zone = jiff::tz::Offset::from_seconds(i32::try_from(offset * 60).expect("small")).expect("below a day");
        let there = theirs.display_with_offset(zone).to_string();
        prop_assert_eq!(timestamp(&there), Some(us), "{}", there);
    }

    #[test]
    fn every_i64_reads_back(us: i64) {
        prop_assert_eq!(timestamp(&written(us)), Some(us));
        prop_assert_eq!(parse_duration(&format_duration(us)), Ok(us));
    }

    #[test]
    fn arbitrary_text_never_panics(text in "[-+0-9TtZz:. ]{0,30}", words in "\\PC{0,20}") {
        timestamp(&text);
        timestamp(&words);
        let _ = parse_duration(&text);
        let _ = parse_duration(&words);
    }

    #[test]
    fn near_misses_of_a_valid_time_agree_with_jiff(us in EVENT_TIME_MIN_US + 2 * DAY_US..=EVENT_TIME_MAX_US - 2 * DAY_US, at in 0usize..30, byte in 0u8..128) {
        let mut text = written(us).into_bytes();
        let at = at % text.len();
        text[at] = byte;
        let text = String::from_utf8(text).expect("ASCII");
        // jiff and we differ on purpose in some forms; where both read the text they must read the same.
        if let (Some(ours), Ok(theirs)) = (timestamp(&text), text.parse::<jiff::Timestamp>())
            && !text.contains(":60") {
                prop_assert_eq!(ours, theirs.as_microsecond(), "{}", text);
            }
    }
}
