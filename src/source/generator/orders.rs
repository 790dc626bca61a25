//! The workload `orders`: what an order holds.

use super::arrivals::{Arrival, ArrivalStream, Arrivals};
use super::seeded::{Purpose, below};
use crate::plan::GeneratorPlan;

/// Smallest and largest amount, in hundredths.
pub(super) const AMOUNT_CENTS: (u64, u64) = (100, 99_999);

/// One order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its number in event-time order, from 0.
    pub order_id: u64,
    /// Customer, from 0 to `keys − 1`.
    pub customer_id: u64,
    /// Amount in hundredths, 100 to 99,999.
    pub amount_cents: u64,
    /// Event time, in whole milliseconds given as microseconds.
    pub event_time_us: i64,
    /// Arrival time, in whole milliseconds given as microseconds; never before the event time.
    pub arrival_time_us: i64,
    /// Partition, from 0 to `partitions − 1`.
    pub partition: u32,
}

/// Orders as a function of `i`.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    pub(super) arrivals: Arrivals,
}

impl Orders {
    pub(super) fn new(plan: &GeneratorPlan) -> Orders {
        Orders { arrivals: Arrivals::new(plan) }
    }

    pub(super) fn customer(&self, i: u64) -> u64 {
        self.arrivals.customer(i)
    }

    pub(super) fn amount_cents(&self, i: u64) -> u64 {
        AMOUNT_CENTS.0 + below(self.arrivals.hashes.hash(Purpose::Amount, i), AMOUNT_CENTS.1 - AMOUNT_CENTS.0 + 1)
    }
}

/// The orders of one partition, or of all of them, by (arrival time, order id).
#[derive(Clone, Debug)]
pub struct OrderStream {
    orders: Orders,
    arrivals: ArrivalStream,
}

impl OrderStream {
    /// The orders of partition `partition`, or of all partitions merged by arrival time.
    pub fn new(plan: &GeneratorPlan, partition: Option<u32>) -> OrderStream {
        OrderStream { orders: Orders::new(plan), arrivals: ArrivalStream::new(plan, partition) }
    }
}

impl Iterator for OrderStream {
    type Item = Order;

    fn next(&mut self) -> Option<Order> {
        let Arrival { i, arrival_time_us, partition } = self.arrivals.next()?;
        Some(Order {
            order_id: i,
            customer_id: self.orders.customer(i),
            amount_cents: self.orders.amount_cents(i),
            event_time_us: self.orders.arrivals.event_us(i),
            arrival_time_us,
            partition,
        })
    }
}
