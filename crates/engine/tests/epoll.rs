//! The tests for every back end, over epoll.

mod faulty;
mod http2;
mod load;
mod open;
mod truth;
mod websocket;

const BACKEND: dragstrip_engine::Backend = dragstrip_engine::Backend::Epoll;
