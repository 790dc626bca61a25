//! `slackwater gen`: writes the built-in generator's records to files or standard output.
//!
//! The records are those of `connector = 'generator'` with the same settings, in the same order. Files are written aside
//! and renamed when complete, so that a file that is there is whole. Cost: about 0.2 µs an order of NDJSON without
//! compression, 0.8 µs a record of NEXMark; memory as the generator's.

use super::aside::Aside;
use crate::error::{Error, Result};
use crate::plan::{GeneratorPlan, Workload};
#[cfg(feature = "parquet")]
use crate::source::generator::Order;
use crate::source::generator::{NexmarkStream, OrderStream, check_plan, default_plan, parse_quantiles};
use crate::time::{parse_duration, parse_timestamp};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

mod text;

/// Bytes collected before a write.
const BUFFER_BYTES: usize = 256 * 1024;

/// What the stream is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum GenFormat {
    /// One JSON object a line.
    #[value(alias = "json")]
    Ndjson,
    /// CSV with a header.
    Csv,
    /// Parquet (needs the cargo feature `parquet`).
    Parquet,
}

/// Writes the built-in generator's records, orders or NEXMark's: seeded, out of order, late as asked.
#[derive(Clone, Debug, clap::Args)]
pub struct GenArgs {
    /// What records hold: orders, or the people, auctions and bids of NEXMark (ndjson and csv only)
    #[arg(value_name = "WORKLOAD", default_value = "orders", value_parser = workload())]
    pub workload: Workload,
    /// Number of records
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub rows: u64,
    /// Records per second of event time, over all partitions
    #[arg(long, value_name = "R", default_value_t = 10_000.0)]
    pub rate: f64,
    /// Number of distinct customers, for orders [default: 10000]
    #[arg(long, value_name = "N")]
    pub keys: Option<u64>,
    /// Seed; the same settings and seed give the same bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Mean of the exponential delay of ordinary records
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub delay_mean: i64,
    /// Share of records (0 to 1) that are late instead, uniformly up to --late-max
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    pub late_share: f64,
    /// Longest delay of the late share
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration)]
    pub late_max: i64,
    /// Delays by quantiles instead, evenly spread over the logarithm between them: 1ms:90%,1h:99%,1d:100%
    #[arg(long, value_name = "LIST", value_parser = quantiles, conflicts_with_all = ["delay_mean", "late_share", "late_max"])]
    pub delay_quantiles: Option<Quantiles>,
    /// Share of the customers (0 to 1) whose orders are delayed by --key-delay more
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub delayed_keys: f64,
    /// How much later those are
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pub key_delay: i64,
    /// Every so often one partition in turn falls silent (0s: never)
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pub silent_every: i64,
    /// Length of a silent spell; its records arrive afterwards
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pub silent_for: i64,
    /// Event time of the first record
    #[arg(long, value_name = "TIME", default_value = "2026-01-01T00:00:00Z", value_parser = timestamp)]
    pub start: i64,
    /// Number of partitions: as many files, named PATH-0, PATH-1, ... before the suffix
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub partitions: u32,
    /// One file with all partitions merged by arrival time, and a column that names them
    #[arg(long)]
    pub partition_column: bool,
    /// Format; by default the suffix of --out says, else ndjson
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<GenFormat>,
    /// Output file (.gz and .zst are compressed); standard output if not given or `-`
    #[arg(long, short, value_name = "PATH")]
    pub out: Option<PathBuf>,
}

/// A workload by its name.
fn workload() -> impl TypedValueParser<Value = Workload> {
    PossibleValuesParser::new(Workload::NAMED.map(|(name, _)| name)).map(|name| {
        let named = Workload::NAMED.iter().find(|(known, _)| *known == name);
        named.map_or_else(Workload::default, |(_, workload)| *workload)
    })
}

fn duration(text: &str) -> Result<i64, String> {
    match parse_duration(text)? {
        us if us < 0 => Err("expected a duration of at least 0".into()),
        us => Ok(us),
    }
}

/// Longest delays with shares. (A type of its own: clap takes a `Vec` for an argument that is repeated.)
#[derive(Clone, Debug, PartialEq)]
pub struct Quantiles(pub Vec<(i64, f64)>);

fn quantiles(text: &str) -> Result<Quantiles, String> {
    parse_quantiles(text).map(Quantiles)
}

fn timestamp(text: &str) -> Result<i64, String> {
    parse_timestamp(text.as_bytes()).ok_or_else(|| "expected a time such as 2026-01-01T00:00:00Z".into())
}

