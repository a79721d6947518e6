// server PORT MARK DATA ADDRESS: every workload with valyala/fasthttp; DATA is the folder of items.json and static/.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"mime"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// routes beside those of main: `database.go` adds its own where a workload asks a database.
var routes = map[string]fasthttp.RequestHandler{}

type item struct {
	ID       int    `json:"id"`
	Name     string `json:"name"`
	Price    int    `json:"price"`
	Quantity int    `json:"quantity"`
}

type line struct {
	item
	Total int `json:"total"`
}

type document struct {
	Items []line `json:"items"`
	Count int    `json:"count"`
}

// readItems gives none where there is no such file: only the workload `json` provides it.
func readItems(file string) (items []item) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &items)
	}
	if err != nil {
		log.Fatal(err)
	}
	return items
}

// asJSON answers the first n items, each with its total.
func asJSON(ctx *fasthttp.RequestCtx, items []item) {
	query := ctx.QueryArgs()
	n, errN := query.GetUint("n")
	m, errM := query.GetUint("m")
	if errN != nil || errM != nil || n > len(items) {
		ctx.Error("n and m must be whole numbers, n at most that of the items", fasthttp.StatusBadRequest)
		return
	}
	lines := make([]line, n)
	for i, one := range items[:n] {
		lines[i] = line{one, one.Price * one.Quantity * m}
	}
	body, err := json.Marshal(document{lines, n})
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(body)
}

// sum adds two numbers of the query and one that is the body.
func sum(ctx *fasthttp.RequestCtx) {
	query := ctx.QueryArgs()
	a, errA := strconv.ParseInt(string(query.Peek("a")), 10, 64)
	b, errB := strconv.ParseInt(string(query.Peek("b")), 10, 64)
	c, errC := strconv.ParseInt(string(ctx.PostBody()), 10, 64)
	if errA != nil || errB != nil || errC != nil {
		ctx.Error("a, b and the body must be whole numbers", fasthttp.StatusBadRequest)
		return
	}
	ctx.SetContentType("text/plain")
	ctx.SetBody(strconv.AppendInt(nil, a+b+c, 10))
}

// delay answers after as many milliseconds as the path says.
func delay(ctx *fasthttp.RequestCtx, text string) {
	ms, err := strconv.Atoi(text)
	if err != nil {
		ctx.Error("not found", fasthttp.StatusNotFound)
		return
	}
	time.Sleep(time.Duration(ms) * time.Millisecond)
	ctx.SetContentType("text/plain")
	ctx.SetBodyString("ok")
}

func main() {
	port, mark, data, address := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
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
	items := readItems(filepath.Join(data, "items.json"))
	// Go itself knows no type for .bin and would guess one from the content.
	if err := mime.AddExtensionType(".bin", "application/octet-stream"); err != nil {
		log.Fatal(err)
	}
	files := fasthttp.FSHandler(filepath.Join(data, "static"), 1)
	others := func(ctx *fasthttp.RequestCtx, path string) {
		if route, ok := routes[path]; ok {
			route(ctx)
		} else if name, ok := strings.CutPrefix(path, "/delay/"); ok {
			delay(ctx, name)
		} else if strings.HasPrefix(path, "/static/") {
			files(ctx)
		} else {
			ctx.Error("not found", fasthttp.StatusNotFound)
		}
	}
	server := &fasthttp.Server{
		IdleTimeout: 75 * time.Second,
		Handler: func(ctx *fasthttp.RequestCtx) {
			switch path := string(ctx.Path()); path {
			case "/":
				ctx.SetContentType("text/plain")
				ctx.SetBody(hello)
			case "/multiply":
				multiply(ctx)
			case "/json":
				asJSON(ctx, items)
			case "/sum":
				sum(ctx)
			default:
				others(ctx, path)
			}
		},
	}
	log.Fatal(server.ListenAndServe(address + ":" + port))
}
