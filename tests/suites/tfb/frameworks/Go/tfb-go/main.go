// A framework as TechEmpower's suite has them, made for the tests of Dragstrip.
package main

import (
	"encoding/json"
	"log"
	"net/http"
)

func answer(w http.ResponseWriter, kind string, body []byte) {
	w.Header().Set("Server", "Go")
	w.Header().Set("Content-Type", kind)
	w.Write(body)
}

func main() {
	http.HandleFunc("/plaintext", func(w http.ResponseWriter, r *http.Request) {
		answer(w, "text/plain", []byte("Hello, World!"))
	})
	http.HandleFunc("/json", func(w http.ResponseWriter, r *http.Request) {
		body, _ := json.Marshal(map[string]string{"message": "Hello, World!"})
		answer(w, "application/json", body)
	})
	log.Fatal(http.ListenAndServe(":8080", nil))
}
