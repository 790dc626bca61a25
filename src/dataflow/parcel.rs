//! The container in which messages travel: a vector in memory, plain words ([`crate::wire`]) between processes.
//!
//! Timely's own vectors are written with serde, field by field; a parcel is written and read by copying words. It is filled
//! up to about 64 KiB in memory, so that small messages share one, and a large message goes at once. Between threads
//! of a process parcels are moved, and nothing is written.
//!
//! Bytes that cannot be read give a parcel without messages that says why ([`Parcel::unreadable`]). It counts as many
//! records as its bytes announced, because progress tracking goes by the sender's number.

use super::operators::Published;
use super::side::{Side, TableCounts, ViewCounts};
use crate::sink::block::ChangeBlock;
use crate::watermark::policy::DelaySums;
use crate::wire::{Reader, Wire, WireError, Writer};
use std::cell::Cell;
use std::io::Write;
use timely::Accountable;
use timely::bytes::arc::Bytes;
use timely::container::{DrainContainer, PushInto, SizableContainer};
use timely::dataflow::channels::ContainerBytes;

/// Bytes of words from which on a parcel is full.
const FULL_BYTES: usize = 1 << 16;

/// Messages on their way.
#[derive(Clone, Debug)]
pub struct Parcel<M> {
    messages: Vec<M>,
    /// What the messages weigh, roughly.
    weight: usize,
    unreadable: Option<Box<Unreadable>>,
}

/// A parcel that could not be read.
#[derive(Clone, Debug)]
struct Unreadable {
    records: i64,
    error: String,
}

impl<M> Default for Parcel<M> {
    fn default() -> Self {
        Parcel { messages: Vec::new(), weight: 0, unreadable: None }
    }
}

impl<M> Parcel<M> {
    /// The messages.
    pub fn messages(&self) -> &[M] {
        &self.messages
    }

    /// Takes the messages out.
    pub fn drain(&mut self) -> std::vec::Drain<'_, M> {
        self.weight = 0;
        self.messages.drain(..)
    }

    /// Why the bytes that arrived could not be read; there are no messages then, and the run cannot go on.
    pub fn unreadable(&self) -> Option<&str> {
        self.unreadable.as_ref().map(|u| u.error.as_str())
    }

    fn clear(&mut self) {
        self.messages.clear();
        self.weight = 0;
        self.unreadable = None;
    }
}

impl<M: Wire> From<Vec<M>> for Parcel<M> {
    fn from(messages: Vec<M>) -> Self {
        Parcel { weight: messages.iter().map(Wire::weight).sum(), messages, unreadable: None }
    }
}

impl<M> Accountable for Parcel<M> {
    fn record_count(&self) -> i64 {
        let unread = self.unreadable.as_ref().map_or(0, |u| u.records);
        i64::try_from(self.messages.len()).unwrap_or(i64::MAX).saturating_add(unread)
    }
}

impl<M> DrainContainer for Parcel<M> {
    type Item<'a>
        = M
    where
        M: 'a;
    type DrainIter<'a>
        = std::vec::Drain<'a, M>
    where
        M: 'a;
    fn drain(&mut self) -> Self::DrainIter<'_> {
        Parcel::drain(self)
    }
}

impl<M> SizableContainer for Parcel<M> {
    fn at_capacity(&self) -> bool {
        self.weight >= FULL_BYTES
    }
    fn ensure_capacity(&mut self, stash: &mut Option<Self>) {
        if self.messages.capacity() == 0 {
            *self = stash.take().unwrap_or_default();
            self.clear();
        }
    }
}

impl<M: Wire> PushInto<M> for Parcel<M> {
    fn push_into(&mut self, message: M) {
        self.weight += message.weight();
        self.messages.push(message);
    }
}

thread_local! {
    /// Where messages are laid out before they are copied to the channel.
    static LAYOUT: Cell<Writer> = Cell::new(Writer::default());
}

impl<M: Wire> Parcel<M> {
    fn read(from: &mut Reader<'_>) -> Result<Vec<M>, WireError> {
        let messages = Vec::get(from)?;
        from.expect_end()?;
        Ok(messages)
    }
}

/// The number of messages, and the messages.
impl<M: Wire> ContainerBytes for Parcel<M> {
    fn from_bytes(bytes: Bytes) -> Self {
        match Self::read(&mut Reader::new(&bytes)) {
            Ok(messages) => Parcel { messages, weight: bytes.len(), unreadable: None },
            Err(error) => {
                let most = (bytes.len() / 8).max(1) as u64;
                let records = Reader::new(&bytes).word().unwrap_or(1).clamp(1, most);
                let error = format!("message of {} bytes: {error}", bytes.len());
                let unreadable = Unreadable { records: i64::try_from(records).unwrap_or(1), error };
                Parcel { messages: Vec::new(), weight: 0, unreadable: Some(Box::new(unreadable)) }
            }
        }
    }

    fn length_in_bytes(&self) -> usize {
        8 + self.messages.iter().map(Wire::size).sum::<usize>()
    }

