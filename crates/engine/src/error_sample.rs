//! An example of each kind of failure: the beginning of the first such response, or why there was none.

use crate::failure::Failure;

/// How much of a wrong response is kept, bytes.
pub const SAMPLE_BYTES: usize = 300;

/// One example per kind of failure, in the order in which they came.
#[derive(Debug, Default)]
pub struct ErrorSample(Vec<(Failure, Vec<u8>)>);

impl ErrorSample {
    /// Keeps these bytes if this kind has no example yet.
    pub fn note(&mut self, kind: Failure, bytes: &[u8]) {
        if self.0.iter().all(|(known, _)| *known != kind) {
            self.0.push((kind, bytes[..bytes.len().min(SAMPLE_BYTES)].to_vec()));
        }
    }

    /// The same; the text is built only if it is kept.
    pub fn note_with(&mut self, kind: Failure, text: impl FnOnce() -> String) {
        if self.0.iter().all(|(known, _)| *known != kind) {
            self.note(kind, text().as_bytes());
        }
    }

    /// Whether no example was kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the examples and starts again; bytes that are not UTF-8 are replaced.
    pub fn take(&mut self) -> Vec<(Failure, String)> {
        self.0.drain(..).map(|(kind, bytes)| (kind, String::from_utf8_lossy(&bytes).into_owned())).collect()
    }
}
