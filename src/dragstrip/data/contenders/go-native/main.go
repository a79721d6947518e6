// server PORT MARK: both workloads with the standard library's net/http.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
)

func main() {
	port, mark := os.Args[1], os.Args[2]
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
	log.Fatal(http.ListenAndServe("127.0.0.1:"+port, nil))
}
