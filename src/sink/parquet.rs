//! Rows as Parquet (cargo feature `parquet`), to files only.
//!
//! Types: `TIMESTAMP` is a UTC timestamp in microseconds, `DECIMAL(p,s)` a 128-bit decimal, `INTERVAL` a 64-bit count of
//! microseconds (Parquet has no duration), lists are lists; every column may be NULL. Equal values have equal bytes, as in
//! the text formats: −0.0 is 0.0 and there is one NaN. Cost: rows are collected into column builders and encoded
//! [`BATCH_ROWS`] at a time; a row group of up to [`GROUP_ROWS`] rows stays in memory, encoded.

use super::Flow;
use super::cell::Cell;
use super::file::{PipeWait, Prepared, TargetFile};
use super::rows::{Columns, RowWriter};
use crate::error::{Error, Result};
use crate::types::{DataType, Value, canonical_double};
use arrow_array::RecordBatch;
use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float64Builder, Int64Builder, ListBuilder,
    StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_schema::{DataType as ArrowType, Field, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::sync::Arc;

/// Rows encoded at once.
const BATCH_ROWS: usize = 8 << 10;
/// Rows of a row group.
const GROUP_ROWS: usize = 128 << 10;

/// Writes one Parquet file, aside and renamed.
pub struct ParquetWriter {
    place: String,
    schema: Arc<Schema>,
    builders: Vec<Box<dyn ArrayBuilder>>,
    rows: usize,
    writer: ArrowWriter<TargetFile>,
}

impl ParquetWriter {
    /// A file with these columns.
    ///
    /// # Errors
    /// When the file cannot be created; the error names it.
    pub fn create(path: &str, columns: &Columns, wait: &PipeWait) -> Result<ParquetWriter> {
        let target = TargetFile::create(path, wait)?;
        let fields: Vec<Field> =
            columns.iter().map(|(name, dtype)| Field::new(name, arrow_type(dtype), true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .set_created_by(format!("slackwater {}", env!("CARGO_PKG_VERSION")))
            .build();
        let writer = ArrowWriter::try_new(target, schema.clone(), Some(properties)).map_err(|e| failed(path, e))?;
        let builders = columns.iter().map(|(_, dtype)| builder(dtype)).collect();
        Ok(ParquetWriter { place: path.to_string(), schema, builders, rows: 0, writer })
    }

    fn encode(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let arrays = self.builders.iter_mut().map(ArrayBuilder::finish).collect();
        self.rows = 0;
        let batch = RecordBatch::try_new(self.schema.clone(), arrays).map_err(|e| failed(&self.place, e))?;
        self.writer.write(&batch).map_err(|e| failed(&self.place, e))
    }
}

impl RowWriter for ParquetWriter {
    fn cells(&mut self, row: &[Cell<'_>]) -> Result<Flow> {
        for (builder, cell) in self.builders.iter_mut().zip(row) {
            cell.with(|value| append(builder.as_mut(), value))
                .map_err(|message| Error::output(format!("Parquet: {message}")).at(self.place.as_str()))?;
        }
        self.rows += 1;
        if self.rows >= BATCH_ROWS {
            self.encode()?;
        }
        Ok(Flow::Open)
    }
    fn flush(&mut self) -> Result<Flow> {
        Ok(Flow::Open)
    }
    fn prepare(mut self: Box<Self>) -> Result<Prepared> {
        self.encode()?;
        self.writer.into_inner().map_err(|e| failed(&self.place, e))?.prepare()
    }
}

fn failed(place: &str, cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::output("cannot write Parquet").at(place).with_source(cause)
}

fn arrow_type(dtype: &DataType) -> ArrowType {
    match dtype {
        DataType::Boolean => ArrowType::Boolean,
        DataType::BigInt | DataType::Interval => ArrowType::Int64,
        DataType::Double => ArrowType::Float64,
        DataType::Decimal { precision, scale } => {
            ArrowType::Decimal128(*precision, i8::try_from(*scale).unwrap_or(i8::MAX))
        }
        DataType::Text => ArrowType::Utf8,
        DataType::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Date => ArrowType::Date32,
        DataType::List(item) => ArrowType::List(Arc::new(Field::new_list_field(arrow_type(item), true))),
    }
}

fn builder(dtype: &DataType) -> Box<dyn ArrayBuilder> {
    match dtype {
        DataType::Boolean => Box::new(BooleanBuilder::new()),
        DataType::BigInt | DataType::Interval => Box::new(Int64Builder::new()),
        DataType::Double => Box::new(Float64Builder::new()),
        DataType::Decimal { .. } => Box::new(Decimal128Builder::new().with_data_type(arrow_type(dtype))),
        DataType::Text => Box::new(StringBuilder::new()),
        DataType::Timestamp => Box::new(TimestampMicrosecondBuilder::new().with_data_type(arrow_type(dtype))),
        DataType::Date => Box::new(Date32Builder::new()),
        DataType::List(item) => Box::new(ListBuilder::new(builder(item))),
    }
}

/// Appends a value to the builder of its type, or NULL.
fn append(builder: &mut dyn ArrayBuilder, value: &Value) -> Result<(), String> {
    let any = builder.as_any_mut();
    if let Some(b) = any.downcast_mut::<Int64Builder>() {
        match value {
            Value::BigInt(v) | Value::Interval(v) => b.append_value(*v),
            _ => return null(value, || b.append_null()),
        }
    } else if let Some(b) = any.downcast_mut::<TimestampMicrosecondBuilder>() {
        match value {
            Value::Timestamp(v) => b.append_value(*v),
            _ => return null(value, || b.append_null()),
        }
    } else if let Some(b) = any.downcast_mut::<StringBuilder>() {
        match value {
            Value::Text(v) => b.append_value(v),
            _ => return null(value, || b.append_null()),
        }
    } else if let Some(b) = any.downcast_mut::<Float64Builder>() {
        match value {
            Value::Double(v) => b.append_value(canonical_double(*v)),
            _ => return null(value, || b.append_null()),
        }
    } else if let Some(b) = any.downcast_mut::<Decimal128Builder>() {
        match value {
            Value::Decimal(v, _) => b.append_value(*v),
            _ => return null(value, || b.append_null()),
        }
    } else if let Some(b) = any.downcast_mut::<BooleanBuilder>() {
        match value {
            Value::Boolean(v) => b.append_value(*v),
            _ => return null(value, || b.append_null()),
        }
    } else if let Some(b) = any.downcast_mut::<Date32Builder>() {
        match value {
            Value::Date(v) => b.append_value(i32::try_from(*v).map_err(|_| format!("day {v} does not fit a date"))?),
            _ => return null(value, || b.append_null()),
        }
    } else if let Some(b) = any.downcast_mut::<ListBuilder<Box<dyn ArrayBuilder>>>() {
        match value {
            Value::List(items) => {
                for item in items.iter() {
                    append(b.values().as_mut(), item)?;
                }
                b.append(true);
            }
            _ => return null(value, || b.append(false)),
        }
    } else {
        return Err("no column for this type".to_string());
    }
    Ok(())
}

/// Appends NULL; a value of another type than its column's is an error, never a silent NULL.
fn null(value: &Value, append: impl FnOnce()) -> Result<(), String> {
    if value.is_null() {
        append();
        Ok(())
    } else {
        Err(format!("the value {value:?} does not have its column's type"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::tests::names;
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Decimal128Type, TimestampMicrosecondType};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use std::fs::File;

    fn columns() -> Vec<(String, DataType)> {
        let types = [
            DataType::Boolean,
            DataType::BigInt,
            DataType::Double,
            DataType::Decimal { precision: 38, scale: 2 },
            DataType::Text,
            DataType::Timestamp,
            DataType::Date,
            DataType::Interval,
            DataType::List(Box::new(DataType::Text)),
        ];
        types.into_iter().enumerate().map(|(i, dtype)| (format!("c{i}"), dtype)).collect()
    }

    fn row() -> Vec<Value> {
        vec![
            Value::Boolean(true),
            Value::BigInt(i64::MIN),
            Value::Double(-0.0),
            Value::Decimal(-1250, 2),
            Value::Text("é".into()),
            Value::Timestamp(-1),
            Value::Date(-1),
            Value::Interval(7),
            Value::List([Value::Text("a".into()), Value::Null].into()),
        ]
    }

    #[test]
    fn reads_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.parquet");
        let mut writer =
            Box::new(ParquetWriter::create(path.to_str().unwrap(), &columns(), &PipeWait::default()).unwrap());
        let nulls = vec![Value::Null; columns().len()];
        for _ in 0..BATCH_ROWS {
            let row = row();
            let (first, then) = row.split_at(3);
            assert_eq!(writer.write(&[first, then]).unwrap(), Flow::Open);
            assert_eq!(writer.write(&[&nulls]).unwrap(), Flow::Open);
        }
        assert!(!path.exists());
        assert_eq!(writer.prepare().unwrap().complete().unwrap(), Flow::Open);
        assert_eq!(names(directory.path()), ["out.parquet"]);

        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap().build().unwrap();
        let batches: Vec<RecordBatch> = reader.map(|batch| batch.unwrap()).collect();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 2 * BATCH_ROWS);
        // What the same builders make of the same rows.
        let mut builders: Vec<_> = columns().iter().map(|(_, dtype)| builder(dtype)).collect();
        for values in [row(), nulls] {
            for (builder, value) in builders.iter_mut().zip(&values) {
                append(builder.as_mut(), value).unwrap();
            }
        }
        for (i, builder) in builders.iter_mut().enumerate() {
            let expected = builder.finish();
            let found = batches[0].column(i).slice(0, 2);
            assert_eq!(found.data_type(), &arrow_type(&columns()[i].1));
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "column {i}");
        }
        assert_eq!(batches[0].column(3).as_primitive::<Decimal128Type>().value_as_string(0), "-12.50");
        assert_eq!(batches[0].column(5).as_primitive::<TimestampMicrosecondType>().value(0), -1);
    }

    #[test]
    fn an_empty_file_has_its_columns_and_a_failed_one_does_not_exist() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("empty.parquet");
        let writer = Box::new(ParquetWriter::create(path.to_str().unwrap(), &columns(), &PipeWait::default()).unwrap());
        let _ = writer.prepare().unwrap().complete().unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.schema().fields().len(), columns().len());

        let other = directory.path().join("other.parquet");
        let mut writer =
            Box::new(ParquetWriter::create(other.to_str().unwrap(), &columns(), &PipeWait::default()).unwrap());
        let error = writer.write(&[&[Value::BigInt(1)]]).unwrap_err();
        assert_eq!(error.place(), other.to_str());
        drop(writer);
        assert_eq!(names(directory.path()), ["empty.parquet"]);
    }
}
