//! Parquet files (cargo feature `parquet`): batches of rows become blocks.
//!
//! A lane is read by its owner alone. A record's position is its row number in the file, from 1. There is no text: spans
//! are empty, and rejects show only what was found in the column. Which columns are read depends on the query; which
//! records are rejects of the table does not, as nothing but the table's own columns can make one here.
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

use super::decode::{BlockBuilder, BlockPlace, DecodePlan, Place, Slot};
use super::files::InputFile;
use super::number::Number;
use super::value::{Cell, Misfit, RawField};
use super::{DecodedBlock, LaneReader, Next};
use crate::error::{Error, Result};
use crate::types::DataType;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType as ArrowType, TimeUnit};
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
const DAY_US: i64 = 86_400_000_000;

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
        for row in 0..batch.num_rows() {
            let place = Place::new(row as u64, 0, 0);
            let (slots, unit) = (&self.slots, self.time_unit_us);
            self.builder.record(place, |index| match (arrays.get(index), slots.get(index)) {
                (Some(Some(found)), Some(_)) if found.is_null(row) => RawField::Null,
                (Some(Some(found)), Some(slot)) => field(&found.array, row, &slot.dtype, unit),
                _ => RawField::Missing,
            });
        }
        Ok(())
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

/// A column of a batch: the array, and the structs it stands in.
struct Found {
    parents: Vec<ArrayRef>,
    array: ArrayRef,
}

impl Found {
    fn is_null(&self, row: usize) -> bool {
        self.array.is_null(row) || self.parents.iter().any(|parent| parent.is_null(row))
    }
}

/// The column at a path of the batch.
fn find(batch: &RecordBatch, path: &[String]) -> Option<Found> {
    let (first, below) = path.split_first()?;
    let mut array = batch.column_by_name(first)?.clone();
    let mut parents = Vec::new();
    for name in below {
        let inner = array.as_struct_opt()?.column_by_name(name)?.clone();
        parents.push(std::mem::replace(&mut array, inner));
    }
    Some(Found { parents, array })
}

/// Whether [`field`] reads arrays of the type as values of the column's type.
fn fits(found: &ArrowType, declared: &DataType) -> bool {
    match found {
        ArrowType::Utf8 => true,
        ArrowType::Boolean => *declared == DataType::Boolean,
        found if found.is_integer() => declared.is_numeric() || *declared == DataType::Timestamp,
        ArrowType::Float32 | ArrowType::Float64 => *declared == DataType::Double,
        ArrowType::Decimal128(..) => matches!(declared, DataType::Decimal { .. }),
        ArrowType::Timestamp(..) => *declared == DataType::Timestamp,
        ArrowType::Date32 => matches!(declared, DataType::Timestamp | DataType::Date),
        _ => false,
    }
}

/// The value at a row that is not NULL, of an array that [`fits`].
fn field<'a>(array: &'a ArrayRef, row: usize, declared: &DataType, time_unit_us: i64) -> RawField<'a> {
    macro_rules! at {
        ($kind:ty) => {
            array.as_primitive::<$kind>().value(row)
        };
    }
    let times = |value: i64, unit_us: i64| value.checked_mul(unit_us).map(Cell::I64).ok_or(Misfit::Range);
    let value = match array.data_type() {
        ArrowType::Utf8 => return RawField::Text(array.as_string::<i32>().value(row)),
        ArrowType::Boolean => Ok(Cell::Boolean(array.as_boolean().value(row))),
        ArrowType::Int8 => integer(at!(Int8Type).into(), declared, time_unit_us),
        ArrowType::Int16 => integer(at!(Int16Type).into(), declared, time_unit_us),
        ArrowType::Int32 => integer(at!(Int32Type).into(), declared, time_unit_us),
        ArrowType::Int64 => integer(at!(Int64Type).into(), declared, time_unit_us),
        ArrowType::UInt8 => integer(at!(UInt8Type).into(), declared, time_unit_us),
        ArrowType::UInt16 => integer(at!(UInt16Type).into(), declared, time_unit_us),
        ArrowType::UInt32 => integer(at!(UInt32Type).into(), declared, time_unit_us),
        ArrowType::UInt64 => integer(at!(UInt64Type).into(), declared, time_unit_us),
        ArrowType::Float32 => Ok(Cell::F64(at!(Float32Type).into())),
        ArrowType::Float64 => Ok(Cell::F64(at!(Float64Type))),
        ArrowType::Decimal128(_, scale) => decimal(at!(Decimal128Type), *scale, declared),
        ArrowType::Timestamp(TimeUnit::Second, _) => times(at!(TimestampSecondType), 1_000_000),
        ArrowType::Timestamp(TimeUnit::Millisecond, _) => times(at!(TimestampMillisecondType), 1_000),
        ArrowType::Timestamp(TimeUnit::Microsecond, _) => times(at!(TimestampMicrosecondType), 1),
        ArrowType::Timestamp(TimeUnit::Nanosecond, _) => Ok(Cell::I64(at!(TimestampNanosecondType).div_euclid(1_000))),
        ArrowType::Date32 if *declared == DataType::Timestamp => times(at!(Date32Type).into(), DAY_US),
        ArrowType::Date32 => Ok(Cell::I64(at!(Date32Type).into())),
        _ => Err(Misfit::Type),
    };
    RawField::Value(value)
}

/// An integer as a value of the declared type.
fn integer(value: i128, declared: &DataType, time_unit_us: i64) -> Result<Cell<'static>, Misfit> {
    match declared {
        DataType::BigInt => i64::try_from(value).map(Cell::I64).map_err(|_| Misfit::Type),
        DataType::Double => Ok(Cell::F64(value as f64)),
        DataType::Decimal { .. } => decimal(value, 0, declared),
        DataType::Timestamp => {
            let us = value.checked_mul(i128::from(time_unit_us)).and_then(|us| i64::try_from(us).ok());
            us.map(Cell::I64).ok_or(Misfit::Range)
        }
        _ => Err(Misfit::Type),
    }
}

/// A decimal as one of the declared type, if nothing is lost.
fn decimal(value: i128, scale: i8, declared: &DataType) -> Result<Cell<'static>, Misfit> {
    let DataType::Decimal { precision, scale: places } = declared else { return Err(Misfit::Type) };
    Number::from_parts(value, scale).to_decimal(*precision, *places).map(Cell::I128).ok_or(Misfit::Type)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read, table, temporary};
    use super::*;
    use crate::plan::Format;
    use crate::record::RejectReason;
    use crate::types::Value;
    use arrow_array::{
        BooleanArray, Decimal128Array, Int32Array, Int64Array, StringArray, StructArray, TimestampNanosecondArray,
    };
    use arrow_schema::{Field, Schema};
    use parquet::arrow::ArrowWriter;

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
        let mut reader = source.open(0, 0, 1);
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
                Ok(source) => source.open(0, 0, 1).next_block().expect_err("a wrong type").to_string(),
            }
        };
        assert!(error(&[("x", DataType::Text)]).ends_with("expected a column \"x\", found none"));
        assert!(error(&[("ts", DataType::Text)]).ends_with("expected TEXT in column \"ts\", found Int64"));
    }
}
