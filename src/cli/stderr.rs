//! A child's standard error, read by a thread: a child never waits for somebody to read it.

use std::io::Read;
use std::process::Child;
use std::thread::JoinHandle;

/// What is kept, from the beginning; the rest is read and dropped.
const BYTES_MAX: u64 = 64 << 10;

/// Standard error of a child that runs.
pub(super) struct Stderr(Option<JoinHandle<Vec<u8>>>);

impl Stderr {
    /// Begins to read it. Of a child that has no pipe for it there is nothing.
    pub fn of(child: &mut Child) -> Stderr {
        Stderr(child.stderr.take().map(|pipe| {
            std::thread::spawn(move || {
                let mut text = Vec::new();
                let mut pipe = pipe.take(BYTES_MAX);
                // What cannot be read cannot be shown.
                let _ = pipe.read_to_end(&mut text);
                let _ = std::io::copy(&mut pipe.into_inner(), &mut std::io::sink());
                text
            })
        }))
    }

    /// Waits until all who can write to it have closed it, and gives what was kept.
    pub fn finish(self) -> Vec<u8> {
        self.0.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_beginning_is_kept_and_the_rest_does_not_block() {
        let mut command = Command::new("sh");
        command.args(["-c", "head -c 300000 /dev/zero >&2"]).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = Stderr::of(&mut child);
        assert!(child.wait().unwrap().success());
        assert_eq!(stderr.finish().len(), 64 << 10);
        let mut child = Command::new("true").spawn().unwrap();
        assert!(Stderr::of(&mut child).finish().is_empty());
        child.wait().unwrap();
    }
}