impl GenArgs {
    /// The generator's settings.
    pub fn plan(&self) -> GeneratorPlan {
        GeneratorPlan {
            workload: self.workload,
            seed: self.seed,
            rows: self.rows,
            rate: self.rate,
            keys: self.keys.unwrap_or_else(|| default_plan().keys),
            partitions: self.partitions,
            delay_mean_us: self.delay_mean,
            late_share: self.late_share,
            late_max_us: self.late_max,
            delay_quantiles: self.delay_quantiles.clone().map(|quantiles| quantiles.0).unwrap_or_default(),
            delayed_keys: self.delayed_keys,
            key_delay_us: self.key_delay,
            silent_every_us: self.silent_every,
            silent_for_us: self.silent_for,
            start_us: self.start,
        }
    }

    /// The arguments that ask for these settings, as one stream to standard output.
    pub fn of(plan: &GeneratorPlan) -> GenArgs {
        GenArgs {
            workload: plan.workload,
            rows: plan.rows,
            rate: plan.rate,
            keys: (plan.workload == Workload::Orders).then_some(plan.keys),
            seed: plan.seed,
            delay_mean: plan.delay_mean_us,
            late_share: plan.late_share,
            late_max: plan.late_max_us,
            delay_quantiles: Some(Quantiles(plan.delay_quantiles.clone())).filter(|quantiles| !quantiles.0.is_empty()),
            delayed_keys: plan.delayed_keys,
            key_delay: plan.key_delay_us,
            silent_every: plan.silent_every_us,
            silent_for: plan.silent_for_us,
            start: plan.start_us,
            partitions: plan.partitions,
            partition_column: false,
            format: None,
            out: None,
        }
    }
}

/// Writes the stream. A reader that closes standard output early is no error.
///
/// # Errors
/// When a setting is out of bounds or a file cannot be written; no file is left behind then.
pub fn run(args: GenArgs) -> Result<()> {
    let plan = args.plan();
    check_plan(&plan)?;
    if args.workload == Workload::Nexmark && args.keys.is_some() {
        return Err(Error::usage("--keys is for orders")
            .with_hint("how many auctions and people NEXMark has follows from --rate and --rows"));
    }
    let path = args.out.as_deref().filter(|path| *path != Path::new("-"));
    let name = path.map_or(Name::default(), Name::of);
    let format = args.format.or(name.format).unwrap_or(GenFormat::Ndjson);
    let with_partition = args.partition_column;
    if args.workload == Workload::Nexmark && format == GenFormat::Parquet {
        return Err(Error::usage("the records of NEXMark are not written as Parquet").with_hint("use ndjson or csv"));
    }
    let Some(path) = path else {
        if args.partitions > 1 && !with_partition {
            return Err(Error::usage("several partitions need a file each, and standard output is one")
                .with_hint("add --out PATH, or --partition-column for one stream of all partitions"));
        }
        let out = io::stdout();
        let written = write_stream((&plan, None), format, with_partition, out);
        return match written {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map(|_| ()).map_err(|e| Error::output("cannot write").at("standard output").with_source(e)),
        };
    };
    let outputs: Vec<(PathBuf, Option<u32>)> = if args.partitions > 1 && !with_partition {
        (0..args.partitions).map(|p| (name.numbered(path, p), Some(p))).collect()
    } else {
        vec![(path.to_path_buf(), None)]
    };
    let mut files = Vec::new();
    for (path, partition) in outputs {
        let fail = |e: io::Error| Error::output("cannot write").at(path.display().to_string()).with_source(e);
        let aside = Aside::create(&path).map_err(fail)?;
        let aside =
            write_compressed((&plan, partition), format, with_partition, name.compression, aside).map_err(fail)?;
        files.push((path, aside));
    }
    for (path, aside) in files {
        aside
            .publish(&path)
            .map_err(|e| Error::output("cannot write").at(path.display().to_string()).with_source(e))?;
    }
    Ok(())
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Compression {
    #[default]
    None,
    Gzip,
    Zstd,
}

/// What a path's suffixes say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Name {
    format: Option<GenFormat>,
    compression: Compression,
    /// Bytes of the suffixes that said something.
    suffix: usize,
}

impl Name {
    fn of(path: &Path) -> Name {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let lower = name.to_ascii_lowercase();
        let (compression, rest) = match (lower.strip_suffix(".gz"), lower.strip_suffix(".zst")) {
            (Some(rest), _) => (Compression::Gzip, rest),
            (_, Some(rest)) => (Compression::Zstd, rest),
            _ => (Compression::None, lower.as_str()),
        };
        let formats = [
            (".ndjson", GenFormat::Ndjson),
            (".jsonl", GenFormat::Ndjson),
            (".json", GenFormat::Ndjson),
            (".csv", GenFormat::Csv),
            (".parquet", GenFormat::Parquet),
        ];
        let found = formats.into_iter().find(|(suffix, _)| rest.ends_with(suffix));
        let stem = rest.len() - found.map_or(0, |(suffix, _)| suffix.len());
        Name { format: found.map(|f| f.1), compression, suffix: lower.len() - stem }
    }

