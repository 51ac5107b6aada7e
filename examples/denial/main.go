// Command denial shows refusals with their own texts: those of examples/rules/denial.yaml, in JSON
// for programs and in HTML for people.
package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"stint/httplimit"
	"stint/limiter"
	"stint/rule/rulefile"
	"stint/store/memory"
)

func main() {
	if err := run(os.Stdout, "rules/denial.yaml"); err != nil {
		fmt.Fprintln(os.Stderr, "denial:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, rules string) error {
	table, err := rulefile.Load(rules)
	if err != nil {
		return err
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	l := limiter.New(memory.New(memory.Options{}), table, limiter.Options{})
	handler := httplimit.New(l, "denial", httplimit.Options{})(hello)

	fmt.Fprintln(out, "a program, too fast and then too often:")
	for _, requests := range []int{3, 3} {
		show(out, handler, requests, "the key of a program")
		time.Sleep(time.Second)
	}
	fmt.Fprintln(out, "a person:")
	show(out, handler, 2, "")
	return nil
}

// show sends some requests and prints the last response.
func show(out io.Writer, handler http.Handler, requests int, key string) {
	var w *httptest.ResponseRecorder
	for range requests {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if key != "" {
			r.Header.Set("X-Api-Key", key)
		}
		w = httptest.NewRecorder()
		handler.ServeHTTP(w, r)
	}
	fmt.Fprintf(out, "%d %s\n", w.Code, w.Header().Get("Content-Type"))
	if link := w.Header().Get("Link"); link != "" {
		fmt.Fprintln(out, "Link:", link)
	}
	fmt.Fprint(out, w.Body)
}
