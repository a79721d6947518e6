//! server PORT MARK DATA CERTIFICATE KEY ADDRESS: every workload with axum, as its own examples do it; DATA is the folder
//! of items.json and static/. Without a certificate ("") it listens in the clear.
use std::{fs, net::SocketAddr, path::Path, time::Duration};

use axum::extract::{self, Query, State};
use axum::http::{header::CONTENT_TYPE, StatusCode, Uri};
use axum::response::{IntoResponse, Json};
use axum::routing::{get, post};
use axum::{serve::ListenerExt, Router};
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use serde::{Deserialize, Serialize};
use tower_http::services::ServeDir;

struct App {
    mark: String,
    items: Vec<Item>,
}

#[cfg(feature = "database")]
mod database;

#[derive(Deserialize)]
struct Factors {
    a: u64,
    b: u64,
}

#[derive(Deserialize)]
struct Item {
    id: u64,
    name: String,
    price: u64,
    quantity: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    id: u64,
    name: &'a str,
    price: u64,
    quantity: u64,
    total: u64,
}

#[derive(Serialize)]
struct Document<'a> {
    items: Vec<Line<'a>>,
    count: usize,
}

#[derive(Deserialize)]
struct Wanted {
    n: usize,
    m: u64,
}

async fn hello() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain")], "hello world\n")
}

async fn multiply(
    State(App { mark, .. }): State<&'static App>,
    uri: Uri,
    Query(Factors { a, b }): Query<Factors>,
) -> impl IntoResponse {
    let (path, product) = (uri.path(), a.wrapping_mul(b));
    let body = format!(
        "<html><body><p>Hello {mark}!</p><p>PATH={path}</p><p>RESULT: {a}*{b}={product}</p></body></html>\n"
    );
    ([(CONTENT_TYPE, "text/html")], body)
}

async fn json(State(app): State<&'static App>, Query(Wanted { n, m }): Query<Wanted>) -> impl IntoResponse {
    let items = app.items.get(..n).ok_or(StatusCode::BAD_REQUEST)?;
    let line = |item: &'static Item| {
        let &Item { id, ref name, price, quantity } = item;
        Line { id, name, price, quantity, total: price * quantity * m }
    };
    let items = items.iter().map(line).collect();
    Ok::<_, StatusCode>(Json(Document { items, count: n }))
}

async fn sum(Query(Factors { a, b }): Query<Factors>, body: String) -> impl IntoResponse {
    let c: u64 = body.parse().map_err(|_| StatusCode::BAD_REQUEST)?;
    Ok::<_, StatusCode>(([(CONTENT_TYPE, "text/plain")], (a + b + c).to_string()))
}

async fn delay(extract::Path(ms): extract::Path<u64>) -> impl IntoResponse {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    ([(CONTENT_TYPE, "text/plain")], "ok")
}

/// With HTTP/2 and HTTP/1.1, of which the client's greeting chooses.
async fn serve_encrypted(address: &str, port: u16, certificate: &str, key: &str, app: Router) {
    rustls::crypto::ring::default_provider().install_default().expect("there is no other");
    let config = RustlsConfig::from_pem_file(certificate, key).await.expect("certificate and key");
    let acceptor = RustlsAcceptor::new(config).acceptor(NoDelayAcceptor::new());
    let server = axum_server::bind(SocketAddr::new(address.parse().expect("an IP address"), port)).acceptor(acceptor);
    server.serve(app.into_make_service()).await.expect("it serves");
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().and_then(|text| text.parse().ok()).expect("a port");
    let mark = arguments.next().expect("a mark");
    let data = arguments.next().expect("a folder");
    // Only the workload `json` provides the file.
    let items = fs::read(Path::new(&data).join("items.json")).unwrap_or_else(|_| b"[]".to_vec());
    let items = serde_json::from_slice(&items).expect("the items are JSON");
    let app: &'static App = Box::leak(Box::new(App { mark, items }));
    let app = Router::new()
        .route("/", get(hello))
        .route("/multiply", get(multiply))
        .route("/json", get(json))
        .route("/sum", post(sum))
        .route("/delay/{ms}", get(delay))
        .nest_service("/static", ServeDir::new(Path::new(&data).join("static")))
        .with_state(app);
    #[cfg(feature = "database")]
    let app = match database::routes() {
        Some(more) => app.merge(more),
        None => app,
    };
    let (certificate, key) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let address = arguments.next().expect("an address");
    if !certificate.is_empty() {
        return serve_encrypted(&address, port, &certificate, &key, app).await;
    }
    let listener = tokio::net::TcpListener::bind((address.as_str(), port)).await.expect("the port is free");
    let listener = listener.tap_io(|connection| {
        let _ = connection.set_nodelay(true);
    });
    axum::serve(listener, app).await.expect("it serves");
}
