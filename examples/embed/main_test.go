package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"

	"go.uber.org/goleak"

	"stint/app/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example_restart() {
	if err := restart(context.Background(), os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// first life: allowed true
	// first life: allowed true
	// second life: allowed true
	// second life: allowed false
}

func Example() {
	config := settings.Default()
	config.Rules = []string{"../rules/demo.yaml"}
	config.Demo = "demo"
	config.Output = io.Discard
	config.HTTP, config.GRPC, config.Admin, config.RESP = "127.0.0.1:0", "", "", ""

	ctx, stop := context.WithCancel(context.Background())
	err := run(ctx, config, func(url string) {
		defer stop()
		client := &http.Client{}
		defer client.CloseIdleConnections()
		for range 3 {
			answer, err := client.Get(url + "/demo")
			if err != nil {
				fmt.Println(err)
				return
			}
			answer.Body.Close()
			fmt.Println(answer.Status)
		}
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 200 OK
	// 200 OK
	// 429 Too Many Requests
}
