//! Parquet files (cargo feature `parquet`): batches of rows become blocks.
//!
//! A lane is read by its owner alone. A record's position is its row number in the file, from 1. There is no text: spans
//! are empty, and rejects show only what was found in the column. Batches in which everything fits are taken a column at a
//! time; if anything does not, the batch is read row by row, which alone rejects. Which columns are read depends on the
//! query; which records are rejects of the table does not, as nothing but the table's own columns can make one here.
//!
//! | declared | Parquet, in Arrow's terms |
//! | --- | --- |
//! | BOOLEAN | Boolean |
//! | BIGINT | integers |
//! | DOUBLE | Float32, Float64, integers |
//! | DECIMAL | Decimal128, integers; exactly, as everywhere |
//! | TIMESTAMP | Timestamp of any unit (floored to µs), Date32, integers in `time_unit` |
//! | DATE | Date32 |
//! | any | Utf8, read as a CSV field would be |

use super::arrow::{Found, field, find, fits};
use super::decode::{BlockBuilder, BlockPlace, DecodePlan, Place, Slot};
use super::files::InputFile;
use super::value::RawField;
use super::{DecodedBlock, LaneReader, Next};
use crate::error::{Error, Result};
use crate::types::Column;
use arrow_array::{Array, RecordBatch};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::Result as ParquetResult;
use parquet::file::reader::{ChunkReader, Length};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows of a block at most.
const BLOCK_ROWS: usize = 16 << 10;

/// A file that can be closed, and opens again when something is read.
#[derive(Clone)]
struct Closing {
    path: PathBuf,
    size: u64,
    open: Arc<Mutex<Option<File>>>,
}

impl Closing {
    fn new(file: &InputFile) -> std::io::Result<Self> {
        let open = File::open(&file.path)?;
        let size = open.metadata()?.len();
        Ok(Closing { path: file.path.clone(), size, open: Arc::new(Mutex::new(Some(open))) })
    }

    fn close(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// A handle that stands at `start`.
    fn at(&self, start: u64) -> std::io::Result<File> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut handle = match &*open {
            Some(file) => file.try_clone()?,
            None => open.insert(File::open(&self.path)?).try_clone()?,
        };
        handle.seek(SeekFrom::Start(start))?;
        Ok(handle)
    }
}

