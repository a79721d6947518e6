// server PORT MARK FILE: both workloads, net/http around a function of Lua that gopher-lua runs, in pure Go.
package main

import (
	"log"
	"net/http"
	"os"
	"runtime"
	"strconv"

	lua "github.com/yuin/gopher-lua"
)

type state struct {
	lua    *lua.LState
	handle lua.LValue
}

type server struct {
	mark   lua.LString
	states chan state // as many as may run at once
}

func open(file string) state {
	one := lua.NewState()
	if err := one.DoFile(file); err != nil {
		log.Fatal(err)
	}
	handle := one.Get(-1)
	one.Pop(1)
	return state{one, handle}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one := <-s.states
	err := one.lua.CallByParam(lua.P{Fn: one.handle, NRet: 3, Protect: true},
		lua.LString(r.URL.Path), lua.LString(r.URL.RawQuery), s.mark)
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
	port, mark, file := os.Args[1], os.Args[2], os.Args[3]
	workers := runtime.GOMAXPROCS(0)
	s := &server{mark: lua.LString(mark), states: make(chan state, workers)}
	for i := 0; i < workers; i++ {
		s.states <- open(file)
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+port, s))
}
