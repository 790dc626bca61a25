//! The columns of the workloads.

use crate::plan::Workload;
use crate::time::format_timestamp;
use crate::types::DataType;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Orders: number in event-time order, from 0.
    OrderId,
    /// Orders: the customer.
    CustomerId,
    /// Orders: the amount, in hundredths.
    Amount,
    /// Orders: the event time.
    EventTime,
    /// NEXMark: `person`, `auction` or `bid`.
    Kind,
    /// Bids: the auction bid for; auctions: their own number.
    Auction,
    /// Bids: the person who bids.
    Bidder,
    /// Bids: the price, in hundredths.
    Price,
    /// Bids: where it was made.
    Channel,
    /// Bids: the channel's address.
    Url,
    /// Auctions: the person who sells.
    Seller,
    /// Auctions: 10 to 14.
    Category,
    /// Auctions: the least first bid, in hundredths.
    InitialBid,
    /// Auctions: the least price, in hundredths.
    Reserve,
    /// Auctions: their end.
    Expires,
    /// People: their own number.
    Person,
    /// People: the name.
    Name,
    /// People: the city.
    City,
    /// People: the state that it is in.
    State,
    /// NEXMark: the event time.
    DateTime,
    /// NEXMark: letters that give a record its length.
    Extra,
    /// Any: the arrival time.
    ArrivalTime,
    /// Any: the partition, from 0.
    Partition,
}

use Field::*;

/// The columns of orders, as they are written.
const ORDERS: [Field; 6] = [OrderId, CustomerId, Amount, EventTime, ArrivalTime, Partition];

/// The columns of NEXMark, as they are written: bids, what only auctions have, what only people have, all.
const NEXMARK: [Field; 19] = [
    Kind,
    Auction,
    Bidder,
    Price,
    Channel,
    Url,
    Seller,
    Category,
    InitialBid,
    Reserve,
    Expires,
    Person,
    Name,
    City,
    State,
    DateTime,
    Extra,
    ArrivalTime,
    Partition,
];

/// What the values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Whole,
    Cents,
    Time,
    Text,
}

impl Field {
    /// The columns of a workload, in the order in which they are written.
    pub fn of(workload: Workload) -> &'static [Field] {
        match workload {
            Workload::Orders => &ORDERS,
            Workload::Nexmark => &NEXMARK,
        }
    }

    /// The column of this name, if the workload has it.
    pub(super) fn named(workload: Workload, name: &str) -> Option<Field> {
        Field::of(workload).iter().copied().find(|field| field.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            OrderId => "order_id",
            CustomerId => "customer_id",
            Amount => "amount",
            EventTime => "event_time",
            Kind => "kind",
            Auction => "auction",
            Bidder => "bidder",
            Price => "price",
            Channel => "channel",
            Url => "url",
            Seller => "seller",
            Category => "category",
            InitialBid => "initial_bid",
            Reserve => "reserve",
            Expires => "expires",
            Person => "person",
            Name => "name",
            City => "city",
            State => "state",
            DateTime => "date_time",
            Extra => "extra",
            ArrivalTime => "arrival_time",
            Partition => "partition",
        }
    }

    fn shape(self) -> Shape {
        match self {
            Amount => Shape::Cents,
            EventTime | DateTime | Expires | ArrivalTime => Shape::Time,
            Kind | Channel | Url | Name | City | State | Extra | Partition => Shape::Text,
            OrderId | CustomerId | Auction | Bidder | Price | Seller | Category | InitialBid | Reserve | Person => {
                Shape::Whole
            }
        }
    }

    /// Its own type.
    pub(super) fn dtype(self) -> DataType {
        match self.shape() {
            Shape::Whole => DataType::BigInt,
            Shape::Cents => DataType::Decimal { precision: 12, scale: 2 },
            Shape::Time => DataType::Timestamp,
            Shape::Text => DataType::Text,
        }
    }

    /// Whether the field can be given as the type: its own, or one that a reader of text would accept for it.
    pub(super) fn fits(self, dtype: &DataType) -> bool {
        match (self.shape(), dtype) {
            (Shape::Whole, DataType::BigInt | DataType::Text | DataType::Double)
            | (Shape::Cents, DataType::Double | DataType::Text)
            | (Shape::Time, DataType::Timestamp)
            | (Shape::Text, DataType::Text) => true,
            // Every amount has at most three digits before the point.
            (Shape::Cents, DataType::Decimal { precision, scale }) => {
                *scale >= 2 && precision.saturating_sub(*scale) >= 3
            }
            _ => false,
        }
    }

    /// Whether every record has it.
    pub(super) fn always(self) -> bool {
        matches!(self, OrderId | CustomerId | Amount | EventTime | Kind | DateTime | Extra | ArrivalTime | Partition)
    }

    /// Whether its values are numbers, and its text is written from them by [`Field::write`].
    pub(super) fn is_number(self) -> bool {
        self.shape() != Shape::Text || self == Partition
    }

    /// A number as text, as `slackwater gen` writes it.
    pub(super) fn write(self, number: i64, out: &mut String) {
        match self.shape() {
            Shape::Cents => {
                out.push_str(itoa::Buffer::new().format(number / 100));
                out.push('.');
                let cents = number % 100;
                if cents < 10 {
                    out.push('0');
                }
                out.push_str(itoa::Buffer::new().format(cents));
            }
            Shape::Time => format_timestamp(number, out),
            Shape::Whole | Shape::Text => out.push_str(itoa::Buffer::new().format(number)),
        }
    }
}
