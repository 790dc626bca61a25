//! "Did you mean": the nearest of a few known words.

/// The candidate nearest to `word`, ignoring ASCII case, if it is near: at most one edit for words of up to five letters,
/// else a third of the length. An edit inserts, deletes or replaces a character or swaps two neighbours. Ties go to the
/// candidate that comes first.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let word: Vec<char> = word.to_ascii_lowercase().chars().collect();
    let limit = (word.len() / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let distance = distance(&word, &candidate.to_ascii_lowercase().chars().collect::<Vec<_>>());
        if distance <= limit && distance < word.len() && best.is_none_or(|(d, _)| distance < d) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate.to_string())
}

/// Edit distance with swaps of neighbours (optimal string alignment), by rows.
#[expect(clippy::indexing_slicing, reason = "rows are as long as `b` and one, and columns count along `b`")]
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1; b.len() + 1];
        for (j, y) in b.iter().enumerate() {
            row[j + 1] = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(a: &str, b: &str) -> usize {
        distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>())
    }

    #[test]
    fn distances() {
        assert_eq!(d("", "abc"), 3);
        assert_eq!(d("kitten", "sitting"), 3);
        assert_eq!(d("abcd", "acbd"), 1);
        assert_eq!(d("same", "same"), 0);
    }

    #[test]
    fn suggests_only_what_is_near() {
        let words = ["amount", "customer_id", "event_time"];
        assert_eq!(did_you_mean("amuont", words), Some("amount".into()));
        assert_eq!(did_you_mean("CUSTOMER", words), None);
        assert_eq!(did_you_mean("custmer_id", words), Some("customer_id".into()));
        assert_eq!(did_you_mean("xyz", words), None);
        assert_eq!(did_you_mean("x", ["y"]), None);
    }
}
