//! Texts to plans: chosen facts.

use super::{ORDERS, explain, outputs, planned, shown, windowed, with_orders};
use crate::aggregate::AggregateFunc;
use crate::expr::{Expr, ExprKind, Func};
use crate::plan::{
    Format, LateRecords, LatenessScope, OnError, Program, SinkFormat, SinkMode, SinkTarget, SourcePlan, ViewKind,
    Workload,
};
use crate::sql::{BareSelectDefaults, plan};
use crate::types::{DataType, Value};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;

/// The statements of the design document.
const DESIGN: &str = "
CREATE TABLE orders (
  order_id TEXT, customer_id TEXT, amount DECIMAL(12,2), event_time TIMESTAMP, arrival_time TIMESTAMP,
  WATERMARK FOR event_time AS event_time - INTERVAL '30 seconds'
) WITH (connector = 'file', path = 'orders.ndjson', arrival_time = 'arrival_time', idle_timeout = '30s', granularity = '1s');

CREATE MATERIALIZED VIEW per_minute WITH (horizon = '3 minutes') AS
SELECT customer_id, window_start, window_end, count(*) AS orders, sum(amount) AS revenue, max(arrival_time) AS updated_at
FROM TUMBLE(orders, event_time, INTERVAL '1 minute')          -- HOP(t, time, slide, size) · SESSION(t, time, gap)
WHERE amount > 0 GROUP BY customer_id, window_start, window_end HAVING count(*) > 0;

CREATE SINK minutes FROM per_minute WITH (connector = 'file', path = 'out/per_minute.ndjson');   -- changelog
";

#[test]
fn the_design_plans() {
    let program = planned(DESIGN);
    assert!(program.warnings.is_empty(), "{:?}", program.warnings);
    let [table] = program.tables.as_slice() else { panic!("one table") };
    assert_eq!((table.event_time, table.arrival_time, table.delay_us), (Some(3), Some(4), Some(30 * SECOND)));
    assert_eq!((table.scope, table.idle_timeout_us), (LatenessScope::Source, Some(30 * SECOND)));
    assert_eq!((table.granularity_us, table.tick_us, table.time_unit_us), (SECOND, SECOND, 1_000));
    assert_eq!(table.source, SourcePlan::File { path: "orders.ndjson".into(), format: Format::Json });
    let [view] = program.views.as_slice() else { panic!("one view") };
    assert_eq!((view.horizon_us, view.spike_above, view.late.as_deref()), (Some(3 * MINUTE), 1, None));
    assert_eq!(
        outputs(view),
        [
            "customer_id TEXT",
            "window_start TIMESTAMP",
            "window_end TIMESTAMP",
            "orders BIGINT",
            "revenue DECIMAL(38,2)",
            "updated_at TIMESTAMP"
        ]
    );
    let windows = windowed(view);
    assert_eq!((windows.window.size_us, windows.window.slide_us, windows.window.offset_us), (MINUTE, MINUTE, 0));
    assert_eq!(windows.group, [Expr::column(1, DataType::Text)]);
    // count(*) of HAVING is the one of the SELECT list.
    let functions: Vec<_> = windows.aggregates.iter().map(|a| a.spec.func).collect();
    assert_eq!(functions, [AggregateFunc::CountAll, AggregateFunc::Sum, AggregateFunc::Max]);
    let columns: Vec<_> = windows.select.iter().map(|e| e.kind.clone()).collect();
    assert_eq!(columns, (0..6).map(ExprKind::Column).collect::<Vec<_>>());
    assert!(
        matches!(&windows.having, Some(Expr { kind: ExprKind::Call(Func::Gt, args), .. }) if args[0].kind == ExprKind::Column(3))
    );
    let [sink] = program.sinks.as_slice() else { panic!("one sink") };
    assert_eq!((sink.name.as_deref(), sink.view, sink.mode), (Some("minutes"), 0, SinkMode::Changelog));
    assert_eq!(sink.target, SinkTarget::File("out/per_minute.ndjson".into(), SinkFormat::Ndjson));
    assert!(view.sql.starts_with("SELECT customer_id") && view.sql.ends_with("HAVING count(*) > 0"), "{}", view.sql);
}

