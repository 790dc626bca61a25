//! The workload `nexmark`: people, auctions and bids of an auction house.
//!
//! **What.** The stream of NEXMark (P. Tucker, K. Tufte, V. Papadimos, D. Maier: *NEXMark – A Benchmark for Queries over Data
//! Streams*, 2002 and 2008), with the parameters that the generators of Apache Beam and of the `nexmark` suite for Flink
//! publish as their defaults; the making of records is this program's own, and so are all texts.
//!
//! * Of every 50 records 1 is a person, 3 are auctions and 46 are bids, in this order of event time. People and auctions
//!   are numbered from 1,000.
//! * A bid goes to the *hot* auction with probability 1/2: the first of the hundred that the newest auction is in. Else to one
//!   of the newest 101 or the 10 to come, uniformly.
//! * A bid is made by the *hot* bidder with probability 3/4: the second of the hundred that the newest person is in. Else by
//!   one of the newest 1,000 or the 10 to come. Sellers are chosen alike, but the hot one is the first of the hundred.
//! * Prices are 10^(6u) units for uniform u, in hundredths: 100 to 100,000,000. A reserve is the initial bid and another price.
//! * An auction lasts, uniformly, up to twice as long as 100 auctions take to come. Its category is one of 10 to 14.
//! * A bid comes by one of four channels with probability 1/2, else by one of 10,000 further ones. A channel has one address;
//!   those of nine in ten of the further ones tell its number.
//! * `extra` makes a person about 200 bytes long, an auction 500, a bid 100, counting numbers and times as 8. E-mail
//!   addresses, credit cards, names and descriptions of items are left out, as no query reads them; `extra` is longer by as much.
//!
//! How records arrive out of order is the same as for orders, and replaces the published ways (occasional delays, groups in
//! pseudo-random order).

use super::arrivals::{Arrival, ArrivalStream, Arrivals, floor_to_ms};
use super::fields::Field;
use super::seeded::{GOLDEN, Purpose, below, mix, unit};
use crate::plan::GeneratorPlan;
use crate::time::EVENT_TIME_MAX_US;

/// Records of a round: of each, people, auctions and bids.
const ROUND: u64 = 50;
const ROUND_PEOPLE: u64 = 1;
const ROUND_AUCTIONS: u64 = 3;
/// The number of the first person and the first auction.
const FIRST_ID: u64 = 1_000;
/// How many numbers share a hot one.
const HOT_AMONG: u64 = 100;
/// Auctions behind the newest that still get bids; people that are active.
const AUCTIONS_IN_FLIGHT: u64 = 100;
const PEOPLE_ACTIVE: u64 = 1_000;
/// Numbers not given yet that are named all the same.
const LEAD: u64 = 10;
const CATEGORIES: (u64, u64) = (10, 5);
const PRICE_DECADES: f64 = 6.0;
const HOT_CHANNELS: [&str; 4] = ["Apple", "Baidu", "Facebook", "Google"];
const CHANNELS: u64 = 10_000;
/// Length of `extra`, from and to.
const PERSON_EXTRA: (u64, u64) = (136, 204);
const AUCTION_EXTRA: (u64, u64) = (355, 533);
const BID_EXTRA: (u64, u64) = (54, 82);
const NAMES: [&str; 12] =
    ["Ada", "Bruno", "Clara", "Dimitri", "Edith", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kira", "Leo"];
const CITIES: [(&str, &str); 10] = [
    ("Tucson", "AZ"),
    ("Fresno", "CA"),
    ("Oakland", "CA"),
    ("Boise", "ID"),
    ("Eugene", "OR"),
    ("Salem", "OR"),
    ("Spokane", "WA"),
    ("Tacoma", "WA"),
    ("Casper", "WY"),
    ("Laramie", "WY"),
];

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Person,
    Auction,
    Bid,
}

impl Kind {
    fn of(i: u64) -> Kind {
        match i % ROUND {
            place if place < ROUND_PEOPLE => Kind::Person,
            place if place < ROUND_PEOPLE + ROUND_AUCTIONS => Kind::Auction,
            _ => Kind::Bid,
        }
    }
}

/// A value of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NexmarkValue {
    /// A whole number.
    Whole(i64),
    /// A time in microseconds, whole milliseconds.
    Time(i64),
    /// A text, which has been appended to the buffer; letters, digits, blanks and `:/.?=&_-` only.
    Text,
}

