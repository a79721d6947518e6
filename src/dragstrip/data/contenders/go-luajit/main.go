// server PORT MARK MODE FILE HTTP CERTIFICATE KEY ADDRESS: every workload, net/http around a Lua chunk.
//
// MODE is when the chunk is loaded: "cached" once per Lua state, "file" from its file at each request, "string"
// from memory into a new state at each request (what a write-up of 2015 published as cached).
package main

/*
#cgo pkg-config: luajit
#include "host.h"
*/
import "C"

import (
	"io"
	"log"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"unsafe"
)

type state struct {
	lua *C.lua_State
	ref C.int
}

type server struct {
	mark, mode string
	path, text *C.char
	textLen    C.size_t
	states     chan state // as many as may run at once
}

func (s *server) take() state {
	if s.mode == "string" {
		return state{lua: C.open_state()}
	}
	return <-s.states
}

func (s *server) giveBack(one state) {
	if s.mode == "string" {
		C.lua_close(one.lua)
		return
	}
	C.finish(one.lua)
	s.states <- one
}

// push puts the chunk on the state's stack, as the mode says.
func (s *server) push(one state) bool {
	switch s.mode {
	case "file":
		return C.push_file(one.lua, s.path) == 0
	case "string":
		return C.push_text(one.lua, s.text, s.textLen) == 0
	}
	return C.push_kept(one.lua, one.ref) == 0
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var given []byte
	if r.Method == http.MethodPost {
		var err error
		if given, err = io.ReadAll(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	one := s.take()
	defer s.giveBack(one)
	if !s.push(one) {
		http.Error(w, C.GoString(C.reason(one.lua)), http.StatusInternalServerError)
		return
	}
	answer := C.call(one.lua, r.URL.Path, r.URL.RawQuery, s.mark, string(given))
	body := C.GoBytes(unsafe.Pointer(answer.body), C.int(answer.body_len))
	if answer.status == 0 {
		http.Error(w, string(body), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", C.GoStringN(answer.kind, C.int(answer.kind_len)))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(int(answer.status))
	w.Write(body)
}

func main() {
	port, mark, mode, file, address := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[8]
	if mode != "cached" && mode != "file" && mode != "string" {
		log.Fatalf("mode=%s: cached, file or string would do", mode)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	workers := runtime.GOMAXPROCS(0)
	s := &server{
		mark: mark, mode: mode, path: C.CString(file), text: C.CString(string(text)),
		textLen: C.size_t(len(text)), states: make(chan state, workers),
	}
	for i := 0; i < workers; i++ {
		one := state{lua: C.open_state()}
		if one.ref = C.keep_file(one.lua, s.path); one.ref == C.LUA_NOREF {
			log.Fatal(C.GoString(C.reason(one.lua)))
		}
		s.states <- one
	}
	log.Fatal(serve(address+":"+port, os.Args[5], os.Args[6], os.Args[7], s))
}
