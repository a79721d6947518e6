// The workloads that ask a database: pgx with its own pool, which prepares each statement once per connection.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valyala/fasthttp"
)

const rowCount = 10000

type row struct {
	ID int32 `json:"id"`
	N  int32 `json:"n"`
}

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
	routes["/db"] = func(ctx *fasthttp.RequestCtx) {
		id, err := ctx.QueryArgs().GetUint("id")
		if err != nil {
			ctx.Error("id must be a whole number", fasthttp.StatusBadRequest)
			return
		}
		found, err := read(pool, id)
		reply(ctx, found, err)
	}
	routes["/queries"] = func(ctx *fasthttp.RequestCtx) {
		id, errID := ctx.QueryArgs().GetUint("id")
		n, errN := ctx.QueryArgs().GetUint("n")
		if errID != nil || errN != nil || n > 20 {
			ctx.Error("id and n must be whole numbers, n at most 20", fasthttp.StatusBadRequest)
			return
		}
		found := make([]row, n)
		var err error
		for i := 0; i < n && err == nil; i++ {
			found[i], err = read(pool, (id-1+i)%rowCount+1)
		}
		reply(ctx, found, err)
	}
}

func read(pool *pgxpool.Pool, id int) (found row, err error) {
	// Not the request's own context: fasthttp's may be reused once its handler is over.
	err = pool.QueryRow(context.Background(), "SELECT id, n FROM rows WHERE id = $1", id).Scan(&found.ID, &found.N)
	return found, err
}

func reply(ctx *fasthttp.RequestCtx, found any, err error) {
	var body []byte
	if err == nil {
		body, err = json.Marshal(found)
	}
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(body)
}
