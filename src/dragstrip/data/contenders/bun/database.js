// The workloads that ask a database, by Bun's own SQL client: it prepares a statement once per connection.
const ROWS = 10000;

export function database(connections) {
  const { PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE } = process.env;
  const sql = new Bun.SQL({
    hostname: PGHOST, port: Number(PGPORT), username: PGUSER, password: PGPASSWORD, database: PGDATABASE, tls: false,
    max: connections,
  });

  async function row(id) {
    const [found] = await sql`SELECT id, n FROM rows WHERE id = ${id}`;
    return found;
  }

  return {
    "/db": ({ id }) => row(id),
    "/queries": async ({ id, n }) => {
      const found = [];
      for (let i = 0; i < n; i += 1) found.push(await row(((id - 1 + i) % ROWS) + 1));
      return found;
    },
  };
}