    /// The path with `-N` before its suffixes.
    fn numbered(&self, path: &Path, number: u32) -> PathBuf {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (stem, suffix) = name.split_at_checked(name.len().saturating_sub(self.suffix)).unwrap_or((&name, ""));
        path.with_file_name(format!("{stem}-{number}{suffix}"))
    }
}

fn write_compressed(
    records: (&GeneratorPlan, Option<u32>),
    format: GenFormat,
    with_partition: bool,
    compression: Compression,
    out: Aside,
) -> io::Result<Aside> {
    let buffered = BufWriter::with_capacity(BUFFER_BYTES, out);
    let buffered = match compression {
        Compression::None => write_stream(records, format, with_partition, buffered)?,
        Compression::Gzip => {
            let encoder = flate2::write::GzEncoder::new(buffered, flate2::Compression::default());
            write_stream(records, format, with_partition, encoder)?.finish()?
        }
        Compression::Zstd => {
            let encoder = zstd::stream::write::Encoder::new(buffered, zstd::DEFAULT_COMPRESSION_LEVEL)?;
            write_stream(records, format, with_partition, encoder)?.finish()?
        }
    };
    buffered.into_inner().map_err(io::IntoInnerError::into_error)
}

/// The records of all partitions as text in memory.
pub(super) fn render(plan: &GeneratorPlan, format: GenFormat, with_partition: bool) -> io::Result<Vec<u8>> {
    write_stream((plan, None), format, with_partition, Vec::new())
}

/// Writes the records (of one partition, or of all) and gives the writer back.
fn write_stream<W: Write + Send>(
    (plan, partition): (&GeneratorPlan, Option<u32>),
    format: GenFormat,
    with_partition: bool,
    out: W,
) -> io::Result<W> {
    let orders = || OrderStream::new(plan, partition);
    let nexmark = || NexmarkStream::new(plan, partition);
    match (plan.workload, format) {
        (Workload::Orders, GenFormat::Ndjson) => text::orders(orders(), false, with_partition, out),
        (Workload::Orders, GenFormat::Csv) => text::orders(orders(), true, with_partition, out),
        (Workload::Orders, GenFormat::Parquet) => write_parquet(orders(), with_partition, out),
        (Workload::Nexmark, GenFormat::Ndjson) => text::nexmark(nexmark(), false, with_partition, out),
        (Workload::Nexmark, GenFormat::Csv) => text::nexmark(nexmark(), true, with_partition, out),
        (Workload::Nexmark, GenFormat::Parquet) => Err(io::Error::from(io::ErrorKind::Unsupported)),
    }
}

#[cfg(not(feature = "parquet"))]
fn write_parquet<W: Write + Send>(_: OrderStream, _: bool, _: W) -> io::Result<W> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this program was built without Parquet (cargo install slackwater --features parquet)",
    ))
}

