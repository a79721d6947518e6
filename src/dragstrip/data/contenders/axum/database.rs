//! The workloads that ask a database: tokio-postgres with deadpool's pool, which prepares a statement once per
//! connection.
use axum::extract::{Query, State};
use axum::{http::StatusCode, routing::get, Json, Router};
use deadpool_postgres::{Config, ManagerConfig, Object, Pool, PoolConfig, PoolError, RecyclingMethod, Runtime};
use serde::{Deserialize, Serialize};
use tokio_postgres::NoTls;

const ROWS: i32 = 10_000;

#[derive(Deserialize)]
struct Wanted {
    id: i32,
    #[serde(default)]
    n: usize,
}

#[derive(Serialize)]
struct Row {
    id: i32,
    n: i32,
}

type Answer<T> = Result<Json<T>, (StatusCode, String)>;

/// Their routes, where the environment names a database.
pub fn routes() -> Option<Router> {
    let connections = std::env::var("DATABASE_CONNECTIONS").ok()?.parse().expect("a number of connections");
    let given = |name| std::env::var(name).ok();
    let mut config = Config::new();
    (config.host, config.user, config.dbname) = (given("PGHOST"), given("PGUSER"), given("PGDATABASE"));
    config.password = given("PGPASSWORD");
    config.port = given("PGPORT").and_then(|text| text.parse().ok());
    config.pool = Some(PoolConfig::new(connections));
    config.manager = Some(ManagerConfig { recycling_method: RecyclingMethod::Fast });
    let pool = config.create_pool(Some(Runtime::Tokio1), NoTls).expect("a pool");
    Some(Router::new().route("/db", get(db)).route("/queries", get(queries)).with_state(pool))
}

async fn db(State(pool): State<Pool>, Query(Wanted { id, .. }): Query<Wanted>) -> Answer<Row> {
    let client = pool.get().await.map_err(failed)?;
    Ok(Json(row(&client, id).await.map_err(failed)?))
}

async fn queries(State(pool): State<Pool>, Query(Wanted { id, n }): Query<Wanted>) -> Answer<Vec<Row>> {
    let client = pool.get().await.map_err(failed)?;
    let mut found = Vec::with_capacity(n.min(20));
    for i in 0..n.min(20) as i32 {
        found.push(row(&client, (id - 1 + i) % ROWS + 1).await.map_err(failed)?);
    }
    Ok(Json(found))
}

async fn row(client: &Object, id: i32) -> Result<Row, PoolError> {
    let statement = client.prepare_cached("SELECT id, n FROM rows WHERE id = $1").await?;
    let found = client.query_one(&statement, &[&id]).await?;
    Ok(Row { id: found.get(0), n: found.get(1) })
}

fn failed(error: PoolError) -> (StatusCode, String) {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}
