//! A TCP proxy that passes bytes on in small pieces and late.

use crate::data::Random;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// One that listens on a port of its own.
pub struct Proxy {
    pub address: String,
    pieces: Arc<AtomicU64>,
}

impl Proxy {
    /// Passes on to `target`. Its threads end with the connections, or with the test program.
    pub fn to(target: &str, seed: u64) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let (target, pieces) = (target.to_owned(), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&pieces);
        thread::spawn(move || {
            for (number, near) in (0..).zip(listener.incoming()) {
                // Whoever finds nobody behind it tries again.
                let (Ok(near), Ok(far)) = (near, TcpStream::connect(&target)) else { continue };
                for (side, (from, to)) in [(&near, &far), (&far, &near)].into_iter().enumerate() {
                    let (from, to) = (from.try_clone().expect("a clone"), to.try_clone().expect("a clone"));
                    let random = Random::new(seed ^ (number * 2 + side as u64));
                    let count = Arc::clone(&count);
                    thread::spawn(move || pass_on(from, to, random, &count));
                }
            }
        });
        Proxy { address, pieces }
    }

    /// How many pieces have passed.
    pub fn pieces(&self) -> u64 {
        self.pieces.load(Ordering::Relaxed)
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, mut random: Random, count: &AtomicU64) {
    let _ = to.set_nodelay(true);
    let mut buffer = [0; 4096];
    loop {
        // Mostly a few bytes, so that headers are torn; now and then many, so that it comes to an end.
        let most = if random.one_in(3) { buffer.len() } else { 1 + random.below(40) as usize };
        match from.read(&mut buffer[..most]) {
            Ok(bytes @ 1..) => {
                if random.one_in(8) {
                    thread::sleep(Duration::from_micros(random.below(3000)));
                }
                count.fetch_add(1, Ordering::Relaxed);
                if to.write_all(&buffer[..bytes]).is_err() {
                    let _ = from.shutdown(Shutdown::Read);
                    return;
                }
            }
            _ => {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
        }
    }
}
