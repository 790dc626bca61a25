//! Records as columns.

use super::arrivals::Arrivals;
use super::fields::Field;
use super::nexmark::Nexmark;
use super::orders::Orders;
use crate::plan::{GeneratorPlan, Workload};
use crate::types::{Column, ColumnData, DataType, TextData, Value};
use std::collections::HashMap;

/// What records hold.
pub(super) enum Contents {
    Orders(Orders),
    Nexmark(Nexmark),
}

impl Contents {
    pub(super) fn new(plan: &GeneratorPlan) -> Contents {
        match plan.workload {
            Workload::Orders => Contents::Orders(Orders::new(plan)),
            Workload::Nexmark => Contents::Nexmark(Nexmark::new(plan)),
        }
    }
}

/// Some records of a stream, to be made into columns.
pub(super) struct Batch<'a> {
    pub(super) contents: &'a Contents,
    pub(super) arrivals: &'a Arrivals,
    pub(super) partition: Option<u64>,
    pub(super) records: &'a [(i64, u64)],
}

impl Batch<'_> {
    /// A time field that every record has; the event time for want of another.
    pub(super) fn times(&self, field: Option<Field>) -> Vec<i64> {
        match field {
            Some(Field::ArrivalTime) => self.records.iter().map(|r| r.0).collect(),
            _ => self.records.iter().map(|r| self.arrivals.event_us(r.1)).collect(),
        }
    }

    fn partition_of(&self, i: u64) -> u64 {
        self.partition.unwrap_or_else(|| self.arrivals.partition_of(i))
    }

    /// A field as whole numbers (ids, cents, microseconds), and which of them are NULL, if any.
    fn numbers(&self, field: Field) -> (Vec<i64>, Option<Vec<bool>>) {
        let ids = self.records.iter().map(|r| r.1);
        let numbers = match (field, self.contents) {
            (Field::ArrivalTime | Field::EventTime | Field::DateTime, _) => self.times(Some(field)),
            (Field::Partition, _) => ids.map(|i| self.partition_of(i) as i64).collect(),
            (Field::OrderId, _) => ids.map(|i| i as i64).collect(),
            (Field::CustomerId, Contents::Orders(orders)) => ids.map(|i| orders.customer(i) as i64).collect(),
            (Field::Amount, Contents::Orders(orders)) => ids.map(|i| orders.amount_cents(i) as i64).collect(),
            (_, Contents::Nexmark(nexmark)) => {
                let found: Vec<Option<i64>> = ids.map(|i| nexmark.number(field, i)).collect();
                let nulls: Vec<bool> = found.iter().map(Option::is_none).collect();
                let numbers = found.into_iter().map(Option::unwrap_or_default).collect();
                return (numbers, nulls.contains(&true).then_some(nulls));
            }
            (_, Contents::Orders(_)) => vec![0; self.records.len()],
        };
        (numbers, None)
    }

    /// A field that is a text.
    fn texts(&self, field: Field) -> (TextData, Option<Vec<bool>>) {
        let mut text = TextData::default();
        let mut nulls = Vec::with_capacity(self.records.len());
        let mut one = String::new();
        for (_, i) in self.records {
            one.clear();
            let has = match self.contents {
                Contents::Nexmark(nexmark) => nexmark.text(field, *i, &mut one),
                Contents::Orders(_) => false,
            };
            nulls.push(!has);
            text.push(&one);
        }
        (text, nulls.contains(&true).then_some(nulls))
    }

    /// A field as a column of the type; NULLs if it does not fit.
    pub(super) fn column(&self, field: Option<Field>, dtype: &DataType) -> Column {
        let Some(field) = field.filter(|field| field.fits(dtype)) else {
            return Column::constant(dtype.clone(), &Value::Null, self.records.len());
        };
        if !field.is_number() {
            let (text, nulls) = self.texts(field);
            return Column { dtype: dtype.clone(), data: ColumnData::Text(text), nulls };
        }
        let (numbers, nulls) = self.numbers(field);
        let data = match dtype {
            DataType::Double if field == Field::Amount => {
                ColumnData::F64(numbers.iter().map(|&v| v as f64 / 100.0).collect())
            }
            DataType::Double => ColumnData::F64(numbers.iter().map(|&v| v as f64).collect()),
            DataType::Decimal { scale, .. } => {
                let unit = 10i128.saturating_pow(u32::from(scale.saturating_sub(2)));
                ColumnData::I128(numbers.iter().map(|&v| i128::from(v).saturating_mul(unit)).collect())
            }
            DataType::Text => {
                let mut text = TextData::default();
                let mut one = String::new();
                for (row, &number) in numbers.iter().enumerate() {
                    one.clear();
                    let null = nulls.as_ref().is_some_and(|nulls| nulls.get(row) == Some(&true));
                    if !null {
                        field.write(number, &mut one);
                    }
                    text.push(&one);
                }
                ColumnData::Text(text)
            }
            _ => ColumnData::I64(numbers),
        };
        Column { dtype: dtype.clone(), data, nulls }
    }

    /// The partition of each record by the values of a field, and their names in order of appearance.
    pub(super) fn dictionary(&self, field: Option<Field>) -> (Vec<u32>, Vec<String>) {
        let field = field.unwrap_or(Field::Partition);
        let mut known: HashMap<String, u32> = HashMap::new();
        let mut names = Vec::new();
        let mut place = |name: &str| match known.get(name) {
            Some(place) => *place,
            None => {
                let place = names.len() as u32;
                known.insert(name.to_owned(), place);
                names.push(name.to_owned());
                place
            }
        };
        let rows = if field.is_number() {
            let mut one = String::new();
            let name = |number: i64| {
                one.clear();
                field.write(number, &mut one);
                place(&one)
            };
            self.numbers(field).0.into_iter().map(name).collect()
        } else {
            let (text, _) = self.texts(field);
            (0..self.records.len()).map(|row| place(text.get(row))).collect()
        };
        (rows, names)
    }
}