#[test]
fn the_shipped_examples_plan() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut seen = 0;
    for folder in std::fs::read_dir(root).into_iter().flatten().flatten() {
        for file in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            if file.path().extension().is_some_and(|e| e == "sql") {
                let program = planned(&std::fs::read_to_string(file.path()).expect("readable"));
                assert!(program.warnings.is_empty(), "{:?} {:?}", file.path(), program.warnings);
                assert!(explain(&program).contains("lateness"));
                seen += 1;
            }
        }
    }
    assert!(seen > 0);
}

/// Plans a table and a query that passes its rows through.
fn table(columns: &str, options: &str) -> crate::plan::TablePlan {
    planned(&format!("CREATE TABLE t ({columns}) WITH ({options});\nSELECT 1 AS x FROM t")).tables.remove(0)
}

fn types(columns: &str) -> Vec<String> {
    table(columns, "connector = 'stdin'").columns.iter().map(|c| format!("{} {}", c.path.join("/"), c.dtype)).collect()
}

#[test]
fn columns_have_types_and_paths() {
    assert_eq!(
        types(
            "a BOOLEAN, b bool, c BIGINT, d integer, e INT, f smallint, g DOUBLE, h DOUBLE PRECISION, i FLOAT, j real"
        ),
        [
            "a BOOLEAN",
            "b BOOLEAN",
            "c BIGINT",
            "d BIGINT",
            "e BIGINT",
            "f BIGINT",
            "g DOUBLE",
            "h DOUBLE",
            "i DOUBLE",
            "j DOUBLE"
        ]
    );
    assert_eq!(
        types(
            "a DECIMAL, b NUMERIC(10), c DEC(38, 38), d TEXT, e VARCHAR, f STRING, g TIMESTAMP(3), h TIMESTAMPTZ, i DATE, j INTERVAL"
        ),
        [
            "a DECIMAL(38,9)",
            "b DECIMAL(10,0)",
            "c DECIMAL(38,38)",
            "d TEXT",
            "e TEXT",
            "f TEXT",
            "g TIMESTAMP",
            "h TIMESTAMP",
            "i DATE",
            "j INTERVAL"
        ]
    );
    assert_eq!(
        types(
            "payload.user.Id BIGINT, \"a.b\" TEXT, Mixed TEXT, \"with \"\"quote\"\"\" TEXT, partition TEXT, user TEXT, time TIMESTAMP, watermark TIMESTAMP"
        ),
        [
            "payload/user/Id BIGINT",
            "a.b TEXT",
            "Mixed TEXT",
            "with \"quote\" TEXT",
            "partition TEXT",
            "user TEXT",
            "time TIMESTAMP",
            "watermark TIMESTAMP"
        ]
    );
}

#[test]
fn names_match_without_case_unless_quoted() {
    let program = planned(
        "create table T (orderId BIGINT, \"orderID\" BIGINT, Payload.Size DOUBLE) with (connector = 'stdin');
         select orderId, \"orderID\" as other, payload.SIZE, x.payload.size * 2 as twice from t x",
    );
    let ViewKind::PassThrough(exprs) = &program.views[0].kind else { panic!("rows") };
    assert_eq!(exprs[0].kind, ExprKind::Column(0));
    assert_eq!(exprs[1].kind, ExprKind::Column(1));
    assert_eq!(exprs[2].kind, ExprKind::Column(2));
    assert_eq!(outputs(&program.views[0]), ["orderId BIGINT", "other BIGINT", "Payload.Size DOUBLE", "twice DOUBLE"]);
}

#[test]
fn watermarks() {
    let of = |watermark: &str| {
        let t = table(
            &format!("a BIGINT, et TIMESTAMP, other TIMESTAMP, WATERMARK FOR et AS {watermark}"),
            "connector = 'stdin'",
        );
        (t.event_time, t.delay_us, t.watermark.is_some())
    };
    assert_eq!(of("et"), (Some(1), Some(0), true));
    assert_eq!(of("(et)"), (Some(1), Some(0), true));
    assert_eq!(of("et - INTERVAL '1 minute 30 seconds'"), (Some(1), Some(90 * SECOND), true));
    assert_eq!(of("t.ET - INTERVAL '5' MINUTE"), (Some(1), Some(5 * MINUTE), true));
    assert_eq!(of("et + INTERVAL '-5 seconds'"), (Some(1), Some(5 * SECOND), true));
    assert_eq!(of("et - INTERVAL '0 seconds'"), (Some(1), Some(0), true));
    assert_eq!(of("et - INTERVAL '100000000 days'"), (Some(1), Some(1 << 61), true));
    assert_eq!(of("other - INTERVAL '5 seconds'"), (Some(1), None, true));
    assert_eq!(of("CASE WHEN a > 0 THEN et ELSE other END"), (Some(1), None, true));
    let t = table("a BIGINT", "connector = 'stdin'");
    assert_eq!((t.event_time, t.delay_us, t.watermark), (None, None, None));
}

