// The workloads that ask a database, by npm's pg with its own pool, as Deno's documentation has it. The package lies in
// Dragstrip's own folder: nothing is fetched when the server starts.
import { createRequire } from "node:module";

const ROWS = 10000;
const { Pool } = createRequire(`${Deno.env.get("NODE_PATH")}/`)("pg");

export function database(connections) {
  const pool = new Pool({ max: connections }); // the rest stands in PGHOST and its like

  async function row(id) {
    const { rows } = await pool.query({ name: "row", text: "SELECT id, n FROM rows WHERE id = $1", values: [id] });
    return rows[0];
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
