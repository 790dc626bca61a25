use super::orders::AMOUNT_CENTS;
use super::seeded::mix;
use super::*;
use crate::plan::{ColumnPlan, LateRecords, LatenessScope, OnError, SourcePlan};
use crate::source::Turns;

fn plan() -> GeneratorPlan {
    GeneratorPlan { rows: 50_000, partitions: 3, late_share: 0.05, ..default_plan() }
}

fn table(names: &[(&str, DataType)], partition: Option<&str>) -> TablePlan {
    let index = |name: &str| names.iter().position(|n| n.0 == name);
    TablePlan {
        name: "orders".into(),
        columns: names
            .iter()
            .map(|(name, dtype)| ColumnPlan {
                name: name.to_string(),
                path: vec![name.to_string()],
                dtype: dtype.clone(),
            })
            .collect(),
        event_time: index("event_time"),
        watermark: None,
        delay_us: Some(0),
        policy: None,
        arrival_time: index("arrival_time"),
        partition: partition.and_then(index),
        partitions: vec![],
        scope: LatenessScope::Source,
        idle_timeout_us: None,
        granularity_us: 1,
        tick_us: 1_000_000,
        max_future_us: None,
        late_records: LateRecords::Window,
        on_error: OnError::Reject,
        rejects: None,
        time_unit_us: 1_000,
        source: SourcePlan::Generator(plan()),
    }
}

fn read(source: &dyn Source, lane: usize) -> Vec<DecodedBlock> {
    let mut reader = source.open(lane, Turns::all());
    let mut blocks = Vec::new();
    while let Next::Block(block) = reader.next_block().expect("no I/O") {
        blocks.push(*block);
    }
    blocks
}

