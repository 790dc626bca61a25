//! Workers that take turns: one runs at a time, and a seed decides which, and whether it may read.
//!
//! Nobody runs before everybody waits, so an interleaving depends on the seed alone. What the workers do is noted, turn by
//! turn, so that two runs can be compared.

use crate::streams::Dice;
use slackwater::dataflow::{Schedule, Turn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Turns without anything done after which a run is taken to be stuck. A worker that is idle for long may get few turns.
const TURNS_MAX: u64 = 200_000;

/// How the next worker is chosen.
#[derive(Clone, Debug)]
pub enum Order {
    /// Any, alike.
    Fair,
    /// One after another.
    InTurn,
    /// One goes on for up to so many turns.
    Bursts(u64),
    /// One is left out for up to so many turns.
    Starved(u64),
    /// As many lots each.
    Weighted(Vec<u64>),
}

/// What the baton does.
#[derive(Clone, Debug)]
pub struct Habits {
    pub workers: usize,
    pub order: Order,
    /// A worker stops reading once in so many turns (0: never), for up to so many of its turns.
    pub idle: (u64, u64),
    /// The turn at which the run is told to stop.
    pub stop_at: Option<u64>,
}

impl Habits {
    pub fn new(dice: &mut Dice) -> Habits {
        let workers = dice.range(1, 7) as usize;
        let order = match dice.below(6) {
            0 => Order::InTurn,
            1 => Order::Bursts(dice.pick(&[3, 20, 80])),
            2 | 3 => Order::Starved(dice.pick(&[10, 60, 300])),
            4 => Order::Weighted((0..workers).map(|_| dice.pick(&[1, 1, 3, 20, 60])).collect()),
            _ => Order::Fair,
        };
        Habits { workers, order, idle: dice.pick(&[(0, 1), (0, 1), (4, 4), (20, 60), (60, 200)]), stop_at: None }
    }
}

/// Something that a worker did.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Deed {
    /// Got the baton; whether it may read.
    Turn(bool),
    /// Asked for a block of a lane: its index and rows.
    Block(usize, u64, usize),
    Pending(usize),
    EndOfLane(usize),
    /// Gave to the output: view, how many, the first one's watermark.
    Changes(usize, usize, Option<i64>),
    Advance(usize, i64),
    Lags(usize, usize),
    TooLate(usize, usize),
    Rejects(usize, usize),
    Prepare(bool),
    Complete,
    Left,
}

#[derive(Debug)]
struct State {
    dice: Dice,
    habits: Habits,
    /// Waits for its turn.
    here: Vec<bool>,
    left: Vec<bool>,
    holder: Option<usize>,
    last: usize,
    /// Of a burst, or of a worker being left out.
    spell: (usize, u64),
    idle: Vec<u64>,
    turns: u64,
    /// The turn in which something was done last.
    done: u64,
    log: Vec<(usize, Deed)>,
}

impl State {
    /// Whom to give the baton to; `None`: somebody is still to come, or nobody is left.
    fn next(&mut self) -> Option<usize> {
        if self.holder.is_some() || (0..self.here.len()).any(|w| !self.here[w] && !self.left[w]) {
            return None;
        }
        let here: Vec<usize> = (0..self.here.len()).filter(|w| self.here[*w]).collect();
        let (last, dice) = (self.last, &mut self.dice);
        let any = *here.first()?;
        let next = match &self.habits.order {
            Order::Fair => dice.pick(&here),
            Order::InTurn => here.iter().copied().find(|w| *w > last).unwrap_or(any),
            Order::Bursts(max) => {
                if self.spell.1 == 0 || !here.contains(&self.spell.0) {
                    self.spell = (dice.pick(&here), 1 + dice.below(*max));
                }
                self.spell.1 -= 1;
                self.spell.0
            }
            Order::Starved(max) => {
                if self.spell.1 == 0 {
                    self.spell = (dice.below(self.here.len() as u64) as usize, 1 + dice.below(*max));
                }
                self.spell.1 -= 1;
                let others: Vec<usize> = here.iter().copied().filter(|w| *w != self.spell.0).collect();
                if others.is_empty() { any } else { dice.pick(&others) }
            }
            Order::Weighted(lots) => {
                let mut lot = dice.below(here.iter().map(|w| lots[*w]).sum());
                let drawn = here.iter().copied().find(|w| {
                    let wins = lot < lots[*w];
                    lot = lot.saturating_sub(lots[*w]);
                    wins
                });
                drawn.unwrap_or(any)
            }
        };
        (self.holder, self.last) = (Some(next), next);
        Some(next)
    }

    /// Whether the worker may read.
    fn may_read(&mut self, worker: usize) -> bool {
        let (one_in, most) = self.habits.idle;
        if self.idle[worker] > 0 {
            self.idle[worker] -= 1;
            return false;
        }
        if one_in > 0 && self.dice.one_in(one_in) {
            self.idle[worker] = self.dice.below(most);
        }
        true
    }
}

/// Lets one worker run at a time.
#[derive(Debug)]
pub struct Baton {
    state: Mutex<State>,
    calls: Vec<Condvar>,
    stop: Arc<AtomicBool>,
}

impl Baton {
    pub fn new(seed: u64, habits: Habits, stop: Arc<AtomicBool>) -> Baton {
        let workers = habits.workers;
        Baton {
            calls: (0..workers).map(|_| Condvar::new()).collect(),
            stop,
            state: Mutex::new(State {
                dice: Dice(seed),
                habits,
                here: vec![false; workers],
                left: vec![false; workers],
                holder: None,
                last: 0,
                spell: (0, 0),
                idle: vec![0; workers],
                turns: 0,
                done: 0,
                log: Vec::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the worker that runs does.
    pub fn note(&self, deed: Deed) {
        let mut state = self.state();
        let holder = state.holder.expect("somebody runs");
        if !matches!(deed, Deed::Pending(_)) {
            state.done = state.turns;
        }
        state.log.push((holder, deed));
    }

    /// What was noted.
    pub fn log(&self) -> Vec<(usize, Deed)> {
        std::mem::take(&mut self.state().log)
    }

    fn pass_on(&self, state: &mut State) {
        if let Some(next) = state.next() {
            self.calls[next].notify_one();
        }
    }
}

impl Schedule for Baton {
    fn turn(&self, worker: usize) -> Turn {
        let mut state = self.state();
        if state.holder == Some(worker) {
            state.holder = None;
        }
        state.here[worker] = true;
        self.pass_on(&mut state);
        while state.holder != Some(worker) {
            state = self.calls[worker].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.here[worker] = false;
        state.turns += 1;
        let stuck = state.turns - state.done > TURNS_MAX;
        if state.habits.stop_at == Some(state.turns) {
            self.stop.store(true, Ordering::SeqCst);
        }
        let read = state.may_read(worker);
        state.log.push((worker, Deed::Turn(read)));
        drop(state);
        assert!(!stuck, "stuck: nothing was done in {TURNS_MAX} turns");
        Turn { read }
    }

    fn leave(&self, worker: usize) {
        let mut state = self.state();
        if state.holder == Some(worker) {
            state.holder = None;
        }
        (state.here[worker], state.left[worker]) = (false, true);
        state.log.push((worker, Deed::Left));
        self.pass_on(&mut state);
    }
}
