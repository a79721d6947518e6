//! Any back end, for sessions whose connections carry several requests at a time, each in a stream of its own (HTTP/2).

use super::{Coalescing, Event, Needs, Poller, Received};
use socket2::Socket;
use std::io;

/// The back end itself; all that is different is what the worker's loop makes of its events.
pub struct Multiplexed<P>(P);

impl<P: Poller<Socket = Socket>> Poller for Multiplexed<P> {
    type Socket = Socket;

    const BRINGS_BYTES: bool = P::BRINGS_BYTES;
    const SENDS_LATER: bool = true;
    const STAGES: bool = P::STAGES;
    const EXTRAS: bool = true;
    const MULTIPLEXES: bool = true;

    fn open(needs: &Needs) -> io::Result<Self> {
        P::open(needs).map(Self)
    }

    fn steady(&mut self, on: bool) {
        self.0.steady(on);
    }

    fn watch(&mut self, token: u64, socket: &Socket, connecting: bool) -> io::Result<()> {
        self.0.watch(token, socket, connecting)
    }

    fn established(&mut self, token: u64) {
        self.0.established(token);
    }

    fn handshake(&mut self, token: u64, socket: &Socket) -> io::Result<bool> {
        self.0.handshake(token, socket)
    }

    fn go_on(&mut self, token: u64, socket: &Socket) {
        self.0.go_on(token, socket);
    }

    fn turn_to(&mut self, token: u64) {
        self.0.turn_to(token);
    }

    fn send(&mut self, token: u64, socket: &Socket, number: usize, request: &[u8]) -> io::Result<usize> {
        self.0.send(token, socket, number, request)
    }

    #[inline]
    fn send_now(&mut self, token: u64, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        self.0.send_now(token, socket, bytes)
    }

    fn want_writable(&mut self, token: u64, socket: &Socket) -> io::Result<()> {
        self.0.want_writable(token, socket)
    }

    fn flush(&mut self) {
        self.0.flush();
    }

    fn departure(&mut self) -> Option<(u64, u64)> {
        self.0.departure()
    }

    #[inline]
    fn wait(&mut self, now_ns: u64, limit_ns: u64, coalescing: Option<Coalescing>) -> usize {
        self.0.wait(now_ns, limit_ns, coalescing)
    }

    #[inline]
    fn ahead(&self, index: usize) -> Option<u64> {
        self.0.ahead(index)
    }

    #[inline]
    fn event(&mut self, index: usize) -> Option<Event> {
        self.0.event(index)
    }

    #[inline]
    fn receive<'a>(&'a mut self, socket: &Socket, buffer: &'a mut [u8]) -> io::Result<Received<'a>> {
        self.0.receive(socket, buffer)
    }

    fn release(&mut self, token: u64, socket: Socket) {
        self.0.release(token, socket);
    }

    fn settle(&mut self) {
        self.0.settle();
    }
}
