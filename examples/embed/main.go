// Command embed runs the whole service inside another program.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"stint/app"
)

func main() {
	config := app.DefaultConfig()
	config.Rules = []string{"examples/rules/demo.yaml"}
	config.Demo = "demo"
	config.LogFormat = "json"

	// New reads and checks everything that can be wrong; nothing runs so far.
	service, err := app.New(config)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	// Run serves until ctx is done, then lets calls in flight finish.
	if err := service.Run(ctx); err != nil {
		log.Print(err)
	}
}
