//go:build !go1.24

package main

import (
	"crypto/tls"
	"errors"
	"net/http"
)

// serve listens in one version of HTTP: with a certificate over TLS, without one ("") in the clear.
func serve(address, version, certificate, key string, handler http.Handler) error {
	if version == "2" && certificate == "" {
		return errors.New("HTTP/2 in the clear: net/http has it from Go 1.24 on, and this one is older")
	}
	server := &http.Server{Addr: address, Handler: handler}
	if version != "2" {
		server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){} // as net/http says: no HTTP/2
	}
	if certificate == "" {
		return server.ListenAndServe()
	}
	return server.ListenAndServeTLS(certificate, key)
}
