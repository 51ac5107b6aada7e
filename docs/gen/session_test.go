package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"stint/app"
	"stint/app/settings"
)

// serve runs the service like `make run` and returns the URL of its HTTP listener.
func serve(t *testing.T) (url string) {
	t.Helper()
	config := settings.Default()
	config.Rules = []string{"../../examples/rules/demo.yaml", "../../examples/rules/api.yaml"}
	config.Demo, config.Output = "demo", io.Discard
	config.HTTP, config.Admin, config.GRPC, config.RESP = "127.0.0.1:0", "", "", ""
	service, err := app.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { service.Stop(t.Context()) })
	return "http://" + service.Addr("http")
}

// TestSession sends the requests of the README and compares the output. A machine that takes more
// than a second for them would print a shorter wait, so the test may try again.
func TestSession(t *testing.T) {
	readme := pages(t)["../../README.md"]
	shown := ""
	for range 3 {
		if shown = session(t); strings.Contains(readme, "\n"+shown+"```\n") {
			return
		}
	}
	t.Errorf("the README does not show this session:\n%s", shown)
}

// session returns what three requests to a fresh service show.
func session(t *testing.T) string {
	url := serve(t)
	var shown strings.Builder
	for range 3 {
		resp, err := http.Get(url + "/demo")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		fmt.Fprintf(&shown, "%s %s\n", resp.Proto, resp.Status)
		for _, name := range []string{"RateLimit", "Retry-After"} { // as grep finds them
			if value := resp.Header.Get(name); value != "" {
				fmt.Fprintf(&shown, "%s: %s\n", name, value)
			}
		}
	}
	return shown.String()
}

// TestCheckAnswer asks the question of docs/http.md and compares the answer it shows.
func TestCheckAnswer(t *testing.T) {
	const question = `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "42"}], "cost": 1}]}`
	page := pages(t)["../http.md"]
	if !strings.Contains(page, question) {
		t.Fatal("docs/http.md asks another question now")
	}
	resp, err := http.Post(serve(t)+"/v1/check", "application/json", strings.NewReader(question))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	// The page breaks the line before the results.
	want := strings.Replace(string(answer), `,"results"`, ",\n \"results\"", 1)
	if !strings.Contains(page, want) {
		t.Errorf("docs/http.md does not show this answer:\n%s", want)
	}
}
