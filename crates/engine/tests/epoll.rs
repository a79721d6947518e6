//! What holds over every back end, over epoll.

mod faulty;
mod load;
mod open;

const BACKEND: dragstrip_engine::Backend = dragstrip_engine::Backend::Epoll;