#[cfg(feature = "parquet")]
fn write_parquet<W: Write + Send>(mut stream: OrderStream, with_partition: bool, out: W) -> io::Result<W> {
    use arrow_array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
    use arrow_schema::{DataType, Field, Schema, TimeUnit};
    use parquet::arrow::ArrowWriter;
    use std::sync::Arc;
    /// Rows built at a time; the writer makes row groups of its own size.
    const BATCH_ROWS: usize = 65_536;

    let time = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let mut fields = vec![
        Field::new("order_id", DataType::Int64, false),
        Field::new("customer_id", DataType::Int64, false),
        Field::new("amount", DataType::Decimal128(12, 2), false),
        Field::new("event_time", time.clone(), false),
        Field::new("arrival_time", time, false),
    ];
    if with_partition {
        fields.push(Field::new("partition", DataType::Utf8, false));
    }
    let schema = Arc::new(Schema::new(fields));
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_compression(parquet::basic::Compression::SNAPPY)
        .build();
    let mut writer = ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties))?;
    loop {
        let orders: Vec<Order> = stream.by_ref().take(BATCH_ROWS).collect();
        if orders.is_empty() {
            return Ok(writer.into_inner()?);
        }
        let times = |us: fn(&Order) -> i64| -> ArrayRef {
            let ms = TimestampMillisecondArray::from_iter_values(orders.iter().map(|o| us(o).div_euclid(1_000)));
            Arc::new(ms.with_timezone("UTC"))
        };
        let amounts = Decimal128Array::from_iter_values(orders.iter().map(|o| i128::from(o.amount_cents)));
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(orders.iter().map(|o| o.order_id as i64))),
            Arc::new(Int64Array::from_iter_values(orders.iter().map(|o| o.customer_id as i64))),
            Arc::new(amounts.with_precision_and_scale(12, 2).map_err(io::Error::other)?),
            times(|o| o.event_time_us),
            times(|o| o.arrival_time_us),
        ];
        if with_partition {
            columns.push(Arc::new(StringArray::from_iter_values(orders.iter().map(|o| o.partition.to_string()))));
        }
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), columns).map_err(io::Error::other)?)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::io::Read;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: GenArgs,
    }

    fn small(out: &Path) -> GenArgs {
        GenArgs { rows: 1_000, partitions: 2, out: Some(out.to_path_buf()), ..GenArgs::of(&default_plan()) }
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .expect("folder")
            .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn defaults_of_the_command_line_are_those_of_the_generator() {
        let args = Cli::parse_from(["gen"]).args;
        assert_eq!(args.plan(), default_plan());
        for workload in [Workload::Orders, Workload::Nexmark] {
            let plan = GeneratorPlan { workload, seed: 7, silent_for_us: 5, ..default_plan() };
            assert_eq!(GenArgs::of(&plan).plan(), plan);
        }
        assert_eq!(Cli::parse_from(["gen", "nexmark"]).args.workload, Workload::Nexmark);
        let args = Cli::parse_from(["gen", "--delay-mean", "250ms", "--start", "1969-12-31T23:00:00Z"]).args;
        assert_eq!((args.delay_mean, args.start), (250_000, -3_600_000_000));
        assert!(Cli::try_parse_from(["gen", "--late-max=-1s"]).is_err());
    }

    #[test]
    fn partitions_are_files_or_a_column() {
        let folder = tempfile::tempdir().expect("folder");
        run(small(&folder.path().join("new/orders.csv"))).expect("written");
        assert_eq!(names(&folder.path().join("new")), ["orders-0.csv", "orders-1.csv"]);
        let file = |n: u32| std::fs::read_to_string(folder.path().join(format!("new/orders-{n}.csv"))).expect("text");
        let stream = OrderStream::new(&small(Path::new("-")).plan(), Some(1));
        assert_eq!(file(1).lines().count(), 1 + stream.count());
        let one = folder.path().join("one.csv");
        run(GenArgs { partition_column: true, ..small(&one) }).expect("written");
        let text = std::fs::read_to_string(one).expect("text");
        let mut merged: Vec<_> = text.lines().skip(1).filter_map(|l| l.strip_suffix(",1")).collect();
        merged.insert(0, "order_id,customer_id,amount,event_time,arrival_time");
        assert_eq!(merged, file(1).lines().collect::<Vec<_>>());
        assert!(run(GenArgs { out: None, ..small(&folder.path().join("x")) }).is_err());
    }

    #[test]
    fn suffixes_compress() {
        let folder = tempfile::tempdir().expect("folder");
        let read = |name: &str| {
            let path = folder.path().join(name);
            run(GenArgs { partitions: 1, ..small(&path) }).expect("written");
            std::fs::read(path).expect("bytes")
        };
        let plain = read("a.ndjson");
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&*read("a.ndjson.gz")).read_to_end(&mut unpacked).expect("gzip");
        assert_eq!(unpacked, plain);
        assert_eq!(zstd::decode_all(&*read("a.json.zst")).expect("zstd"), plain);
        assert_eq!(names(folder.path()), ["a.json.zst", "a.ndjson", "a.ndjson.gz"]);
        assert_eq!(Name::of(Path::new("a.csv.gz")).numbered(Path::new("d/a.csv.gz"), 4), Path::new("d/a-4.csv.gz"));
        assert_eq!(Name::of(Path::new("orders")).numbered(Path::new("orders"), 0), Path::new("orders-0"));
    }

    #[test]
    fn a_failed_run_leaves_nothing() {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::create_dir(folder.path().join("taken-1.ndjson")).expect("folder");
        let error = run(small(&folder.path().join("taken.ndjson"))).expect_err("one output is a directory");
        assert!(error.to_string().contains("taken-1.ndjson"), "{error}");
        assert_eq!(names(folder.path()), ["taken-1.ndjson"]);
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn parquet_holds_every_row() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("orders.parquet");
        run(GenArgs { partition_column: true, ..small(&path) }).expect("written");
        let file = std::fs::File::open(path).expect("file");
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file)
            .and_then(|builder| builder.build())
            .expect("parquet");
        let rows: usize = reader.map(|batch| batch.expect("batch").num_rows()).sum();
        assert_eq!(rows, 1_000);
    }
}