impl Length for Closing {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for Closing {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> ParquetResult<BufReader<File>> {
        Ok(BufReader::new(self.at(start)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<bytes::Bytes> {
        let mut out = vec![0; length];
        self.at(start)?.read_exact(&mut out)?;
        Ok(out.into())
    }
}

/// The file's description, with the reader not yet made.
fn describe(file: &InputFile) -> Result<(ParquetRecordBatchReaderBuilder<Closing>, Closing)> {
    if !file.regular {
        let error = Error::usage("expected a Parquet file, found a pipe or device").at(&*file.name);
        return Err(error.with_hint("Parquet is read from its end; write it to a file first"));
    }
    let handle = Closing::new(file).map_err(|error| file.unreadable(error))?;
    // Without the writer's own schema a dictionary is the values it stands for.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(handle.clone(), options);
    Ok((builder.map_err(|error| broken(file, error))?, handle))
}

fn broken(file: &InputFile, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::input("cannot read Parquet").at(&*file.name).with_source(error)
}

/// Checks that a file has the declared columns.
///
/// # Errors
/// When it is no Parquet, or lacks one.
pub(super) fn check_columns(file: &InputFile, plan: &DecodePlan) -> Result<()> {
    let (builder, _) = describe(file)?;
    let leaves: Vec<String> = builder.parquet_schema().columns().iter().map(|leaf| leaf.path().string()).collect();
    for name in &plan.names {
        let below = format!("{name}.");
        if !leaves.iter().any(|leaf| leaf == name || leaf.starts_with(&below)) {
            let names: Vec<String> = leaves.iter().map(|leaf| format!("\"{leaf}\"")).collect();
            return Err(Error::usage(format!("expected a column \"{name}\", found none"))
                .at(&*file.name)
                .with_hint(format!("the file has {}", names.join(", "))));
        }
    }
    Ok(())
}

/// Reads a lane of Parquet files.
pub(super) struct ParquetReader {
    lane: u32,
    files: Arc<[InputFile]>,
    file: usize,
    index: u64,
    open: Option<OpenFile>,
    time_unit_us: i64,
    slots: Vec<Slot>,
    builder: BlockBuilder,
}

/// The file being read, one batch ahead: that tells which is the last.
struct OpenFile {
    handle: Closing,
    batches: ParquetRecordBatchReader,
    ahead: Option<RecordBatch>,
    first: bool,
    rows: u64,
    rows_done: u64,
    bytes_done: u64,
}

impl ParquetReader {
    pub(super) fn new(lane: u32, files: Arc<[InputFile]>, plan: &DecodePlan) -> Self {
        ParquetReader {
            lane,
            files,
            file: 0,
            index: 0,
            open: None,
            time_unit_us: plan.time_unit_us,
            slots: plan.slots.clone(),
            builder: BlockBuilder::new(plan),
        }
    }

    fn open(&self, file: &InputFile) -> Result<OpenFile> {
        let (builder, handle) = describe(file)?;
        let names: Vec<String> = self.slots.iter().map(|slot| slot.path.join(".")).collect();
        let mask = ProjectionMask::columns(builder.parquet_schema(), names.iter().map(String::as_str));
        let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
        let batches = builder.with_projection(mask).with_batch_size(BLOCK_ROWS).build();
        let mut batches = batches.map_err(|error| broken(file, error))?;
        let ahead = batches.next().transpose().map_err(|error| broken(file, error))?;
        Ok(OpenFile { handle, batches, ahead, first: true, rows, rows_done: 0, bytes_done: 0 })
    }

    fn decode(&mut self, file: &InputFile, batch: &RecordBatch) -> Result<()> {
        let mut arrays = Vec::with_capacity(self.slots.len());
        for slot in &self.slots {
            let array = find(batch, &slot.path);
            if let Some(Found { array, .. }) = &array
                && !fits(array.data_type(), &slot.dtype)
            {
                let found = array.data_type();
                let message = format!("expected {} in column \"{}\", found {found}", slot.dtype, slot.name);
                return Err(Error::usage(message).at(&*file.name).with_hint("declare the column with the type it has"));
            }
            arrays.push(array);
        }
        if !self.decode_whole(&arrays, batch.num_rows()) {
            self.decode_rows(&arrays, batch.num_rows());
        }
        Ok(())
    }

    /// Takes the batch a column at a time, if everything in it fits.
    fn decode_whole(&mut self, arrays: &[Option<Found>], rows: usize) -> bool {
        let whole = self.slots.iter().zip(arrays).map(|(slot, found)| found.as_ref()?.column(slot, self.time_unit_us));
        whole.collect::<Option<Vec<Column>>>().is_some_and(|columns| self.builder.batch(columns, rows))
    }

    fn decode_rows(&mut self, arrays: &[Option<Found>], rows: usize) {
        for row in 0..rows {
            let place = Place::new(row as u64, 0, 0);
            let (slots, unit) = (&self.slots, self.time_unit_us);
            self.builder.record(place, |index| match (arrays.get(index), slots.get(index)) {
                (Some(Some(found)), Some(_)) if found.is_null(row) => RawField::Null,
                (Some(Some(found)), Some(slot)) => field(&found.array, row, &slot.dtype, unit),
                _ => RawField::Missing,
            });
        }
    }

    fn block(&mut self, file: &InputFile, open: &mut OpenFile, batch: Option<RecordBatch>) -> Result<DecodedBlock> {
        let rows = batch.as_ref().map_or(0, RecordBatch::num_rows) as u64;
        if let Some(batch) = &batch {
            self.decode(file, batch)?;
        }
        open.rows_done += rows;
        // Bytes by share of rows; the last block gets what is left.
        let share = u128::from(file.size) * u128::from(open.rows_done) / u128::from(open.rows.max(1));
        let bytes = if open.ahead.is_some() { u64::try_from(share).unwrap_or(file.size) } else { file.size };
        let place = BlockPlace {
            lane: self.lane,
            index: self.index,
            file: u32::try_from(self.file).unwrap_or(u32::MAX),
            starts_file: std::mem::take(&mut open.first),
            last: open.ahead.is_none() && self.file + 1 == self.files.len(),
            input_bytes: bytes.saturating_sub(open.bytes_done),
        };
        open.bytes_done = bytes;
        self.index += 1;
        let mut block = self.builder.finish(place, rows, Vec::new());
        block.span.clear();
        Ok(block)
    }
}

impl LaneReader for ParquetReader {
    fn next_block(&mut self) -> Result<Next> {
        let files = self.files.clone();
        let Some(file) = files.get(self.file) else { return Ok(Next::End) };
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.open(file)?,
        };
        let batch = open.ahead.take();
        if batch.is_some() {
            open.ahead = open.batches.next().transpose().map_err(|error| broken(file, error))?;
        }
        let block = self.block(file, &mut open, batch)?;
        if open.ahead.is_some() {
            self.open = Some(open);
        } else {
            self.file += 1;
        }
        Ok(Next::Block(Box::new(block)))
    }

    fn suspend(&mut self) {
        if let Some(open) = &self.open {
            open.handle.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Turns;
    use super::super::tests::{read, table, temporary};
    use super::*;
    use crate::plan::Format;
    use crate::record::RejectReason;
    use crate::types::DataType;
    use crate::types::Value;
    use arrow_array::{
        ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray,
        StructArray, TimestampMillisecondArray, TimestampNanosecondArray,
    };
    use arrow_schema::DataType as ArrowType;
    use arrow_schema::{Field, Schema};
    use parquet::arrow::ArrowWriter;
    use proptest::prelude::*;
    use proptest::sample::select;
    use proptest::{collection, option};

    fn write(path: &std::path::Path, columns: Vec<(&str, ArrayRef)>, row_group: usize) {
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).expect("a batch");
        let options =
            parquet::file::properties::WriterProperties::builder().set_max_row_group_row_count(Some(row_group));
        let file = File::create(path).expect("a file");
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(options.build())).expect("a writer");
        writer.write(&batch).expect("written");
        writer.close().expect("closed");
    }

    #[test]
    fn columns_become_values() {
        let directory = temporary();
        let path = directory.path().join("a.parquet");
        let inner: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), None, Some(9)]));
        let nested = StructArray::new(
            Schema::new(vec![Field::new("n", ArrowType::Int32, true)]).fields,
            vec![inner],
            Some(vec![true, true, false].into()),
        );
        let money = Decimal128Array::from(vec![1_234, 1_230, -5]).with_precision_and_scale(10, 3).expect("fits");
        write(
            &path,
            vec![
                ("ts", Arc::new(TimestampNanosecondArray::from(vec![Some(-1), Some(1_999), None]))),
                ("key", Arc::new(StringArray::from(vec![Some("a"), Some("é"), None]))),
                ("m", Arc::new(money)),
                ("ok", Arc::new(BooleanArray::from(vec![true, false, true]))),
                ("s", Arc::new(nested)),
                ("unused", Arc::new(Int64Array::from(vec![1, 2, 3]))),
            ],
            2,
        );
        let columns = [
            ("ts", DataType::Timestamp),
            ("key", DataType::Text),
            ("m", DataType::Decimal { precision: 5, scale: 2 }),
            ("ok", DataType::Boolean),
            ("s.n", DataType::BigInt),
        ];
        let path = path.to_str().expect("a plain path");
        let seen = read(&table(path, Format::Parquet, &columns), 1 << 20);
        assert_eq!(seen.len(), 3);
        assert_eq!((seen[0].event_time_us, seen[1].event_time_us), (Some(-1), Some(1)), "floored");
        assert_eq!(seen[0].values[2], Some(Value::Null));
        assert_eq!(
            seen[0].errors[0].1,
            "expected a value of DECIMAL(5,2) in column \"m\", found a value that does not fit"
        );
        assert_eq!(
            seen[1].values[1..],
            [
                Some(Value::Text("é".into())),
                Some(Value::Decimal(123, 2)),
                Some(Value::Boolean(false)),
                Some(Value::Null)
            ]
        );
        assert_eq!(seen[0].values[4], Some(Value::BigInt(7)));
        let (reason, detail) = seen[2].rejected.clone().expect("no event time");
        assert_eq!((seen[2].position, reason), (3, RejectReason::EventTime));
        assert_eq!(detail, "expected a timestamp in column \"ts\", found null");
    }

    proptest! {
        #[test]
        fn batches_are_what_their_rows_are(
            times in collection::vec(option::weighted(0.99, prop_oneof![9 => 0i64..1 << 50, 1 => any::<i64>()]), 1..20),
            numbers in collection::vec(option::of(any::<i64>()), 20),
            money in collection::vec(option::weighted(0.8, prop_oneof![9 => -99_999i128..=99_999, 1 => -10i128.pow(9)..10i128.pow(9)]), 20),
            texts in collection::vec(option::of("[a-zé]{0,3}"), 20),
            scale in 0i8..4, unit in select(vec![1i64, 1_000, 1_000_000]), future_us in option::of(0i64..1 << 50),
        ) {
            let rows = times.len();
            let of = |values: &[Option<i64>]| Int64Array::from(values.iter().take(rows).copied().collect::<Vec<_>>());
            let millis: TimestampMillisecondArray = of(&times).reinterpret_cast();
            let nanos: TimestampNanosecondArray = of(&numbers).reinterpret_cast();
            let doubles: Float64Array = of(&numbers).iter().map(|n| n.map(|n| n as f64)).collect();
            let days: Date32Array = of(&numbers).iter().map(|n| n.map(|n| n as i32)).collect();
            let flags: BooleanArray = of(&numbers).iter().map(|n| n.map(|n| n % 2 == 0)).collect();
            let money_array = Decimal128Array::from_iter(money.into_iter().take(rows));
            let money_array = money_array.with_precision_and_scale(12, scale).expect("fits");
            let money = DataType::Decimal { precision: 5, scale: 2 };
            let arrays: [(&str, DataType, ArrayRef); 11] = [
                ("ts", DataType::Timestamp, Arc::new(millis)),
                ("at", DataType::Timestamp, Arc::new(of(&times))),
                ("p", DataType::Text, Arc::new(StringArray::from_iter(texts.iter().take(rows).map(|t| Some(t.as_deref().unwrap_or("x")))))),
                ("t", DataType::Text, Arc::new(StringArray::from_iter(texts.into_iter().take(rows)))),
                ("n", DataType::BigInt, Arc::new(of(&numbers))),
                ("f", DataType::Double, Arc::new(doubles)),
                ("g", DataType::Double, Arc::new(of(&numbers))),
                ("m", money, Arc::new(money_array)),
                ("z", DataType::Timestamp, Arc::new(nanos)),
                ("d", DataType::Date, Arc::new(days)),
                ("b", DataType::Boolean, Arc::new(flags)),
            ];
            let columns: Vec<(&str, DataType)> = arrays.iter().map(|(name, dtype, _)| (*name, dtype.clone())).collect();
            let mut table = table("t", Format::Parquet, &columns);
            (table.time_unit_us, table.max_future_us) = (unit, future_us);
            // `p` and `at` are read for their roles alone.
            let plan = DecodePlan::new(&table, &(0..columns.len()).filter(|column| ![1, 2].contains(column)).collect());
            let found: Vec<Option<Found>> =
                arrays.into_iter().map(|(_, _, array)| Some(Found { parents: Vec::new(), array })).collect();
            let mut reader = ParquetReader::new(0, Arc::from([]), &plan);
            reader.decode_rows(&found, rows);
            let by_rows = reader.builder.finish(BlockPlace::default(), rows as u64, Vec::new());
            if reader.decode_whole(&found, rows) {
                let mut whole = reader.builder.finish(BlockPlace::default(), rows as u64, Vec::new());
                whole.span.clone_from(&by_rows.span);
                prop_assert_eq!(format!("{whole:?}"), format!("{by_rows:?}"));
            } else {
                prop_assert!(reader.builder.is_empty());
                prop_assert!(!by_rows.rejects.is_empty() || !by_rows.errors.is_empty() || scale > 2);
            }
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn suspended_readers_hold_no_file_open() {
        let directory = temporary();
        let path = directory.path().join("c.parquet");
        let times = || Arc::new(Int64Array::from((0..100_000).collect::<Vec<i64>>()));
        write(&path, vec![("ts", times()), ("n", times())], 30_000);
        let columns = [("ts", DataType::Timestamp), ("n", DataType::BigInt)];
        let table = table(path.to_str().expect("a plain path"), Format::Parquet, &columns);
        let source = super::super::open(&table, &[0, 1].into(), &Default::default()).expect("opens");
        let handles = || {
            let entries = std::fs::read_dir("/proc/self/fd").expect("a list");
            entries.filter_map(|e| std::fs::read_link(e.ok()?.path()).ok()).filter(|target| *target == path).count()
        };
        let mut reader = source.open(0, Turns::all());
        let (mut rows, mut held) = (0, 0);
        while let Next::Block(block) = reader.next_block().expect("reads") {
            let expected: Vec<i64> = (rows..).take(block.rows).map(|n| n * 1_000).collect();
            assert_eq!(block.event_time_us, expected);
            rows += block.rows as i64;
            held += handles();
            reader.suspend();
            assert_eq!(handles(), 0);
        }
        assert_eq!(rows, 100_000);
        assert!(held > 0, "open while it is read");
    }

    #[test]
    fn many_rows_are_several_blocks_and_wrong_types_an_error() {
        let directory = temporary();
        let path = directory.path().join("b.parquet");
        let times: Vec<i64> = (0..40_000).collect();
        write(&path, vec![("ts", Arc::new(Int64Array::from(times)))], 15_000);
        let path = path.to_str().expect("a plain path");
        let seen = read(&table(path, Format::Parquet, &[("ts", DataType::Timestamp)]), 1);
        assert!(seen.iter().enumerate().all(|(n, s)| s.event_time_us == Some(n as i64 * 1_000)));
        assert_eq!(seen.last().map(|s| s.position), Some(40_000));
        let error = |columns: &[(&str, DataType)]| {
            let table = table(path, Format::Parquet, columns);
            let wanted = (0..columns.len()).collect();
            match super::super::open(&table, &wanted, &Default::default()) {
                Err(error) => error.to_string(),
                Ok(source) => source.open(0, Turns::all()).next_block().expect_err("a wrong type").to_string(),
            }
        };
        assert!(error(&[("x", DataType::Text)]).ends_with("expected a column \"x\", found none"));
        assert!(error(&[("ts", DataType::Text)]).ends_with("expected TEXT in column \"ts\", found Int64"));
    }
}