#[test]
fn defaults_follow_from_the_source() {
    let scope = |options: &str| table("et TIMESTAMP, at TIMESTAMP, WATERMARK FOR et AS et", options).scope;
    assert_eq!(scope("connector = 'stdin'"), LatenessScope::Partition);
    assert_eq!(scope("path = 'x.csv'"), LatenessScope::Partition);
    assert_eq!(scope("path = 'x.csv', arrival_time = 'AT'"), LatenessScope::Source);
    assert_eq!(scope("path = 'x.csv', arrival_time = 'at', lateness_scope = 'partition'"), LatenessScope::Partition);
    let format = |path: &str| match table("a BIGINT", &format!("path = '{path}'")).source {
        SourcePlan::File { format, .. } => format,
        other => panic!("{other:?}"),
    };
    for path in ["x.ndjson", "x.jsonl", "x.json", "x.JSON.gz", "data/*.ndjson.zst"] {
        assert_eq!(format(path), Format::Json, "{path}");
    }
    for (path, byte) in [("x.csv", b','), ("x.csv.gz", b','), ("x.tsv", b'\t')] {
        let Format::Csv(csv) = format(path) else { panic!("{path}") };
        assert_eq!((csv.delimiter, csv.null.as_str(), csv.header), (byte, "", true));
    }
    let csv =
        table("a BIGINT", "connector = 'stdin', format = 'csv', delimiter = ';', null = 'NA', header = false").source;
    let SourcePlan::Stdin { format: Format::Csv(csv) } = csv else { panic!("csv") };
    assert_eq!((csv.delimiter, csv.null.as_str(), csv.header), (b';', "NA", false));
}

#[test]
fn every_table_option_is_read() {
    let t = table(
        "et TIMESTAMP, at TIMESTAMP, p TEXT, WATERMARK FOR et AS et",
        "'connector' = 'file', path = 'x.json', format = 'csv', time_unit = 's', arrival_time = 'at', partition = 'p', \
         partitions = 'a, b,c', idle_timeout = '1m', granularity = '10ms', tick = INTERVAL '5 seconds', max_future = 0, \
         lateness_scope = 'source', late_records = 'drop', on_error = 'FAIL', rejects = 'r.txt'",
    );
    assert!(matches!(t.source, SourcePlan::File { format: Format::Csv(_), .. }));
    assert_eq!((t.time_unit_us, t.arrival_time, t.partition), (SECOND, Some(1), Some(2)));
    assert_eq!(t.partitions, ["a", "b", "c"]);
    assert_eq!(
        (t.idle_timeout_us, t.granularity_us, t.tick_us, t.max_future_us),
        (Some(MINUTE), 10_000, 5 * SECOND, Some(0))
    );
    assert_eq!((t.late_records, t.on_error, t.rejects.as_deref()), (LateRecords::Drop, OnError::Fail, Some("r.txt")));
}

