// server PORT MARK DATA HTTP CERTIFICATE KEY ADDRESS: every workload with the standard library alone. DATA is the folder of
// items.json and static/.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

type item struct {
	ID       int    `json:"id"`
	Name     string `json:"name"`
	Price    int    `json:"price"`
	Quantity int    `json:"quantity"`
}

type line struct {
	item
	Total int `json:"total"`
}

type document struct {
	Items []line `json:"items"`
	Count int    `json:"count"`
}

// readItems gives none where there is no such file: only the workload `json` provides it.
func readItems(file string) (items []item) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &items)
	}
	if err != nil {
		log.Fatal(err)
	}
	return items
}

func answer(w http.ResponseWriter, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}

// asJSON answers the first n items, each with its total.
func asJSON(items []item) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		n, errN := strconv.Atoi(query.Get("n"))
		m, errM := strconv.Atoi(query.Get("m"))
		if errN != nil || errM != nil || n < 0 || n > len(items) {
			http.Error(w, "n and m must be whole numbers, n at most that of the items", http.StatusBadRequest)
			return
		}
		lines := make([]line, n)
		for i, one := range items[:n] {
			lines[i] = line{one, one.Price * one.Quantity * m}
		}
		body, err := json.Marshal(document{lines, n})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer(w, "application/json", body)
	}
}

// sum adds two numbers of the query and one that is the body.
func sum(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	query := r.URL.Query()
	a, errA := strconv.ParseInt(query.Get("a"), 10, 64)
	b, errB := strconv.ParseInt(query.Get("b"), 10, 64)
	c, errC := strconv.ParseInt(string(body), 10, 64)
	if errA != nil || errB != nil || errC != nil {
		http.Error(w, "a, b and the body must be whole numbers", http.StatusBadRequest)
		return
	}
	answer(w, "text/plain", strconv.AppendInt(nil, a+b+c, 10))
}

// delay answers after as many milliseconds as the path says.
func delay(w http.ResponseWriter, r *http.Request) {
	ms, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/delay/"))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	time.Sleep(time.Duration(ms) * time.Millisecond)
	answer(w, "text/plain", []byte("ok"))
}

func main() {
	port, mark, data, address := os.Args[1], os.Args[2], os.Args[3], os.Args[7]
	hello := []byte("hello world\n")
	length := strconv.Itoa(len(hello))

	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", length)
		w.Write(hello)
	})
	http.HandleFunc("/multiply", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		a, errA := strconv.ParseInt(query.Get("a"), 10, 64)
		b, errB := strconv.ParseInt(query.Get("b"), 10, 64)
		if errA != nil || errB != nil {
			http.Error(w, "a and b must be whole numbers", http.StatusBadRequest)
			return
		}
		body := fmt.Sprintf("<html><body><p>Hello %s!</p><p>PATH=%s</p><p>RESULT: %d*%d=%d</p></body></html>\n",
			mark, r.URL.Path, a, b, a*b)
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.Write([]byte(body))
	})
	http.HandleFunc("/json", asJSON(readItems(filepath.Join(data, "items.json"))))
	http.HandleFunc("/sum", sum)
	http.HandleFunc("/delay/", delay)
	// Go itself knows no type for .bin and would guess one from the content.
	if err := mime.AddExtensionType(".bin", "application/octet-stream"); err != nil {
		log.Fatal(err)
	}
	http.Handle("/static/", http.StripPrefix("/static/", http.FileServer(http.Dir(filepath.Join(data, "static")))))
	log.Fatal(serve(address+":"+port, os.Args[4], os.Args[5], os.Args[6], nil))
}
