// server PORT MARK: both workloads with valyala/fasthttp.
package main

import (
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

func main() {
	port, mark := os.Args[1], os.Args[2]
	hello := []byte("hello world\n")

	multiply := func(ctx *fasthttp.RequestCtx) {
		query := ctx.QueryArgs()
		a, errA := strconv.ParseInt(string(query.Peek("a")), 10, 64)
		b, errB := strconv.ParseInt(string(query.Peek("b")), 10, 64)
		if errA != nil || errB != nil {
			ctx.Error("a and b must be whole numbers", fasthttp.StatusBadRequest)
			return
		}
		ctx.SetContentType("text/html")
		fmt.Fprintf(ctx, "<html><body><p>Hello %s!</p><p>PATH=%s</p><p>RESULT: %d*%d=%d</p></body></html>\n",
			mark, ctx.Path(), a, b, a*b)
	}
	server := &fasthttp.Server{
		IdleTimeout: 75 * time.Second,
		Handler: func(ctx *fasthttp.RequestCtx) {
			switch string(ctx.Path()) {
			case "/":
				ctx.SetContentType("text/plain")
				ctx.SetBody(hello)
			case "/multiply":
				multiply(ctx)
			default:
				ctx.Error("not found", fasthttp.StatusNotFound)
			}
		},
	}
	log.Fatal(server.ListenAndServe("127.0.0.1:" + port))
}