#[test]
fn the_merged_stream_is_every_record_sorted_by_arrival() {
    for plan in [plan(), GeneratorPlan { silent_every_us: 500_000, silent_for_us: 700_000, ..plan() }] {
        let arrivals = Arrivals::new(&plan);
        let mut expected: Vec<_> =
            (0..plan.rows).map(|i| (arrivals.arrival_us(i, arrivals.partition_of(i)), i)).collect();
        expected.sort_unstable();
        let found: Vec<_> = OrderStream::new(&plan, None).map(|o| (o.arrival_time_us, o.order_id)).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn partitions_together_are_the_merged_stream() {
    for partitions in [1, 2, 3, 7, 1000] {
        let plan = GeneratorPlan { partitions, rows: 20_011, ..plan() };
        let mut parts: Vec<Order> = (0..partitions).flat_map(|p| OrderStream::new(&plan, Some(p))).collect();
        parts.sort_by_key(|o| (o.arrival_time_us, o.order_id));
        assert_eq!(parts, OrderStream::new(&plan, None).collect::<Vec<_>>(), "{partitions} partitions");
    }
}

#[test]
fn disorder_is_as_asked() {
    let plan = GeneratorPlan { rows: 200_000, late_share: 0.02, keys: 50, ..default_plan() };
    let mut late = 0;
    let mut delay_us = 0.0;
    let mut seen = vec![0u32; 50];
    for order in OrderStream::new(&plan, None) {
        let delay = order.arrival_time_us - order.event_time_us;
        assert!(delay >= 0);
        assert!((AMOUNT_CENTS.0..=AMOUNT_CENTS.1).contains(&order.amount_cents));
        seen[order.customer_id as usize] += 1;
        // An exponential delay passes 40 s with probability e^-20.
        if delay > 40_000_000 {
            late += 1;
        } else {
            delay_us += delay as f64;
        }
    }
    let late_share = f64::from(late) / 200_000.0 / (80.0 / 120.0);
    assert!((late_share - 0.02).abs() < 0.002, "{late_share}");
    let mean_s = delay_us / 200_000.0 / 1e6;
    // 2 s · 0.98 + 20 s · (0.02 / 3)
    assert!((mean_s - 2.093).abs() < 0.05, "{mean_s}");
    assert!(seen.iter().all(|&n| n > 3_500 && n < 4_500), "{seen:?}");
}

#[test]
fn delays_follow_their_quantiles_and_some_customers_are_late() {
    let delay_quantiles = vec![(10_000, 0.9), (10_000_000, 0.99), (60_000_000, 1.0)];
    let plan = GeneratorPlan { rows: 200_000, keys: 400, delay_quantiles, ..default_plan() };
    let delays = |plan: &GeneratorPlan| -> Vec<(u64, i64)> {
        let delay = |order: Order| (order.customer_id, order.arrival_time_us - order.event_time_us);
        let mut delays: Vec<_> = OrderStream::new(plan, None).map(delay).collect();
        delays.sort_unstable_by_key(|(_, delay_us)| *delay_us);
        delays
    };
    let plain = delays(&plan);
    let at = |share: f64| plain[(share * 200_000.0) as usize].1;
    assert!((9_000..=11_000).contains(&at(0.9)), "{}", at(0.9));
    assert!((9_000_000..=11_000_000).contains(&at(0.99)), "{}", at(0.99));
    assert!(plain.last().unwrap().1 <= 60_001_000);
    let late = delays(&GeneratorPlan { delayed_keys: 0.25, key_delay_us: 90_000_000, ..plan });
    let customers: std::collections::BTreeSet<u64> =
        late.iter().filter(|(_, us)| *us >= 90_000_000).map(|(customer, _)| *customer).collect();
    assert!((70..=130).contains(&customers.len()), "{} of 400", customers.len());
    assert!(late.iter().all(|(customer, us)| customers.contains(customer) == (*us >= 90_000_000)));
}

#[test]
fn nothing_arrives_in_a_silent_spell() {
    for silent_for_us in [200_000, 900_000, 5_000_000] {
        let plan = GeneratorPlan { silent_every_us: 500_000, silent_for_us, ..plan() };
        let longest_us = 1_500_000 * 15 / 16;
        for partition in 0..3u32 {
            let mut rows = 0;
            let mut last_us = i64::MIN;
            for order in OrderStream::new(&plan, Some(partition)) {
                rows += 1;
                assert!(order.arrival_time_us >= last_us);
                last_us = order.arrival_time_us;
                // Times are floored to milliseconds, and spells are whole milliseconds.
                let since = order.arrival_time_us - plan.start_us - 500_000 * (i64::from(partition) + 1);
                let into = since.rem_euclid(1_500_000);
                assert!(since < 0 || into >= silent_for_us.min(longest_us) / 1_000 * 1_000, "{order:?}");
            }
            assert!(rows == 16_666 || rows == 16_667, "{rows}");
        }
    }
}

#[test]
fn bytes_are_pinned() {
    let mut hash = 0u64;
    for o in OrderStream::new(&plan(), None) {
        for word in [o.order_id, o.customer_id, o.amount_cents, o.event_time_us as u64, o.arrival_time_us as u64] {
            hash = mix(hash ^ word);
        }
        hash = mix(hash ^ u64::from(o.partition));
    }
    assert_eq!(
        hash, 14_999_057_275_402_041_543,
        "the generated stream has changed: recorded files and expected answers change with it"
    );
}

#[test]
fn blocks_hold_the_stream() {
    let names = columns(Workload::Orders);
    for by_column in [false, true] {
        let table = table(&names, by_column.then_some("partition"));
        check_table(Workload::Orders, &table).expect("the generator's own columns");
        let source = open(&plan(), &table, &(0..6).collect());
        assert_eq!(source.lanes().len(), if by_column { 1 } else { 3 });
        for lane in 0..source.lanes().len() {
            let mut stream = OrderStream::new(&plan(), (!by_column).then_some(lane as u32));
            let blocks = read(&*source, lane);
            assert!(blocks.len() > 1);
            for (index, block) in blocks.iter().enumerate() {
                assert_eq!((block.index, block.last), (index as u64, index + 1 == blocks.len()));
                assert_eq!(block.starts_file, index == 0);
                for row in 0..block.rows {
                    let order = stream.next().expect("as many rows as the stream");
                    let value = |c: usize| block.columns[c].as_ref().expect("asked for").value(row);
                    assert_eq!(value(0), crate::types::Value::BigInt(order.order_id as i64));
                    assert_eq!(value(1), crate::types::Value::BigInt(order.customer_id as i64));
                    assert_eq!(value(2), crate::types::Value::Decimal(order.amount_cents as i128, 2));
                    assert_eq!(value(3), crate::types::Value::Timestamp(order.event_time_us));
                    assert_eq!(value(4), crate::types::Value::Timestamp(order.arrival_time_us));
                    assert_eq!(value(5), crate::types::Value::Text(order.partition.to_string().into()));
                    assert_eq!(block.event_time_us[row], order.event_time_us);
                    assert_eq!(block.arrived_us.as_ref().map(|a| a[row]), Some(order.arrival_time_us));
                    let name = block.partition.as_ref().map(|p| &block.partition_names[p[row] as usize]);
                    assert_eq!(name, by_column.then(|| order.partition.to_string()).as_ref());
                }
            }
            assert_eq!(stream.next(), None);
        }
    }
}

#[test]
fn only_wanted_columns_are_built_and_types_are_converted() {
    let names = [
        ("order_id", DataType::Text),
        ("amount", DataType::Decimal { precision: 10, scale: 4 }),
        ("customer_id", DataType::BigInt),
        ("event_time", DataType::Timestamp),
    ];
    let table = table(&names, None);
    check_table(Workload::Orders, &table).expect("all fit");
    let source = open(&GeneratorPlan { partitions: 1, ..plan() }, &table, &BTreeSet::from([0, 1]));
    let block = &read(&*source, 0)[0];
    assert!(block.columns[2].is_none() && block.columns[3].is_none() && block.arrived_us.is_none());
    let order = OrderStream::new(&GeneratorPlan { partitions: 1, ..plan() }, Some(0)).next().expect("a record");
    let value = |c: usize| block.columns[c].as_ref().expect("asked for").value(0);
    assert_eq!(value(0), crate::types::Value::Text(order.order_id.to_string().into()));
    assert_eq!(value(1), crate::types::Value::Decimal(order.amount_cents as i128 * 100, 4));
}

#[test]
fn an_empty_lane_still_ends() {
    let source = open(&GeneratorPlan { rows: 1, ..plan() }, &table(&columns(Workload::Orders), None), &BTreeSet::new());
    let rows: Vec<_> = (0..3).map(|lane| read(&*source, lane)).map(|b| (b.len(), b[0].rows, b[0].last)).collect();
    assert_eq!(rows.iter().map(|r| r.1).sum::<usize>(), 1);
    assert!(rows.iter().all(|r| r.0 == 1 && r.2), "{rows:?}");
}

#[test]
fn settings_and_tables_are_checked() {
    for (bad, word) in [
        (GeneratorPlan { rate: 0.0, ..plan() }, "rate"),
        (GeneratorPlan { rate: f64::NAN, ..plan() }, "rate"),
        (GeneratorPlan { keys: 0, ..plan() }, "keys"),
        (GeneratorPlan { partitions: 0, ..plan() }, "partitions"),
        (GeneratorPlan { late_share: 1.5, ..plan() }, "late_share"),
        (GeneratorPlan { rows: u64::MAX, rate: 0.001, ..plan() }, "range"),
    ] {
        let message = check_plan(&bad).expect_err("out of bounds").to_string();
        assert!(message.contains(word), "{message}");
        // Nothing below panics or hangs when unchecked settings slip through.
        let _ = OrderStream::new(&GeneratorPlan { rows: bad.rows.min(10), ..bad }, Some(0)).count();
    }
    assert!(check_plan(&plan()).is_ok());
    assert!(check_table(Workload::Orders, &table(&[("colour", DataType::Text)], None)).is_err());
    assert!(check_table(Workload::Orders, &table(&[("event_time", DataType::BigInt)], None)).is_err());
}

fn nexmark_plan() -> GeneratorPlan {
    GeneratorPlan { workload: Workload::Nexmark, rows: 100_000, partitions: 3, late_share: 0.05, ..default_plan() }
}

/// All records of a stream, in order, each with the texts of its fields (`None`: it has none).
fn nexmark_rows(plan: &GeneratorPlan) -> Vec<(Arrival, Vec<Option<String>>)> {
    let mut stream = NexmarkStream::new(plan, None);
    let mut out = Vec::new();
    while let Some(record) = stream.next_arrival() {
        let value = |field: &Field| {
            let mut text = String::new();
            match stream.value(*field, &record, &mut text)? {
                NexmarkValue::Whole(number) | NexmarkValue::Time(number) => Some(number.to_string()),
                NexmarkValue::Text => Some(text),
            }
        };
        out.push((record, Field::of(Workload::Nexmark).iter().map(value).collect()));
    }
    out
}

#[test]
fn nexmark_is_as_published() {
    let mut rows = nexmark_rows(&nexmark_plan());
    rows.sort_by_key(|(record, _)| record.i);
    let at = |name: &str| Field::of(Workload::Nexmark).iter().position(|f| f.name() == name).expect("a field");
    let number =
        |row: &[Option<String>], name: &str| row[at(name)].as_ref().map(|t| t.parse::<u64>().expect("a number"));
    let (mut people, mut auctions, mut hot_auctions, mut hot_bidders, mut hot_sellers, mut hot_channels) =
        (0, 0, 0, 0, 0, 0);
    let (mut bids, mut decades, mut bytes) = (0u64, [0u64; 6], [0; 3]);
    for (record, row) in &rows {
        let text = |name: &str| row[at(name)].as_deref().unwrap_or_default();
        let has: Vec<&str> =
            Field::of(Workload::Nexmark).iter().zip(row).filter(|(_, v)| v.is_some()).map(|(f, _)| f.name()).collect();
        let own: &[&str] = match text("kind") {
            "person" => &["person", "name", "city", "state"],
            "auction" => &["auction", "seller", "category", "initial_bid", "reserve", "expires"],
            _ => &["auction", "bidder", "price", "channel", "url"],
        };
        assert!(
            own.iter().chain(&["kind", "date_time", "extra", "arrival_time", "partition"]).all(|f| has.contains(f))
        );
        assert_eq!(has.len(), own.len() + 5, "{has:?}");
        let size = text("extra").len() as u64;
        match text("kind") {
            "person" => {
                assert_eq!((record.i % 50, number(row, "person")), (0, Some(1_000 + people)));
                people += 1;
                bytes[0] += size + 16 + (text("name").len() + text("city").len() + 2) as u64;
            }
            "auction" => {
                assert_eq!(number(row, "auction"), Some(1_000 + auctions));
                auctions += 1;
                hot_sellers += u64::from(number(row, "seller") == Some(1_000 + (people - 1) / 100 * 100));
                assert!((10..15).contains(&number(row, "category").expect("a category")));
                assert!(number(row, "reserve") > number(row, "initial_bid"));
                let lasts_ms =
                    (number(row, "expires").expect("a time") - number(row, "date_time").expect("a time")) / 1_000;
                assert!((1..=334).contains(&lasts_ms), "{lasts_ms}");
                bytes[1] += size + 56;
            }
            _ => {
                bids += 1;
                let (auction, bidder) = (number(row, "auction").expect("one"), number(row, "bidder").expect("one"));
                let (newest_auction, newest_person) = (auctions - 1, people - 1);
                hot_auctions += u64::from(auction == 1_000 + newest_auction / 100 * 100);
                hot_bidders += u64::from(bidder == 1_000 + newest_person / 100 * 100 + 1);
                assert!((newest_auction.saturating_sub(100)..=newest_auction + 10).contains(&(auction - 1_000)));
                assert!((newest_person.saturating_sub(999)..=newest_person + 10).contains(&(bidder - 1_000)));
                let price = number(row, "price").expect("a price");
                decades[(price as f64 / 100.0).log10().min(5.9) as usize] += 1;
                hot_channels += u64::from(!text("channel").starts_with("channel-"));
                assert!(text("url").starts_with("https://auctions.example/"));
                bytes[2] += size + 32;
            }
        }
    }
    assert_eq!((people, auctions, bids), (2_000, 6_000, 92_000));
    let share = |n: u64, of: u64| n as f64 / of as f64;
    // The hot one is also found among the others now and then.
    assert!((0.49..0.52).contains(&share(hot_auctions, bids)), "{hot_auctions}");
    assert!((0.74..0.76).contains(&share(hot_bidders, bids)), "{hot_bidders}");
    assert!((0.73..0.77).contains(&share(hot_sellers, auctions)), "{hot_sellers}");
    assert!((0.49..0.51).contains(&share(hot_channels, bids)), "{hot_channels}");
    assert!(decades.iter().all(|n| (0.16..0.175).contains(&share(*n, bids))), "{decades:?}");
    let sizes = [share(bytes[0], people), share(bytes[1], auctions), share(bytes[2], bids)].map(f64::round);
    assert!((sizes[0] - 200.0).abs() < 4.0 && (sizes[1] - 500.0).abs() < 3.0 && sizes[2] == 100.0, "{sizes:?}");
}

#[test]
fn nexmark_arrives_as_orders_do() {
    let plan = nexmark_plan();
    let orders: Vec<_> = OrderStream::new(&plan, None).map(|o| (o.order_id, o.arrival_time_us, o.partition)).collect();
    let mut stream = NexmarkStream::new(&plan, None);
    let nexmark: Vec<_> =
        std::iter::from_fn(|| stream.next_arrival()).map(|r| (r.i, r.arrival_time_us, r.partition)).collect();
    assert_eq!(nexmark, orders);
}

#[test]
fn the_bytes_of_nexmark_are_pinned() {
    let mut hash = 0u64;
    for (_, row) in nexmark_rows(&nexmark_plan()) {
        for value in row {
            let text = value.unwrap_or_default();
            hash = text.bytes().fold(mix(hash ^ text.len() as u64), |hash, byte| mix(hash ^ u64::from(byte)));
        }
    }
    assert_eq!(
        hash, 11_370_426_785_403_161_621,
        "the generated stream has changed: recorded files and expected answers change with it"
    );
}

#[test]
fn blocks_hold_the_stream_of_nexmark() {
    let plan = GeneratorPlan { partitions: 1, ..nexmark_plan() };
    let mut names = columns(Workload::Nexmark);
    // A number as text, and NULLs of it.
    names[3].1 = DataType::Text;
    let mut table = table(&names, None);
    table.event_time = names.iter().position(|n| n.0 == "date_time");
    check_table(Workload::Nexmark, &table).expect("the generator's own columns");
    let source = open(&plan, &table, &(0..names.len()).collect());
    let mut rows = nexmark_rows(&plan).into_iter();
    for block in read(&*source, 0) {
        for row in 0..block.rows {
            let (_, expected) = rows.next().expect("as many rows as the stream");
            for (column, expected) in block.columns.iter().zip(expected) {
                let found = match column.as_ref().expect("asked for").value(row) {
                    crate::types::Value::Null => None,
                    crate::types::Value::BigInt(v) | crate::types::Value::Timestamp(v) => Some(v.to_string()),
                    crate::types::Value::Text(text) => Some(text.to_string()),
                    other => panic!("{other:?}"),
                };
                assert_eq!(found, expected);
            }
        }
    }
    assert_eq!(rows.next(), None);
}

#[test]
fn what_not_every_record_has_rules_nothing() {
    let names = columns(Workload::Nexmark);
    let at = |name: &str| names.iter().position(|n| n.0 == name);
    let check = |event_time, partition| {
        let mut table = table(&names, None);
        (table.event_time, table.partition) = (at(event_time), at(partition));
        check_table(Workload::Nexmark, &table).map_err(|e| e.to_string())
    };
    assert_eq!(check("date_time", "kind"), Ok(()));
    assert!(check("expires", "kind").expect_err("no").contains("\"expires\""));
    assert!(check("date_time", "channel").expect_err("no").contains("\"channel\""));
}
