//! What went wrong, shown: of each kind of failure the first answer's beginning, or why there was none.

use crate::failure::Failure;

/// How much of a wrong answer is kept for the explanation.
pub const SAMPLE_BYTES: usize = 300;

/// By kind, in the order in which they came first.
#[derive(Debug, Default)]
pub struct ErrorSample(Vec<(Failure, Vec<u8>)>);

impl ErrorSample {
    /// Keeps these bytes if it has none of this kind yet.
    pub fn note(&mut self, kind: Failure, bytes: &[u8]) {
        if self.0.iter().all(|(known, _)| *known != kind) {
            self.0.push((kind, bytes[..bytes.len().min(SAMPLE_BYTES)].to_vec()));
        }
    }

    /// The same, of a text that is made only then.
    pub fn note_with(&mut self, kind: Failure, text: impl FnOnce() -> String) {
        if self.0.iter().all(|(known, _)| *known != kind) {
            self.note(kind, text().as_bytes());
        }
    }

    /// Whether something was noted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives the texts out and starts anew; bytes that are no UTF-8 are shown as such.
    pub fn take(&mut self) -> Vec<(Failure, String)> {
        self.0.drain(..).map(|(kind, bytes)| (kind, String::from_utf8_lossy(&bytes).into_owned())).collect()
    }
}
