use axum::{extract::Path, routing::get, Json, Router};
#[tokio::main]
async fn main() {
    let user = |Path(id): Path<u64>| async move { Json(serde_json::json!({"id": id, "name": "Ada"})) };
    let app = Router::new().route("/users/{id}", get(user));
    let port = std::env::var("PORT").unwrap_or("3000".into());
    let listener = tokio::net::TcpListener::bind(format!("0.0.0.0:{port}")).await.unwrap();
    axum::serve(listener, app).await.unwrap();
}