/// The records as functions of `i`.
#[derive(Clone, Debug)]
pub(super) struct Nexmark {
    pub(super) arrivals: Arrivals,
}

impl Nexmark {
    pub(super) fn new(plan: &GeneratorPlan) -> Nexmark {
        Nexmark { arrivals: Arrivals::new(plan) }
    }

    fn hash(&self, purpose: Purpose, i: u64) -> u64 {
        self.arrivals.hashes.hash(purpose, i)
    }

    fn below(&self, purpose: Purpose, i: u64, n: u64) -> u64 {
        below(self.hash(purpose, i), n)
    }

    /// A field that is a number, of record `i`; `None` if such a record has none. Arrival time and partition are not a
    /// matter of the workload.
    pub(super) fn number(&self, field: Field, i: u64) -> Option<i64> {
        let id = |id: u64| Some(id.saturating_add(FIRST_ID) as i64);
        match (Kind::of(i), field) {
            (_, Field::DateTime) => Some(self.arrivals.event_us(i)),
            (Kind::Person, Field::Person) => id(newest_person(i)),
            (Kind::Auction, Field::Auction) => id(newest_auction(i)),
            (Kind::Auction, Field::Seller) => id(self.person(i, 0)),
            (Kind::Auction, Field::Category) => {
                Some((CATEGORIES.0 + self.below(Purpose::Category, i, CATEGORIES.1)) as i64)
            }
            (Kind::Auction, Field::InitialBid) | (Kind::Bid, Field::Price) => Some(self.price(Purpose::Price, i)),
            (Kind::Auction, Field::Reserve) => Some(self.price(Purpose::Price, i) + self.price(Purpose::Reserve, i)),
            (Kind::Auction, Field::Expires) => Some(self.expires_us(i)),
            (Kind::Bid, Field::Auction) => id(self.auction(i)),
            (Kind::Bid, Field::Bidder) => id(self.person(i, 1)),
            _ => None,
        }
    }

    /// A field that is a text, appended to `out`; `false` if such a record has none.
    #[expect(clippy::indexing_slicing, reason = "numbers below the length")]
    pub(super) fn text(&self, field: Field, i: u64, out: &mut String) -> bool {
        match (Kind::of(i), field) {
            (Kind::Person, Field::Kind) => out.push_str("person"),
            (Kind::Auction, Field::Kind) => out.push_str("auction"),
            (Kind::Bid, Field::Kind) => out.push_str("bid"),
            (Kind::Bid, Field::Channel) => match self.channel(i) {
                Ok(hot) => out.push_str(HOT_CHANNELS[hot]),
                Err(number) => {
                    out.push_str("channel-");
                    out.push_str(itoa::Buffer::new().format(number));
                }
            },
            (Kind::Bid, Field::Url) => self.url(i, out),
            (Kind::Person, Field::Name) => {
                out.push_str(NAMES[self.below(Purpose::Name, i, NAMES.len() as u64) as usize]);
            }
            (Kind::Person, Field::City) => out.push_str(CITIES[self.city(i)].0),
            (Kind::Person, Field::State) => out.push_str(CITIES[self.city(i)].1),
            (kind, Field::Extra) => {
                let (from, to) = match kind {
                    Kind::Person => PERSON_EXTRA,
                    Kind::Auction => AUCTION_EXTRA,
                    Kind::Bid => BID_EXTRA,
                };
                let length = from + self.below(Purpose::ExtraLength, i, to - from + 1);
                push_letters(self.hash(Purpose::Extra, i), length, out);
            }
            _ => return false,
        }
        true
    }

    /// The auction of a bid, from 0.
    fn auction(&self, i: u64) -> u64 {
        let newest = newest_auction(i);
        if self.below(Purpose::IsHotAuction, i, 2) > 0 {
            return newest - newest % HOT_AMONG;
        }
        let first = newest.saturating_sub(AUCTIONS_IN_FLIGHT);
        first + self.below(Purpose::Auction, i, newest - first + 1 + LEAD)
    }

    /// A bidder or seller, from 0; `hot` is the place of the hot one in its hundred.
    fn person(&self, i: u64, hot: u64) -> u64 {
        let newest = newest_person(i);
        if self.below(Purpose::IsHotPerson, i, 4) > 0 {
            return newest - newest % HOT_AMONG + hot;
        }
        let first = (newest + 1).saturating_sub(PEOPLE_ACTIVE);
        first + self.below(Purpose::Person, i, newest + 1 - first + LEAD)
    }

