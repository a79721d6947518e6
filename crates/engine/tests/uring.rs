//! The tests for every back end, over the engine's choice: io_uring if it works.

mod faulty;
mod http2;
mod load;
mod open;
mod truth;

const BACKEND: dragstrip_engine::Backend = dragstrip_engine::Backend::Auto;