    fn into_bytes<W: Write>(&self, writer: &mut W) {
        let mut layout = LAYOUT.take();
        layout.clear();
        layout.count(self.messages.len());
        let mut written = Ok(());
        for message in &self.messages {
            message.put(&mut layout);
            if layout.bytes().len() >= FULL_BYTES {
                written = written.and_then(|()| writer.write_all(layout.bytes()));
                layout.clear();
            }
        }
        written = written.and_then(|()| writer.write_all(layout.bytes()));
        // The writer is memory of the length asked for; were it too short, the peer would find the message unreadable.
        debug_assert!(written.is_ok(), "a parcel is longer than it said: {written:?}");
        layout.clear();
        LAYOUT.set(layout);
    }
}

/// The process, and the changes.
impl Wire for Published {
    const LEAST: usize = ChangeBlock::LEAST + 8;
    fn size(&self) -> usize {
        8 + self.changes.size()
    }
    fn weight(&self) -> usize {
        self.changes.weight()
    }
    fn put(&self, out: &mut Writer) {
        self.from.put(out);
        self.changes.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Published { from: Wire::get(from)?, changes: Wire::get(from)? })
    }
}

impl Wire for ViewCounts {
    const LEAST: usize = 32;
    fn size(&self) -> usize {
        self.records.size() + self.contributions.size()
    }
    fn put(&self, out: &mut Writer) {
        self.records.put(out);
        self.contributions.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(ViewCounts { records: Wire::get(from)?, contributions: Wire::get(from)? })
    }
}

/// The sum as two words, the lower first.
impl Wire for DelaySums {
    const LEAST: usize = 32;
    fn size(&self) -> usize {
        32
    }
    fn put(&self, out: &mut Writer) {
        self.records.put(out);
        (self.sum_us as u64).put(out);
        ((self.sum_us >> 64) as u64).put(out);
        self.max_us.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let (records, low, high): (u64, u64, u64) = (Wire::get(from)?, Wire::get(from)?, Wire::get(from)?);
        Ok(DelaySums { records, sum_us: u128::from(high) << 64 | u128::from(low), max_us: Wire::get(from)? })
    }
}

impl Wire for TableCounts {
    const LEAST: usize = 56;
    fn size(&self) -> usize {
        self.newest_event_us.size() + 16 + self.delays.size()
    }
    fn put(&self, out: &mut Writer) {
        self.newest_event_us.put(out);
        self.bytes.put(out);
        self.records.put(out);
        self.delays.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(TableCounts {
            newest_event_us: Wire::get(from)?,
            bytes: Wire::get(from)?,
            records: Wire::get(from)?,
            delays: Wire::get(from)?,
        })
    }
}

