// Command embed runs the whole service inside another program. `embed restart` runs it twice, and
// its counts survive the restart.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"stint/app"
	"stint/app/settings"
)

func main() {
	config := settings.Default()
	config.Rules = []string{"rules/demo.yaml"}
	config.Demo = "demo"
	config.LogFormat = "json"

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	show := func() error {
		return run(ctx, config, func(url string) { fmt.Println("try curl -i", url+"/demo") })
	}
	if slices.Equal(os.Args[1:], []string{"restart"}) {
		show = func() error { return restart(ctx, os.Stdout) }
	}
	if err := show(); err != nil {
		log.Print(err)
	}
}

// run runs the service until ctx is done, and calls serving with its URL once it is ready.
func run(ctx context.Context, config settings.Config, serving func(url string)) error {
	// New reads and checks the configuration and starts nothing.
	service, err := app.New(config)
	if err != nil {
		return err
	}
	// Start returns once the service accepts calls. A program that does nothing else can call
	// service.Run(ctx) instead of the rest; Run also ends if a listener fails.
	if err := service.Start(ctx); err != nil {
		return err
	}
	serving("http://" + service.Addr("http"))
	<-ctx.Done()

	// Stop finishes calls in progress, unless its context ends before.
	service.Stop(context.WithoutCancel(ctx))
	return nil
}
