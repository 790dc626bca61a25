//! Numbers from a seed: a counter-based hash, so that any number can be had without those before it.
//!
//! splitmix64's finaliser over a Weyl sequence (Steele, Lea and Flood 2014), a sequence for each purpose.

/// Step of the Weyl sequence: 2^64 divided by the golden ratio, odd.
pub(super) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a hash is for; each purpose has a sequence of its own. Numbers that exist keep theirs: bytes depend on them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Customer = 1,
    Amount = 2,
    IsLate = 3,
    Delay = 4,
    Partition = 5,
    IsHotAuction = 6,
    Auction = 7,
    IsHotPerson = 8,
    Person = 9,
    Price = 10,
    IsHotChannel = 11,
    Channel = 12,
    Url = 13,
    Category = 14,
    Reserve = 15,
    Expiry = 16,
    Name = 17,
    City = 18,
    ExtraLength = 19,
    Extra = 20,
    IsDelayedKey = 21,
}

/// How many purposes there are, and one.
const PURPOSES: usize = Purpose::IsDelayedKey as usize + 1;

/// The hash sequences of a seed.
#[derive(Clone, Debug)]
pub(super) struct Hashes {
    /// Start of each purpose's sequence.
    bases: [u64; PURPOSES],
}

impl Hashes {
    pub(super) fn new(seed: u64) -> Hashes {
        let mut bases = [0; PURPOSES];
        for (purpose, base) in (0u64..).zip(&mut bases) {
            *base = mix(seed.wrapping_add(mix(purpose.wrapping_mul(GOLDEN))));
        }
        Hashes { bases }
    }

    #[expect(clippy::indexing_slicing, reason = "there are as many bases as purposes, and one")]
    pub(super) fn hash(&self, purpose: Purpose, i: u64) -> u64 {
        mix(self.bases[purpose as usize].wrapping_add(i.wrapping_add(1).wrapping_mul(GOLDEN)))
    }
}

/// splitmix64's finaliser: a bijection of 64-bit words without visible pattern.
pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Maps a hash to `0..n` by its high bits (`n > 0`).
pub(super) fn below(hash: u64, n: u64) -> u64 {
    ((u128::from(hash) * u128::from(n)) >> 64) as u64
}

/// Maps a hash to a double in `(0, 1]`, of 53 random bits.
pub(super) fn unit(hash: u64) -> f64 {
    ((hash >> 11) + 1) as f64 * (1.0 / 9_007_199_254_740_992.0)
}
