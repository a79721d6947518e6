// The workloads that ask a database: pgx with its own pool, which prepares each statement once per connection.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"
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
	http.HandleFunc("/db", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.URL.Query().Get("id"))
		if err != nil {
			http.Error(w, "id must be a whole number", http.StatusBadRequest)
			return
		}
		found, err := read(r.Context(), pool, id)
		reply(w, found, err)
	})
	http.HandleFunc("/queries", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		id, errID := strconv.Atoi(query.Get("id"))
		n, errN := strconv.Atoi(query.Get("n"))
		if errID != nil || errN != nil || n < 0 || n > 20 {
			http.Error(w, "id and n must be whole numbers, n at most 20", http.StatusBadRequest)
			return
		}
		found := make([]row, n)
		var err error
		for i := 0; i < n && err == nil; i++ {
			found[i], err = read(r.Context(), pool, (id-1+i)%rowCount+1)
		}
		reply(w, found, err)
	})
}

func read(ctx context.Context, pool *pgxpool.Pool, id int) (found row, err error) {
	err = pool.QueryRow(ctx, "SELECT id, n FROM rows WHERE id = $1", id).Scan(&found.ID, &found.N)
	return found, err
}

func reply(w http.ResponseWriter, found any, err error) {
	var body []byte
	if err == nil {
		body, err = json.Marshal(found)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}