#[test]
fn the_generator_has_columns_and_times() {
    let program = planned("CREATE TABLE g WITH (connector = 'generator'); SELECT * FROM g");
    let t = &program.tables[0];
    assert_eq!(t.columns.len(), 6);
    assert_eq!((t.event_time, t.arrival_time, t.partition, t.delay_us), (Some(3), Some(4), None, Some(SECOND)));
    assert_eq!(t.scope, LatenessScope::Source);
    let t = table(
        "amount DECIMAL(12,2), arrival_time TIMESTAMP, event_time TIMESTAMP, partition TEXT, WATERMARK FOR event_time AS event_time",
        "connector = 'generator', seed = 7, rows = 10, rate = 2.5, keys = 3, partitions = 2, delay_mean = '1s', late_share = 0.5, \
         late_max = '1m', delay_quantiles = '1ms:90%, 1h:100%', delayed_keys = 0.5, key_delay = '1m', silent_every = '1h', silent_for = '5m', start = '1970-01-01T00:00:01Z', partition = 'partition', idle_timeout = '2s'",
    );
    assert_eq!((t.event_time, t.arrival_time, t.partition, t.delay_us), (Some(2), Some(1), Some(3), Some(0)));
    assert_eq!(t.partitions, ["0", "1"]);
    let SourcePlan::Generator(g) = t.source else { panic!("generator") };
    assert_eq!((g.seed, g.rows, g.rate, g.keys, g.partitions), (7, 10, 2.5, 3, 2));
    assert_eq!((g.delay_mean_us, g.late_share, g.late_max_us), (SECOND, 0.5, MINUTE));
    assert_eq!(
        (g.delay_quantiles, g.delayed_keys, g.key_delay_us),
        (vec![(1_000, 0.9), (60 * MINUTE, 1.0)], 0.5, MINUTE)
    );
    assert_eq!((g.silent_every_us, g.silent_for_us, g.start_us), (60 * MINUTE, 5 * MINUTE, SECOND));
}