/// The kind, the view or table, and what is told of it.
impl Wire for Side {
    const LEAST: usize = 24;
    fn size(&self) -> usize {
        16 + match self {
            Side::Lags(_, lags) => lags.size(),
            Side::TooLate(_, rows) => rows.size(),
            Side::Rejects(_, rejects) => rejects.size(),
            Side::View(_, counts) => counts.size(),
            Side::Table(_, counts) => counts.size(),
            Side::Lab(_, sums) => sums.size(),
        }
    }
    fn put(&self, out: &mut Writer) {
        let mut head = |kind, of: &u32| {
            out.word(kind);
            of.put(out);
        };
        match self {
            Side::Lags(view, lags) => {
                head(0, view);
                lags.put(out);
            }
            Side::TooLate(view, rows) => {
                head(1, view);
                rows.put(out);
            }
            Side::Rejects(table, rejects) => {
                head(2, table);
                rejects.put(out);
            }
            Side::View(view, counts) => {
                head(3, view);
                counts.put(out);
            }
            Side::Table(table, counts) => {
                head(4, table);
                counts.put(out);
            }
            Side::Lab(view, sums) => {
                head(5, view);
                sums.put(out);
            }
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let kind = from.word_upto(5, "expected the kind of a message to the first worker, 0 to 5")?;
        let of = u32::get(from)?;
        Ok(match kind {
            0 => Side::Lags(of, Wire::get(from)?),
            1 => Side::TooLate(of, Wire::get(from)?),
            2 => Side::Rejects(of, Wire::get(from)?),
            3 => Side::View(of, Wire::get(from)?),
            4 => Side::Table(of, Wire::get(from)?),
            _ => Side::Lab(of, Wire::get(from)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;
    use std::sync::mpsc::channel;
    use timely::communication::Config;
    use timely::container::CapacityContainerBuilder;
    use timely::dataflow::channels::pact::{ExchangeCore, Pipeline};
    use timely::dataflow::operators::Probe;
    use timely::dataflow::operators::generic::operator::Operator;
    use timely::dataflow::{InputHandle, ProbeHandle};

    type Message = (u64, String);
    type Builder<M> = CapacityContainerBuilder<Parcel<M>>;

    fn bytes_of<M: Wire>(parcel: &Parcel<M>) -> Vec<u8> {
        let mut out = Vec::new();
        parcel.into_bytes(&mut out);
        assert_eq!(out.len(), parcel.length_in_bytes());
        out
    }

    fn read<M: Wire>(bytes: Vec<u8>) -> Parcel<M> {
        Parcel::from_bytes(timely::bytes::arc::BytesMut::from(bytes).freeze())
    }

    /// Every worker sends its messages, small and large; what arrives where, and in which instant.
    fn exchanged(config: Config) -> Vec<(usize, Instant, Message)> {
        let (found, all) = channel();
        let found = std::sync::Mutex::new(found);
        let guards = timely::execute(
            timely::Config { communication: config, worker: timely::WorkerConfig::default() },
            move |worker| {
                let found = found.lock().unwrap().clone();
                let index = worker.index();
                let mut input = InputHandle::<Instant, Builder<Message>>::new();
                let probe = ProbeHandle::new();
                worker.dataflow::<Instant, _, _>(|scope| {
                    let forwarded =
                        input.to_stream(scope).unary::<Builder<Message>, _, _, _>(Pipeline, "Forward", |_, _| {
                            |input, output| {
                                input.for_each(|capability, data| output.session(&capability).give_container(data))
                            }
                        });
                    let pact = ExchangeCore::<Builder<Message>, _>::new(|m: &Message| m.0);
                    forwarded
                        .unary::<Builder<(u64, Instant)>, _, _, _>(pact, "Receive", move |_, _| {
                            move |input, output| {
                                input.for_each(|capability, data| {
                                    assert_eq!(data.unreadable(), None);
                                    let at = *capability.least().unwrap();
                                    for message in data.drain() {
                                        output.session(&capability).give((message.0, at));
                                        found.send((index, at, message)).unwrap();
                                    }
                                });
                            }
                        })
                        .probe_with(&probe);
                });
                for round in 0..5u64 {
                    input.advance_to(Instant(round as i64));
                    for n in 0..400 {
                        input.send((n, format!("{index} {round} {n}")));
                    }
                    input.send((round, "x".repeat(200_000)));
                }
                input.close();
                while !probe.done() {
                    worker.step();
                }
            },
        );
        guards.unwrap().join().into_iter().for_each(|worker| worker.unwrap());
        let mut all: Vec<_> = all.iter().collect();
        all.sort();
        all
    }

    #[test]
    fn parcels_are_exchanged_as_words_and_as_they_are() {
        let moved = exchanged(Config::Process(2));
        assert_eq!(moved.len(), 2 * 5 * 401);
        assert!(moved.iter().all(|(worker, _, (to, _))| *worker as u64 == to % 2));
        assert_eq!(moved, exchanged(Config::ProcessBinary(2)));
    }

    #[test]
    fn small_messages_share_a_parcel_and_a_large_one_goes_at_once() {
        use timely::container::ContainerBuilder;
        let mut builder = Builder::<Vec<u64>>::default();
        let mut sizes = Vec::new();
        let mut push = |message: Vec<u64>, builder: &mut Builder<Vec<u64>>| {
            builder.push_into(message);
            while let Some(parcel) = builder.extract() {
                sizes.push((parcel.record_count(), parcel.length_in_bytes()));
                assert_eq!(bytes_of(parcel).len(), parcel.length_in_bytes());
                parcel.drain();
            }
        };
        (0..100).for_each(|_| push(vec![7; 127], &mut builder));
        push(vec![7; 20_000], &mut builder);
        push(vec![7; 20_000], &mut builder);
        assert_eq!(sizes, [(64, (1 << 16) + 8), (37, 36 * 1024 + 160_008 + 8), (1, 160_008 + 8)]);
    }

    #[test]
    fn bytes_that_cannot_be_read_give_a_parcel_that_says_so() {
        let messages: Vec<Message> = (0..9).map(|n| (n, "text".repeat(n as usize))).collect();
        let whole = bytes_of(&Parcel::from(messages.clone()));
        let back = read::<Message>(whole.clone());
        assert_eq!((back.messages(), back.unreadable()), (&messages[..], None));
        assert_eq!(bytes_of(&back), whole);

        for len in 0..whole.len() {
            let broken = read::<Message>(whole[..len].to_vec());
            assert!(broken.messages().is_empty() && broken.unreadable().is_some(), "{len} bytes");
            // As many as were sent where they can have been, so that progress tracking is not led astray.
            assert!((1..=9).contains(&broken.record_count()));
            assert!(len < 80 || broken.record_count() == 9);
        }
        let mut longer = whole.clone();
        longer.extend([0; 8]);
        let error = format!("message of {} bytes: byte {}: expected the end of the message", longer.len(), whole.len());
        assert_eq!(read::<Message>(longer).unreadable(), Some(&*error));
        let hostile = [u64::MAX.to_le_bytes(), [1; 8]].concat();
        let error = "message of 16 bytes: byte 0: expected a number of items that the rest of the message can hold";
        let mut broken = read::<Message>(hostile);
        assert_eq!((broken.unreadable(), broken.record_count()), (Some(error), 2));
        // A builder that takes it for its next parcel starts afresh.
        broken.clear();
        assert_eq!((broken.unreadable(), broken.record_count()), (None, 0));
    }
}