    fn price(&self, purpose: Purpose, i: u64) -> i64 {
        let exponent = unit(self.hash(purpose, i)) * PRICE_DECADES;
        (libm::exp(exponent * std::f64::consts::LN_10) * 100.0).round() as i64
    }

    fn expires_us(&self, i: u64) -> i64 {
        let records = (2 * AUCTIONS_IN_FLIGHT * ROUND / ROUND_AUCTIONS) as f64;
        let longest_us = records * self.arrivals.us_per_record;
        let lasts_us = (unit(self.hash(Purpose::Expiry, i)) * longest_us) as i64;
        floor_to_ms(self.arrivals.event_us(i).saturating_add(lasts_us.max(1_000)).min(EVENT_TIME_MAX_US))
    }

    fn city(&self, i: u64) -> usize {
        self.below(Purpose::City, i, CITIES.len() as u64) as usize
    }

    /// The channel of a bid: a hot one, or another one's number.
    fn channel(&self, i: u64) -> Result<usize, u64> {
        if self.below(Purpose::IsHotChannel, i, 2) > 0 {
            Ok(self.below(Purpose::Channel, i, HOT_CHANNELS.len() as u64) as usize)
        } else {
            Err(self.below(Purpose::Channel, i, CHANNELS))
        }
    }

    fn url(&self, i: u64, out: &mut String) {
        let (page, told) = match self.channel(i) {
            Ok(hot) => (CHANNELS + hot as u64, None),
            Err(number) => (number, (number % 10 > 0).then_some(number)),
        };
        out.push_str("https://auctions.example");
        let seed = self.hash(Purpose::Url, page);
        for part in 0..3 {
            out.push('/');
            push_letters(mix(seed ^ part), 5, out);
        }
        out.push_str("/item.htm?query=1");
        if let Some(number) = told {
            out.push_str("&channel_id=");
            out.push_str(itoa::Buffer::new().format(number));
        }
    }
}

/// The newest person as of record `i`, that record included, from 0. The first record is one.
fn newest_person(i: u64) -> u64 {
    i / ROUND * ROUND_PEOPLE
}

/// The newest auction likewise; before there is one, the first to come.
fn newest_auction(i: u64) -> u64 {
    let of_round = (i % ROUND + 1).saturating_sub(ROUND_PEOPLE).min(ROUND_AUCTIONS);
    (i / ROUND * ROUND_AUCTIONS + of_round).saturating_sub(1)
}

fn push_letters(seed: u64, count: u64, out: &mut String) {
    let mut left = count;
    let mut state = seed;
    while left > 0 {
        state = state.wrapping_add(GOLDEN);
        let letters = mix(state).to_le_bytes().map(|byte| char::from(b'a' + ((u16::from(byte) * 26) >> 8) as u8));
        let take = left.min(8);
        out.extend(letters.iter().take(take as usize));
        left -= take;
    }
}

/// The records of one partition, or of all of them, by (arrival time, `i`).
#[derive(Clone, Debug)]
pub struct NexmarkStream {
    nexmark: Nexmark,
    arrivals: ArrivalStream,
}

impl NexmarkStream {
    /// The records of partition `partition`, or of all partitions merged by arrival time.
    pub fn new(plan: &GeneratorPlan, partition: Option<u32>) -> NexmarkStream {
        NexmarkStream { nexmark: Nexmark::new(plan), arrivals: ArrivalStream::new(plan, partition) }
    }

    /// The next record.
    pub fn next_arrival(&mut self) -> Option<Arrival> {
        self.arrivals.next()
    }

    /// A value of a record; `None` if it has none. A text is appended to `text`.
    pub fn value(&self, field: Field, record: &Arrival, text: &mut String) -> Option<NexmarkValue> {
        match field {
            Field::ArrivalTime => Some(NexmarkValue::Time(record.arrival_time_us)),
            Field::Partition => {
                text.push_str(itoa::Buffer::new().format(record.partition));
                Some(NexmarkValue::Text)
            }
            Field::DateTime | Field::Expires => self.nexmark.number(field, record.i).map(NexmarkValue::Time),
            _ if field.is_number() => self.nexmark.number(field, record.i).map(NexmarkValue::Whole),
            _ => self.nexmark.text(field, record.i, text).then_some(NexmarkValue::Text),
        }
    }
}