#[test]
fn the_generator_has_workloads() {
    let program = planned("CREATE TABLE g WITH (connector = 'generator', workload = 'nexmark'); SELECT * FROM g");
    let t = &program.tables[0];
    let at = |name: &str| t.columns.iter().position(|c| c.name == name);
    assert_eq!((t.columns.len(), t.event_time, t.arrival_time), (19, at("date_time"), at("arrival_time")));
    assert!(matches!(&t.source, SourcePlan::Generator(g) if g.workload == Workload::Nexmark));
    for (table, part) in [
        ("WITH (connector = 'generator', workload = 'nexmark', keys = 5)", "\"keys\" is for workload = 'orders'"),
        ("WITH (connector = 'generator', workload = 'people')", "\"workload\""),
        ("WITH (connector = 'generator', workload = 'nexmark', late_share = 1.5)", "a share from 0 to 1"),
        ("WITH (connector = 'generator', workload = 'nexmark', partition = 'channel')", "not every record has a value"),
        ("(a BIGINT) WITH (connector = 'generator', workload = 'nexmark')", "no column \"a\""),
        ("(price TIMESTAMP) WITH (connector = 'generator', workload = 'nexmark')", "cannot fill column \"price\""),
        ("(a BIGINT) WITH (connector = 'stdin', format = 'csv', workload = 'nexmark')", "\"workload\" has no effect"),
    ] {
        let text = format!("CREATE TABLE g {table}; SELECT * FROM g");
        let message = plan("test", &text, &BareSelectDefaults::default()).expect_err("refused").to_string();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn windows_in_all_their_spellings() {
    let window = |from: &str, options: &str| {
        let text = format!("CREATE MATERIALIZED VIEW v {options} AS SELECT count(*) FROM {from} GROUP BY window_end");
        let w = windowed(&with_orders(&text).views[0]).window;
        (w.size_us / SECOND, w.slide_us / SECOND, w.offset_us / SECOND)
    };
    let tumble = "TUMBLE(orders, event_time, INTERVAL '10 seconds')";
    assert_eq!(window(tumble, ""), (10, 10, 0));
    assert_eq!(
        window("tumble(ORDERS o, o.event_time, '10 s')".replace(" o,", ",").replace("o.e", "e").as_str(), ""),
        (10, 10, 0)
    );
    assert_eq!(
        window("TABLE(TUMBLE(TABLE orders, DESCRIPTOR(event_time), INTERVAL '10' SECOND)) AS x", ""),
        (10, 10, 0)
    );
    assert_eq!(window("HOP(orders, orders.event_time, INTERVAL '5 seconds', INTERVAL '12 seconds')", ""), (12, 5, 0));
    assert_eq!(
        window("HOP(TABLE orders, DESCRIPTOR(event_time), INTERVAL '5 seconds', INTERVAL '12 seconds')", ""),
        (12, 5, 0)
    );
    assert_eq!(window(tumble, "WITH (offset = '25 s')"), (10, 10, 5));
    assert_eq!(window(tumble, "WITH (offset = '-5 s')"), (10, 10, 5));
    assert_eq!(window(tumble, "WITH (offset = '10 s')"), (10, 10, 0));
    assert_eq!(
        window("TUMBLE(orders, event_time, INTERVAL '3652500 days')", ""),
        (3_652_500 * 86_400, 3_652_500 * 86_400, 0)
    );
    assert_eq!(window("HOP(orders, event_time, INTERVAL '1 s', INTERVAL '1000000 s')", ""), (1_000_000, 1, 0));
}

fn tumble(select: &str, rest: &str) -> Program {
    with_orders(&format!("SELECT {select} FROM TUMBLE(orders, event_time, INTERVAL '1 minute') o {rest}"))
}

#[test]
fn window_columns_not_named_stand_first() {
    let names = |select: &str| -> Vec<String> {
        tumble(select, "GROUP BY note, window_start").views[0].output.iter().map(|(n, _)| n.clone()).collect()
    };
    assert_eq!(names("count(*)"), ["window_start", "window_end", "count"]);
    assert_eq!(names("note, count(*), window_end"), ["window_start", "note", "count", "window_end"]);
    assert_eq!(names("o.window_start, note"), ["window_end", "window_start", "note"]);
    assert_eq!(names("window_start AS s, WINDOW_END AS e, count(*) n"), ["s", "e", "n"]);
}

#[test]
fn groups_by_ordinal_alias_and_expression() {
    for (select, rest) in [
        ("lower(note) AS n, window_end", "GROUP BY lower(note), window_end"),
        ("lower(note) AS n, window_end", "GROUP BY 1, 2"),
        ("lower(note) AS n, window_end", "GROUP BY n, window_start"),
        (
            "lower(o.NOTE) AS n, window_end",
            "GROUP BY lower(orders.note), window_start".replace("orders.", "o.").as_str(),
        ),
    ] {
        let program = tumble(select, rest);
        let w = windowed(&program.views[0]);
        assert_eq!(w.group.len(), 1, "{rest}");
        assert!(w.aggregates.is_empty());
        // window_start stands first, then n, then window_end.
        let columns: Vec<_> = w.select.iter().map(|e| e.kind.clone()).collect();
        assert_eq!(columns, [ExprKind::Column(1), ExprKind::Column(0), ExprKind::Column(2)], "{rest}");
    }
    // A column goes before an alias of the same name.
    let program = tumble("lower(note) AS note, max(note) AS m", "GROUP BY note, window_end");
    assert_eq!(windowed(&program.views[0]).group, [Expr::column(3, DataType::Text)]);
    // Equal expressions are one group; a group may be computed further.
    let program = tumble("(amount * 2) + 1 AS x", "GROUP BY amount * 2, (amount * 2), window_end");
    let w = windowed(&program.views[0]);
    assert_eq!(w.group.len(), 1);
    assert!(matches!(&w.select[2].kind, ExprKind::Call(Func::Add, args) if args[0].kind == ExprKind::Column(0)));
    // No group column at all, and a constant beside.
    let program = tumble("count(*), 'x' AS tag", "GROUP BY window_start, window_end");
    assert!(windowed(&program.views[0]).group.is_empty());
}

#[test]
fn aggregates_are_shared_and_computed_with() {
    let program = tumble(
        "sum(amount) / count(*) AS mean, round(sum(amount), 1) AS r, count(*) FILTER (WHERE paid) AS p, count(*) FILTER (WHERE PAID) * 100 / count(*) AS share",
        "GROUP BY window_start HAVING count(*) > 1 AND mean > 2 AND window_end > TIMESTAMP '2026-01-01'",
    );
    let w = windowed(&program.views[0]);
    let functions: Vec<_> = w.aggregates.iter().map(|a| (a.spec.func, a.filter.is_some())).collect();
    assert_eq!(
        functions,
        [(AggregateFunc::Sum, false), (AggregateFunc::CountAll, false), (AggregateFunc::CountAll, true)]
    );
    assert!(w.having.is_some());
}

#[test]
fn every_aggregate_binds() {
    let program = tumble(
        "count(*) a, count(note) b, count(DISTINCT note) c, sum(order_id) d, avg(order_id) e, min(note) f, max(event_time) g, \
         bool_and(paid) h, bool_or(paid) i, every(paid) j, stddev(payload.size) k, stddev_samp(payload.size) l, stddev_pop(amount) m, \
         variance(amount) n, var_samp(amount) o, var_pop(amount) p, array_agg(note) q, first_value(note) r, last_value(note) s, \
         approx_count_distinct(customer_id) t, approx_percentile(amount, 0.95) u, approx_percentile(amount, 1) v, min(DISTINCT note) w, \
         sum(amount * 2) FILTER (WHERE paid AND note <> 'x') x",
        "GROUP BY window_start",
    );
    let w = windowed(&program.views[0]);
    // every is bool_and; stddev and variance are the sample's; DISTINCT changes no minimum.
    assert_eq!(w.aggregates.len(), 20);
    let shares: Vec<f64> = w
        .aggregates
        .iter()
        .filter_map(|a| if let AggregateFunc::ApproxPercentile(q) = a.spec.func { Some(q) } else { None })
        .collect();
    assert_eq!(shares, [0.95, 1.0]);
    assert_eq!(program.views[0].output[18].1, DataType::List(Box::new(DataType::Text)));
}

#[test]
fn expressions_bind() {
    let items = [
        "note IN ('a', 'b', 'c')",
        "order_id NOT IN (1, 2)",
        "amount BETWEEN 1 AND 2.5",
        "amount NOT BETWEEN 1 AND 2",
        "note LIKE 'a%'",
        "note NOT ILIKE 'A_'",
        "note LIKE 'a' ESCAPE '\\'",
        "note IS NULL",
        "note IS NOT NULL",
        "paid IS TRUE",
        "paid IS NOT FALSE",
        "paid IS UNKNOWN",
        "note IS DISTINCT FROM 'x'",
        "note IS NOT DISTINCT FROM NULL",
        "CASE order_id WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE note END",
        "CASE WHEN paid THEN 1 END",
        "coalesce(note, 'none')",
        "nullif(order_id, 0)",
        "CAST(order_id AS TEXT)",
        "order_id::DOUBLE / 3",
        "extract(hour FROM event_time)",
        "date_trunc('day', event_time)",
        "event_time - arrival_time",
        "event_time + INTERVAL '1' HOUR",
        "event_time > '2026-01-01'",
        "event_time >= TIMESTAMP '2026-01-01T00:00:00Z'",
        "DATE '2026-01-01'",
        "position('a' IN note)",
        "substring(note FROM 2 FOR 3)",
        "substr(note, 2)",
        "trim(BOTH 'x' FROM note)",
        "trim(note)",
        "ceil(amount)",
        "floor(payload.size)",
        "-9223372036854775808",
        "-amount",
        "+order_id",
        "NOT paid",
        "note || '!' || note",
        "order_id % 2",
        "greatest(order_id, 2, amount)",
        "(((order_id)))",
        "$$it's$$ || E'\\n'",
    ];
    for item in items {
        let program =
            with_orders(&format!("SELECT {item} AS x FROM orders WHERE paid AND NOT (amount <= 0 OR note = 'x')"));
        assert!(program.views[0].filter.is_some());
        assert_eq!(program.views[0].output.len(), 1, "{item}");
    }
    let program = with_orders("SELECT -9223372036854775808 AS x FROM orders");
    let ViewKind::PassThrough(exprs) = &program.views[0].kind else { panic!("rows") };
    assert_eq!(exprs[0], Expr::literal(Value::BigInt(i64::MIN), DataType::BigInt));
}

#[test]
fn hostile_texts_are_refused_without_a_panic() {
    let many = |part: &str, n: usize| part.repeat(n);
    let texts = [
        format!("SELECT {}1 FROM orders", many("1 + ", 150)),
        format!("SELECT {}1 FROM orders", many("1 + ", 1_000)),
        format!("SELECT {}1 FROM orders", many("1 + ", 100_000)),
        format!("SELECT {}1{} FROM orders", many("(", 5_000), many(")", 5_000)),
        format!("SELECT {}paid FROM orders", many("NOT ", 3_000)),
        format!("SELECT {}1 FROM orders", many("- ", 3_000)),
        format!("SELECT {}", many("CASE WHEN ", 2_000)),
        format!("SELECT note FROM orders WHERE {}paid", many("paid AND ", 300)),
        format!("SELECT {}", many("f(", 2_000)),
        format!("SELECT note FROM {}orders", many("(", 2_000)),
        many("CREATE ", 1_000),
        many(";", 10_000),
        "\u{feff}SELECT 1".to_owned(),
        "SELECT \0 FROM orders".to_owned(),
        "SELECT 'ü' || \"ö\" FROM orders WHERE ä".to_owned(),
        format!("SELECT note FROM orders WHERE order_id IN ({}1)", many("1, ", 20_000)),
    ];
    for (at, text) in texts.iter().enumerate() {
        let result = plan("query.sql", &format!("{ORDERS}{text}"), &BareSelectDefaults::default());
        assert_eq!(
            result.is_ok(),
            at == 0 || at == 15,
            "{at}: {}",
            result.map_or_else(|e| shown(&e), |_| String::new())
        );
    }
    // Every prefix of a good text.
    for end in (0..DESIGN.len()).filter(|i| DESIGN.is_char_boundary(*i)) {
        let _ = plan("query.sql", &DESIGN[..end], &BareSelectDefaults::default());
    }
}

#[test]
fn sinks_and_bare_selects() {
    let view = "CREATE MATERIALIZED VIEW v AS SELECT count(*) FROM TUMBLE(orders, event_time, INTERVAL '1 minute') GROUP BY window_end;";
    let program = with_orders(view);
    assert_eq!(program.sinks.len(), 1);
    assert_eq!((program.sinks[0].name.as_deref(), &program.sinks[0].target), (None, &SinkTarget::Stdout(None)));
    let program = with_orders(&format!(
        "{view} CREATE SINK a FROM V WITH (connector = 'stdout', format = 'csv', mode = 'metrics');
         CREATE SINK b FROM v WITH (path = 'b.csv', mode = 'backfills'); CREATE SINK c FROM v;
         CREATE SINK d FROM v WITH (connector = 'file', path = 'd.dat', format = 'json')"
    ));
    let sinks: Vec<_> = program.sinks.iter().map(|s| (s.mode, s.target.clone())).collect();
    assert_eq!(
        sinks,
        [
            (SinkMode::Metrics, SinkTarget::Stdout(Some(SinkFormat::Csv))),
            (SinkMode::Backfills, SinkTarget::File("b.csv".into(), SinkFormat::Csv)),
            (SinkMode::Changelog, SinkTarget::Stdout(None)),
            (SinkMode::Changelog, SinkTarget::File("d.dat".into(), SinkFormat::Ndjson)),
        ]
    );
    // A view without a sink beside a bare SELECT is named in a warning.
    let program = with_orders(&format!("{view} SELECT note FROM orders; SELECT paid FROM orders;"));
    assert_eq!(program.sinks.iter().map(|s| s.view).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(program.warnings, ["view \"v\" has no sink: its results are not written"]);
    let two = format!("{ORDERS}{view} {}", view.replace(" v ", " w "));
    let error = plan("query.sql", &two, &BareSelectDefaults::default()).expect_err("no sink");
    assert_eq!(
        shown(&error),
        "query.sql: 2 views and no sink: nothing would be written\nhint: add CREATE SINK out FROM v WITH (connector = 'stdout')"
    );
}

#[test]
fn bare_selects_take_their_settings_from_the_command() {
    let settings = |horizon_us, late: Option<&str>| BareSelectDefaults { horizon_us, late: late.map(str::to_owned) };
    let text =
        format!("{ORDERS}SELECT count(*) FROM TUMBLE(orders, event_time, INTERVAL '1 minute') GROUP BY window_end");
    let program = plan("-e", &text, &settings(Some(i64::MAX), Some("late.csv"))).expect("plans");
    assert_eq!((program.views[0].horizon_us, program.views[0].late.as_deref()), (Some(1 << 61), Some("late.csv")));
    let error = plan("-e", &text, &settings(Some(-1), None)).expect_err("negative");
    assert_eq!(shown(&error), "--horizon: expected a duration of zero or more");
    let rows = plan("-e", &format!("{ORDERS}SELECT note FROM orders"), &settings(Some(5), None)).expect("plans");
    assert_eq!(rows.views[0].horizon_us, None);
    assert_eq!(rows.warnings, ["the SELECT passes rows through: --horizon has no effect"]);
    let twice =
        plan("-e", &format!("{text}; {}", text.lines().last().expect("a line")), &settings(None, Some("late.csv")));
    assert_eq!(
        shown(&twice.expect_err("one file")),
        "-e: two outputs write the file 'late.csv': the late output of the SELECT and the late output of the SELECT"
    );
}

#[test]
fn warnings_name_what_has_no_effect() {
    let view = |table: &str, options: &str, from: &str| {
        let text = format!(
            "CREATE TABLE t (et TIMESTAMP, WATERMARK FOR et AS et) WITH (connector = 'stdin'{table});
             CREATE MATERIALIZED VIEW v {options} AS SELECT count(*) FROM {from} GROUP BY window_end"
        );
        planned(&text).warnings
    };
    let minute = "TUMBLE(t, et, INTERVAL '1 minute')";
    assert_eq!(
        view(", late_records = 'drop'", "WITH (horizon = '1s')", minute),
        ["view \"v\": the horizon has no effect, because table \"t\" has late_records = 'drop'"]
    );
    assert_eq!(
        view("", "", "HOP(t, et, INTERVAL '500 ms', INTERVAL '2 s')"),
        ["view \"v\": the slide 500ms is finer than the granularity 1s of table \"t\", so its windows close in groups"]
    );
    assert!(view(", granularity = '1ms'", "WITH (horizon = 0)", "TUMBLE(t, et, INTERVAL '1 ms')").is_empty());
    let twice = "CREATE TABLE t (a BIGINT) WITH (connector = 'stdin'); CREATE TABLE IF NOT EXISTS t (b BIGINT) WITH (connector = 'stdin'); SELECT a FROM t";
    assert_eq!(planned(twice).warnings, ["table \"t\" exists already: the second declaration is ignored"]);
}

#[test]
fn files_are_written_once_and_not_read() {
    let fails = |text: &str| shown(&plan("q", text, &BareSelectDefaults::default()).expect_err("refused"));
    let base = "CREATE TABLE t (a BIGINT) WITH (path = 'in.csv', rejects = 'r.csv'); CREATE MATERIALIZED VIEW v AS SELECT a FROM t;";
    assert_eq!(
        fails(&format!("{base} CREATE SINK s FROM v WITH (path = 'r.csv')")),
        "q: two outputs write the file 'r.csv': sink \"s\" and the rejects of table \"t\""
    );
    assert_eq!(
        fails(&format!("{base} CREATE SINK s FROM v WITH (path = 'in.csv')")),
        "q: sink \"s\" would write 'in.csv', which table \"t\" reads"
    );
}

#[test]
fn explain_says_what_a_late_record_gets() {
    let text = explain(&planned(DESIGN));
    for part in [
        "table orders\n",
        "the greatest event_time so far, minus 30s",
        "view per_minute\n",
        "tumbling, 1m",
        "a record whose stamp is before the window's end is on time",
        "a record whose stamp is at or past the window's end, by up to 3m, is late: it corrects the result at its stamp",
        "once the watermark is more than 3m past the end, it is too late: dropped",
        "having     count(*) > 0",
        "changelog to out/per_minute.ndjson as NDJSON",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let sentence = |options: &str, table: &str| {
        let text = format!(
            "CREATE TABLE t (et TIMESTAMP, WATERMARK FOR et AS et) WITH (connector = 'stdin'{table});
             CREATE MATERIALIZED VIEW v {options} AS SELECT count(*) FROM TUMBLE(t, et, INTERVAL '1 minute') GROUP BY window_end"
        );
        explain(&planned(&text))
    };
    assert!(sentence("", "").contains("no horizon is set"));
    assert!(sentence("WITH (horizon = 0)", "").contains("exactly the window's end"));
    assert!(sentence("WITH (horizon = '100000000 days')", "").contains("however late"));
    assert!(sentence("WITH (late = 'l.csv')", "").contains("written to l.csv"));
    assert!(sentence("", ", late_records = 'drop'").contains("open ones too"));
    assert!(explain(&with_orders("SELECT note FROM orders")).contains("a row is never late"));
}
