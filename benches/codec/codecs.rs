//! The ways to write rows that are sound.

use crate::Codec;
use crate::rows::Row;
use columnar::bytes::indexed::{self, DecodedStore};
use columnar::{Borrow, BorrowedOf, Clear, ContainerOf, FromBytes, Index, Len, Push};
use slackwater::dataflow::parcel::Parcel;
use slackwater::wire::Wire;
use timely::bytes::arc::{Bytes, BytesMut};
use timely::dataflow::channels::ContainerBytes;

/// A container of timely's, what it was written into, and what arrived.
struct Channel<C> {
    held: C,
    sent: Vec<u8>,
    arrived: Bytes,
}

impl<C: ContainerBytes> Channel<C> {
    fn holding(held: C) -> Self {
        Channel { held, sent: Vec::new(), arrived: BytesMut::from(Vec::new()).freeze() }
    }

    /// As timely does: it asks for the length, finds room and writes.
    fn write(&mut self) -> usize {
        let length = self.held.length_in_bytes();
        self.sent.clear();
        self.sent.reserve(length);
        self.held.into_bytes(&mut self.sent);
        assert_eq!(self.sent.len(), length);
        length
    }

    fn deliver(&mut self) {
        self.arrived = BytesMut::from(self.sent.clone()).freeze();
    }

    fn read(&self) -> C {
        C::from_bytes(self.arrived.clone())
    }
}

/// Timely's own `Vec`.
pub struct Bincode<R>(Channel<Vec<R>>);

impl<R: Row> Codec<R> for Bincode<R> {
    const NAME: &'static str = "bincode";
    fn holding(rows: &[R]) -> Self {
        Bincode(Channel::holding(rows.to_vec()))
    }
    fn encode(&mut self) -> usize {
        self.0.write()
    }
    fn deliver(&mut self) {
        self.0.deliver();
    }
    fn decode(&mut self) -> u64 {
        R::sum_rows(&self.0.read())
    }
    fn rows(&mut self) -> Vec<R> {
        self.0.read()
    }
}

/// The one message of a parcel.
fn message<M: Wire>(mut parcel: Parcel<M>) -> M {
    assert_eq!(parcel.unreadable(), None);
    let mut messages = parcel.drain();
    let message = messages.next().expect("a message");
    assert!(messages.next().is_none());
    message
}

/// A parcel of rows.
pub struct Words<R>(Channel<Parcel<Vec<R>>>);

impl<R: Row> Codec<R> for Words<R> {
    const NAME: &'static str = "words";
    fn holding(rows: &[R]) -> Self {
        Words(Channel::holding(Parcel::from(vec![rows.to_vec()])))
    }
    fn encode(&mut self) -> usize {
        self.0.write()
    }
    fn deliver(&mut self) {
        self.0.deliver();
    }
    fn decode(&mut self) -> u64 {
        R::sum_rows(&self.rows())
    }
    fn rows(&mut self) -> Vec<R> {
        message(self.0.read())
    }
}

/// A parcel of columns.
pub struct Columns<R: Row>(Channel<Parcel<R::Columns>>);

impl<R: Row> Codec<R> for Columns<R> {
    const NAME: &'static str = "columns";
    fn holding(rows: &[R]) -> Self {
        Columns(Channel::holding(Parcel::from(vec![R::columns(rows)])))
    }
    fn encode(&mut self) -> usize {
        self.0.write()
    }
    fn deliver(&mut self) {
        self.0.deliver();
    }
    fn decode(&mut self) -> u64 {
        R::sum_columns(&message(self.0.read()))
    }
    fn rows(&mut self) -> Vec<R> {
        R::rows_of(&message(self.0.read()))
    }
}

/// A parcel of columns, made of rows each time.
pub struct ColumnsOfRows<R: Row> {
    held: Vec<R>,
    columns: Columns<R>,
}

impl<R: Row> Codec<R> for ColumnsOfRows<R> {
    const NAME: &'static str = "columns_of_rows";
    fn holding(rows: &[R]) -> Self {
        ColumnsOfRows { held: rows.to_vec(), columns: Columns::holding(&[]) }
    }
    fn encode(&mut self) -> usize {
        self.columns.0.held = Parcel::from(vec![R::columns(&self.held)]);
        self.columns.encode()
    }
    fn deliver(&mut self) {
        self.columns.deliver();
    }
    fn decode(&mut self) -> u64 {
        R::sum_rows(&self.rows())
    }
    fn rows(&mut self) -> Vec<R> {
        self.columns.rows()
    }
}

/// Containers of the `columnar` crate, in its layout of aligned words.
pub struct ColumnarCrate<R: Row> {
    held: ContainerOf<R>,
    sent: Vec<u64>,
    arrived: Vec<u64>,
}

impl<R: Row> ColumnarCrate<R> {
    /// The columns where they are, once their shape has been checked.
    fn read(&self) -> BorrowedOf<'_, R> {
        indexed::validate::<BorrowedOf<'_, R>>(&self.arrived).expect("what was written");
        FromBytes::from_store(&DecodedStore::new(&self.arrived), &mut 0)
    }
}

impl<R: Row> Codec<R> for ColumnarCrate<R> {
    const NAME: &'static str = "columnar";
    fn holding(rows: &[R]) -> Self {
        ColumnarCrate { held: R::as_columns(rows), sent: Vec::new(), arrived: Vec::new() }
    }
    fn encode(&mut self) -> usize {
        self.sent.clear();
        indexed::encode(&mut self.sent, &self.held.borrow());
        self.sent.len() * 8
    }
    fn deliver(&mut self) {
        self.arrived.clone_from(&self.sent);
    }
    fn decode(&mut self) -> u64 {
        R::sum_borrowed(self.read())
    }
    fn rows(&mut self) -> Vec<R> {
        let columns = self.read();
        (0..columns.len()).map(|row| R::into_owned(columns.get(row))).collect()
    }
}

/// The same, made of rows each time.
pub struct ColumnarOfRows<R: Row> {
    held: Vec<R>,
    columns: ColumnarCrate<R>,
}

impl<R: Row> Codec<R> for ColumnarOfRows<R> {
    const NAME: &'static str = "columnar_of_rows";
    fn holding(rows: &[R]) -> Self {
        ColumnarOfRows { held: rows.to_vec(), columns: ColumnarCrate::holding(&[]) }
    }
    fn encode(&mut self) -> usize {
        self.columns.held.clear();
        self.held.iter().for_each(|row| self.columns.held.push(row));
        self.columns.encode()
    }
    fn deliver(&mut self) {
        self.columns.deliver();
    }
    fn decode(&mut self) -> u64 {
        R::sum_rows(&self.rows())
    }
    fn rows(&mut self) -> Vec<R> {
        self.columns.rows()
    }
}
