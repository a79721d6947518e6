use actix_web::{get, web, App, HttpResponse, HttpServer, Responder};
#[get("/users/{id}")]
async fn user(id: web::Path<u64>) -> impl Responder {
    HttpResponse::Ok().json(serde_json::json!({"id": *id, "name": "Ada"}))
}
#[actix_web::main]
async fn main() -> std::io::Result<()> {
    let port: u16 = std::env::var("PORT").unwrap_or("8080".into()).parse().unwrap();
    HttpServer::new(|| App::new().service(user)).bind(("0.0.0.0", port))?.run().await
}
