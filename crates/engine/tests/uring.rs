//! What holds over every back end, over the one the engine chooses: io_uring where it works.

mod faulty;
mod load;
mod open;

const BACKEND: dragstrip_engine::Backend = dragstrip_engine::Backend::Auto;
