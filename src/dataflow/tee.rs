//! One reader of a lane for several tables of a worker, which all see the same blocks.
//!
//! Whichever table wants a block next reads it, and it waits for the others. All tables of a worker are served in turn, and each keeps
//! its own lanes together by its own watermark; so what waits are the blocks by which one table's watermark runs ahead of another's.
//! None waits for another table, so they cannot stand still for each other.

use crate::error::Result;
use crate::source::{DecodedBlock, LaneReader, Next};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// A lane that several tables read.
pub(super) struct Tee {
    reader: Box<dyn LaneReader>,
    /// Blocks that some table has not had yet; the first is number `first`.
    blocks: VecDeque<Rc<DecodedBlock>>,
    first: u64,
    ended: bool,
    /// By table, the number of the block that it gets next.
    next: Vec<u64>,
}

impl Tee {
    /// For so many tables.
    pub fn new(reader: Box<dyn LaneReader>, tables: usize) -> Rc<RefCell<Tee>> {
        Rc::new(RefCell::new(Tee { reader, blocks: VecDeque::new(), first: 0, ended: false, next: vec![0; tables] }))
    }

    fn next_block(&mut self, table: usize) -> Result<Next> {
        let Some(next) = self.next.get_mut(table) else { return Ok(Next::End) };
        let at = (*next - self.first) as usize;
        if at == self.blocks.len() {
            if self.ended {
                return Ok(Next::End);
            }
            match self.reader.next_block()? {
                Next::Block(block) => self.blocks.push_back(Rc::from(block)),
                Next::End => {
                    self.ended = true;
                    return Ok(Next::End);
                }
                Next::Pending => return Ok(Next::Pending),
            }
        }
        *next += 1;
        let Some(block) = self.blocks.get(at).cloned() else { return Ok(Next::End) };
        if self.next.iter().all(|next| *next > self.first) {
            self.blocks.pop_front();
            self.first += 1;
        }
        // The last that gets it need not copy it.
        Ok(Next::Block(Box::new(Rc::unwrap_or_clone(block))))
    }
}

/// The reader of one of the tables.
pub(super) struct TeeReader {
    tee: Rc<RefCell<Tee>>,
    table: usize,
}

impl TeeReader {
    /// For table `table` of those that the tee was made for.
    pub fn new(tee: &Rc<RefCell<Tee>>, table: usize) -> Self {
        TeeReader { tee: Rc::clone(tee), table }
    }
}

impl LaneReader for TeeReader {
    fn next_block(&mut self) -> Result<Next> {
        self.tee.borrow_mut().next_block(self.table)
    }
    fn suspend(&mut self) {
        self.tee.borrow_mut().reader.suspend();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbers(u64);

    impl LaneReader for Numbers {
        fn next_block(&mut self) -> Result<Next> {
            self.0 += 1;
            match self.0 {
                3 => Ok(Next::Pending),
                8.. => Ok(Next::End),
                index => Ok(Next::Block(Box::new(DecodedBlock { index, ..DecodedBlock::default() }))),
            }
        }
    }

    /// Everybody gets every block once, in whichever order they ask.
    #[test]
    fn every_table_gets_every_block() {
        for order in [[0, 0, 0, 1, 2], [2, 1, 0, 0, 1], [1, 1, 1, 1, 1]] {
            let tee = Tee::new(Box::new(Numbers(0)), 3);
            let mut readers: Vec<_> = (0..3).map(|table| TeeReader::new(&tee, table)).collect();
            let mut got = vec![Vec::new(); 3];
            let mut take = |table: usize| match readers[table].next_block().expect("no error") {
                Next::Block(block) => got[table].push(block.index),
                Next::End | Next::Pending => {}
            };
            (0..12).for_each(|_| order.iter().for_each(|table| take(*table)));
            (0..3).for_each(|table| (0..12).for_each(|_| take(table)));
            assert!(got.iter().all(|blocks| *blocks == [1, 2, 4, 5, 6, 7]), "{got:?}");
            assert!(tee.borrow().blocks.is_empty());
        }
    }
}
