//! What the raw loop sends, and when a response is complete: it counts as many bytes as a measured one had.

use dragstrip_engine::http2::{Connection, Event, Request};
use std::io::{Read, Write};
use std::net::TcpStream;

/// A protocol's bytes. Returned slices stay valid until the program ends; a connection's slice is sent before the next
/// one is requested.
pub trait Wire {
    /// The first bytes of a connection.
    fn first(&mut self, index: usize) -> &'static [u8];
    /// The bytes that follow after this many responses.
    fn next(&mut self, index: usize, answers: usize) -> &'static [u8];
    /// Number of complete responses in the bytes that a connection received; leaves the rest in `got`.
    fn answers(&self, got: &mut usize) -> usize;
}

/// One request at a time, always the same.
pub struct Http1 {
    request: &'static [u8],
    size: usize,
}

impl Http1 {
    pub fn new(stream: &mut TcpStream, request: String) -> Self {
        let mut first = vec![0; 65536];
        stream.write_all(request.as_bytes()).expect("raw: send");
        let size = stream.read(&mut first).expect("raw: the first response");
        Self { request: request.leak().as_bytes(), size }
    }
}

impl Wire for Http1 {
    fn first(&mut self, _: usize) -> &'static [u8] {
        self.request
    }

    fn next(&mut self, _: usize, _: usize) -> &'static [u8] {
        self.request
    }

    fn answers(&self, got: &mut usize) -> usize {
        if *got >= self.size {
            *got = 0;
            return 1;
        }
        0
    }
}

/// Several streams per connection, in frames in which only the stream's number changes.
pub struct Http2 {
    /// By connection: requests, more than twice as many as may be in flight, and where the next ones begin.
    made: Vec<&'static mut [u8]>,
    places: Vec<usize>,
    /// By connection: the next stream.
    ids: Vec<u32>,
    /// Length of a request, and the offset of its stream's number.
    length: usize,
    number: usize,
    size: usize,
    streams: usize,
}

impl Http2 {
    /// Opens every connection with two requests, and takes the second response's size: the first may be longer.
    pub fn new(connected: &mut [TcpStream], request: &str, streams: usize) -> Self {
        let request = Request::new(request.as_bytes(), "http").expect("raw: the request");
        let mut size = 0;
        for stream in connected.iter_mut() {
            let mut connection = Connection::new(1, 1000);
            let requests = [request.clone()];
            ask(stream, &mut connection, &requests);
            size = ask(stream, &mut connection, &requests);
        }
        let made = || request.head.repeat(3 * streams).leak();
        Self {
            made: connected.iter().map(|_| made()).collect(),
            places: vec![0; connected.len()],
            ids: vec![5; connected.len()],
            length: request.head.len(),
            number: request.numbers[0],
            size,
            streams,
        }
    }
}

/// Sends a request and reads its whole response; returns the response's length.
fn ask(stream: &mut TcpStream, connection: &mut Connection, requests: &[Request]) -> usize {
    connection.open(0, 0, requests);
    let (mut buffer, mut size) = (vec![0; 65536], 0);
    loop {
        stream.write_all(connection.out()).expect("raw: send");
        connection.wrote(connection.out().len());
        let got = stream.read(&mut buffer).expect("raw: the first responses");
        assert!(got > 0, "raw: the server closed a connection");
        let mut rest = &buffer[..got];
        size += got;
        while !rest.is_empty() {
            let (used, event) = connection.next(rest).expect("raw: HTTP/2");
            rest = &rest[used..];
            if let Event::Head { end: true, .. } | Event::Data { end: true, .. } = event {
                stream.write_all(connection.out()).expect("raw: send");
                connection.wrote(connection.out().len());
                return size;
            }
        }
    }
}

impl Wire for Http2 {
    fn first(&mut self, index: usize) -> &'static [u8] {
        self.next(index, self.streams)
    }

    fn next(&mut self, index: usize, answers: usize) -> &'static [u8] {
        let (made, id, place) = (&mut self.made[index], &mut self.ids[index], &mut self.places[index]);
        if *place + answers > 3 * self.streams {
            *place = 0;
        }
        let at = *place * self.length;
        *place += answers;
        let made = &mut made[at..at + answers * self.length];
        for request in made.chunks_exact_mut(self.length) {
            request[self.number..][..4].copy_from_slice(&id.to_be_bytes());
            *id += 2;
        }
        // SAFETY: leaked, so it stays valid. It is not written before its responses came: at most a third is in flight.
        unsafe { std::slice::from_raw_parts(made.as_ptr(), made.len()) }
    }

    fn answers(&self, got: &mut usize) -> usize {
        let whole = *got / self.size;
        *got %= self.size;
        whole
    }
}
