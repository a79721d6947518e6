//! What holds over every back end, over the one the engine chooses: io_uring where it works.

mod faulty;
mod http2;
mod load;
mod open;
mod truth;

const BACKEND: dragstrip_engine::Backend = dragstrip_engine::Backend::Auto;
