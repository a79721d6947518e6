//go:build !go1.24

package main

import (
	"errors"
	"net/http"
)

// serve listens over HTTP/1.1.
func serve(address, version string, handler http.Handler) error {
	if version == "2" {
		return errors.New("HTTP/2 in the clear: net/http has it from Go 1.24 on, and this one is older")
	}
	return http.ListenAndServe(address, handler)
}
