// A server for tests/soak/why.py: `server PORT` serves, `server time LOOPS` measures planted().
package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"syscall"
)

var kept int

//go:noinline
func planted(loops int) {
	sum := kept
	for i := 0; i < loops; i++ {
		sum = sum*31 ^ i
	}
	kept = sum
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Sec+usage.Stime.Sec) + float64(usage.Utime.Usec+usage.Stime.Usec)/1e6
}

func main() {
	if len(os.Args) == 3 {
		loops, _ := strconv.Atoi(os.Args[2])
		calls, begun := 20000000/(loops+20), cpuSeconds()
		for call := 0; call < calls; call++ {
			planted(loops)
		}
		fmt.Printf("%.6f\n", 1e6*(cpuSeconds()-begun)/float64(calls))
		return
	}
	http.HandleFunc("/users/1", func(w http.ResponseWriter, r *http.Request) {
		planted(LOOPS)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":1}`)
	})
	http.ListenAndServe("127.0.0.1:"+os.Args[1], nil)
}
