//! The same tests against an independent implementation: the `h2` crate, on one thread.

use super::plan;
use crate::faulty::{check, count, engine, errors};
use bytes::Bytes;
use dragstrip_engine::heads::{ExpectedHeads, ReferenceHead};
use dragstrip_engine::{Exchange, SessionPlan};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

struct Oracle {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
    body_bytes: Arc<AtomicU64>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Sends this body to each request, in frames that the client's windows and the crate determine.
fn serve(body: Vec<u8>, max_streams: u32) -> Oracle {
    serve_but(body, max_streams, u64::MAX)
}

/// The same; one response in `every` lacks its header `x-by`.
fn serve_but(body: Vec<u8>, max_streams: u32, every: u64) -> Oracle {
    let (requests, body_bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let (tell, told) = std::sync::mpsc::channel();
    let (counted, received, body) = (Arc::clone(&requests), Arc::clone(&body_bytes), Bytes::from(body));
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let local = tokio::task::LocalSet::new();
        let accepting = async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                socket.set_nodelay(true).unwrap();
                let (counted, received, body) = (Arc::clone(&counted), Arc::clone(&received), body.clone());
                tokio::task::spawn_local(async move {
                    let mut builder = h2::server::Builder::new();
                    builder.max_concurrent_streams(max_streams);
                    let Ok(mut connection) = builder.handshake::<_, Bytes>(socket).await else { return };
                    while let Some(Ok((request, mut respond))) = connection.accept().await {
                        let (counted, received, body) = (Arc::clone(&counted), Arc::clone(&received), body.clone());
                        tokio::task::spawn_local(async move {
                            let mut stream = request.into_body();
                            while let Some(Ok(piece)) = stream.data().await {
                                received.fetch_add(piece.len() as u64, Ordering::SeqCst);
                                let _ = stream.flow_control().release_capacity(piece.len());
                            }
                            let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
                            let head = http::Response::builder().header("x-date", format!("{:08}", number / 7));
                            let by = |head: http::response::Builder| head.header("x-by", "the h2 crate");
                            let head = if number.is_multiple_of(every) { head } else { by(head) };
                            let head = head.header("content-length", body.len()).body(()).unwrap();
                            if let Ok(mut stream) = respond.send_response(head, body.is_empty())
                                && !body.is_empty()
                            {
                                let _ = stream.send_data(body, true);
                            }
                        });
                    }
                });
            }
        };
        local.block_on(&runtime, async {
            tokio::select! { () = accepting => {}, _ = stopped => {} }
        });
    });
    let address = told.recv().unwrap();
    Oracle { address, requests, body_bytes, stop: Some(stop), thread: Some(thread) }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn counts_agree_with_the_h2_crates_over_one_ten_and_a_hundred_streams() {
    for (connections, streams) in [(4, 1), (3, 10), (2, 100)] {
        let server = serve(b"hello world".to_vec(), 200);
        let mut engine = engine(2);
        let session = engine.open(plan(server.address, connections, streams)).unwrap();
        let done = engine.run(&[count(session, 3000), count(session, 1000)], &[]).unwrap();
        for (one, requests) in done.iter().zip([3000, 1000]) {
            check(one);
            assert_eq!((one.answered, one.sent, errors(one)), (requests, requests, vec![]));
        }
        assert_eq!(server.requests.load(Ordering::SeqCst), 4000);
    }
}

#[test]
fn bodies_over_several_frames_are_compared_whole_and_sent_whole() {
    let body: Vec<u8> = (0..500_000).map(|at: u32| (at % 239) as u8).collect();
    let server = serve(body.clone(), 10);
    let head = format!("POST /x HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n", body.len());
    let exchange = |body: Vec<u8>| Exchange::new([head.as_bytes(), &body].concat(), 200, body);
    let mut wrong = exchange(body.clone());
    wrong.body[400_000] ^= 1;
    let mut engine = engine(1);
    let exchanges = vec![exchange(body), wrong];
    let session = engine.open(SessionPlan { exchanges, ..plan(server.address, 2, 20) }).unwrap();
    let done = engine.run(&[count(session, 60)], &[]).unwrap().pop().unwrap();
    check(&done);
    assert_eq!((done.answered, errors(&done)), (30, vec![("wrong_body", 30)]));
    assert_eq!(server.requests.load(Ordering::SeqCst), 60);
    assert_eq!(server.body_bytes.load(Ordering::SeqCst), 60 * 500_000);
}

#[test]
fn every_decoded_head_is_compared_with_reference_responses() {
    let field = |(name, value, exact): (&str, &str, bool)| (name.into(), value.into(), exact);
    let fields = [("x-by", "the h2 crate", true), ("x-date", "00000000", false), ("content-length", "11", false)];
    let expected = ExpectedHeads::new(vec![ReferenceHead::new(fields.map(field).into())]);
    for streams in [1, 10] {
        let server = serve_but(b"hello world".to_vec(), 200, 10);
        let mut engine = engine(1);
        let heads = vec![expected.clone()];
        let session = engine.open(SessionPlan { heads, ..plan(server.address, 3, streams) }).unwrap();
        let done = engine.run(&[count(session, 500)], &[]).unwrap().pop().unwrap();
        check(&done);
        assert_eq!((done.answered, errors(&done)), (450, vec![("wrong_head", 50)]));
        assert_eq!(done.sample, "x-by is missing, \"the h2 crate\" is expected");
    }
}
