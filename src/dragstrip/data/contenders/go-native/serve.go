//go:build go1.24

package main

import "net/http"

// serve listens in one version of HTTP, and in no other: with a certificate over TLS, without one ("") in the clear.
func serve(address, version, certificate, key string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: handler, Protocols: new(http.Protocols)}
	switch {
	case version != "2":
		server.Protocols.SetHTTP1(true)
	case certificate == "":
		server.Protocols.SetUnencryptedHTTP2(true)
	default:
		server.Protocols.SetHTTP2(true)
	}
	if certificate == "" {
		return server.ListenAndServe()
	}
	return server.ListenAndServeTLS(certificate, key)
}
