//! What holds over every back end, over epoll.

mod faulty;
mod load;

const BACKEND: dragstrip_engine::Backend = dragstrip_engine::Backend::Epoll;
