// server PORT MARK FILE HTTP CERTIFICATE KEY ADDRESS: every workload, net/http around a function of Lua that gopher-lua runs, in pure Go.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"

	lua "github.com/yuin/gopher-lua"
	luajson "layeh.com/gopher-json"
)

type state struct {
	lua    *lua.LState
	handle lua.LValue
}

type server struct {
	mark   lua.LString
	states chan state // as many as may run at once
}

// functions of Go that Lua may call: `database.go` adds its own where a workload asks a database.
var functions = map[string]lua.LGFunction{"sleep": sleep}

// sleep is Lua's: it blocks the state that calls it for so many milliseconds.
func sleep(one *lua.LState) int {
	time.Sleep(time.Duration(one.CheckInt(1)) * time.Millisecond)
	return 0
}

func open(file string) state {
	one := lua.NewState()
	luajson.Preload(one)
	for name, function := range functions {
		one.SetGlobal(name, one.NewFunction(function))
	}
	if err := one.DoFile(file); err != nil {
		log.Fatal(err)
	}
	handle := one.Get(-1)
	one.Pop(1)
	return state{one, handle}
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
	one := <-s.states
	err := one.lua.CallByParam(lua.P{Fn: one.handle, NRet: 3, Protect: true},
		lua.LString(r.URL.Path), lua.LString(r.URL.RawQuery), s.mark, lua.LString(given))
	if err != nil {
		s.states <- one
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	status, kind, body := one.lua.ToInt(-3), one.lua.ToString(-2), one.lua.ToString(-1)
	one.lua.Pop(3)
	s.states <- one
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write([]byte(body))
}

func main() {
	port, mark, file, address := os.Args[1], os.Args[2], os.Args[3], os.Args[7]
	workers := runtime.GOMAXPROCS(0)
	s := &server{mark: lua.LString(mark), states: make(chan state, workers)}
	for i := 0; i < workers; i++ {
		s.states <- open(file)
	}
	log.Fatal(serve(address+":"+port, os.Args[4], os.Args[5], os.Args[6], s))
}
