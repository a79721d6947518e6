"use strict";
// The workloads that ask a database: pg with its own pool; a statement with a name is prepared once per connection.
// By its path: folders above the scratch folder are searched before NODE_PATH, and others may write into /tmp.
const { Pool } = require(`${process.env.NODE_PATH}/pg`);

const ROWS = 10000;

module.exports = function database(connections) {
  const pool = new Pool({ max: connections }); // the rest stands in PGHOST and its like

  async function row(id) {
    const { rows } = await pool.query({ name: "row", text: "SELECT id, n FROM rows WHERE id = $1", values: [id] });
    return rows[0];
  }

  return {
    "/db": ([id]) => row(id),
    "/queries": async ([id, n]) => {
      const found = [];
      for (let i = 0; i < n; i += 1) found.push(await row(((id - 1 + i) % ROWS) + 1));
      return found;
    },
  };
};
