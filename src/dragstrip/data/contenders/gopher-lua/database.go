// The workloads that ask a database: Lua calls `row`, which is Go's. pgx with its own pool prepares each statement once
// per connection.
package main

import (
	"context"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	lua "github.com/yuin/gopher-lua"
)

func init() {
	connections := os.Getenv("DATABASE_CONNECTIONS")
	if connections == "" {
		return
	}
	config, err := pgxpool.ParseConfig("pool_max_conns=" + connections) // the rest stands in PGHOST and its like
	if err != nil {
		log.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	functions["row"] = func(one *lua.LState) int {
		var id, n int32
		err := pool.QueryRow(context.Background(), "SELECT id, n FROM rows WHERE id = $1", one.CheckInt(1)).Scan(&id, &n)
		if err != nil {
			one.RaiseError("%s", err.Error())
		}
		one.Push(lua.LNumber(id))
		one.Push(lua.LNumber(n))
		return 2
	}
}
