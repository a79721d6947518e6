//! server PORT MARK: both workloads with axum, as its own examples do it.
use axum::extract::{Query, State};
use axum::http::{header::CONTENT_TYPE, Uri};
use axum::{response::IntoResponse, routing::get, serve::ListenerExt, Router};
use serde::Deserialize;

#[derive(Deserialize)]
struct Factors {
    a: u64,
    b: u64,
}

async fn hello() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain")], "hello world\n")
}

async fn multiply(
    State(mark): State<&'static str>,
    uri: Uri,
    Query(Factors { a, b }): Query<Factors>,
) -> impl IntoResponse {
    let (path, product) = (uri.path(), a.wrapping_mul(b));
    let body = format!(
        "<html><body><p>Hello {mark}!</p><p>PATH={path}</p><p>RESULT: {a}*{b}={product}</p></body></html>\n"
    );
    ([(CONTENT_TYPE, "text/html")], body)
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().and_then(|text| text.parse().ok()).expect("a port");
    let mark: &'static str = arguments.next().expect("a mark").leak();
    let app = Router::new().route("/", get(hello)).route("/multiply", get(multiply)).with_state(mark);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
    let listener = listener.tap_io(|connection| {
        let _ = connection.set_nodelay(true);
    });
    axum::serve(listener, app).await.expect("it serves");
}
