//go:build go1.24

package main

import "net/http"

// serve listens over HTTP/1.1, or over HTTP/2 in the clear: by prior knowledge, and nothing else.
func serve(address, version string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: handler, Protocols: new(http.Protocols)}
	if version == "2" {
		server.Protocols.SetUnencryptedHTTP2(true)
	} else {
		server.Protocols.SetHTTP1(true)
	}
	return server.ListenAndServe()
}
