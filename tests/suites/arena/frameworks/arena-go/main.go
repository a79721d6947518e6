// An entry as HttpArena has them, made for the tests of Dragstrip.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

type rating struct {
	Score int `json:"score"`
	Count int `json:"count"`
}

type item struct {
	ID       int      `json:"id"`
	Name     string   `json:"name"`
	Category string   `json:"category"`
	Price    int      `json:"price"`
	Quantity int      `json:"quantity"`
	Active   bool     `json:"active"`
	Tags     []string `json:"tags"`
	Rating   rating   `json:"rating"`
	Total    int      `json:"total"`
}

var items []item

func number(text string) int {
	value, _ := strconv.Atoi(strings.TrimSpace(text))
	return value
}

func answer(w http.ResponseWriter, kind, body string) {
	w.Header().Set("Server", "Go")
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	io.WriteString(w, body)
}

func baseline(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	query := r.URL.Query()
	answer(w, "text/plain", strconv.Itoa(number(query.Get("a"))+number(query.Get("b"))+number(string(body))))
}

func table(w http.ResponseWriter, r *http.Request) {
	count := min(number(strings.TrimPrefix(r.URL.Path, "/json/")), len(items))
	factor := number(r.URL.Query().Get("m"))
	chosen := append([]item(nil), items[:count]...)
	for at := range chosen {
		chosen[at].Total = chosen[at].Price * chosen[at].Quantity * factor
	}
	body, _ := json.Marshal(map[string]any{"count": count, "items": chosen})
	answer(w, "application/json", string(body))
}

func upload(w http.ResponseWriter, r *http.Request) {
	size, _ := io.Copy(io.Discard, r.Body)
	answer(w, "text/plain", fmt.Sprint(size))
}

func static(w http.ResponseWriter, r *http.Request) {
	file := "/data/static/" + filepath.Base(r.URL.Path)
	content, err := os.ReadFile(file)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	kind := mime.TypeByExtension(filepath.Ext(file))
	if filepath.Ext(file) == ".js" {
		kind = "application/javascript"
	}
	if zipped, err := os.ReadFile(file + ".gz"); err == nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		content = zipped
	}
	answer(w, kind, string(content))
}

func main() {
	if file, err := os.ReadFile("/data/dataset.json"); err == nil {
		if err := json.Unmarshal(file, &items); err != nil {
			log.Fatal(err)
		}
	}
	http.HandleFunc("/baseline11", baseline)
	http.HandleFunc("/json/", table)
	http.HandleFunc("/upload", upload)
	http.HandleFunc("/static/", static)
	go func() { log.Fatal(http.ListenAndServeTLS(":8081", "/certs/server.crt", "/certs/server.key", nil)) }()
	log.Fatal(http.ListenAndServe(":8080", nil))
}
