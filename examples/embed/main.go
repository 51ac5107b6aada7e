// Command embed runs the whole service inside another program. `embed restart` runs it twice,
// with counts that outlive it.
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
	config.Rules = []string{"examples/rules/demo.yaml"}
	config.Demo = "demo"
	config.LogFormat = "json"

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if slices.Equal(os.Args[1:], []string{"restart"}) {
		if err := restart(ctx, os.Stdout); err != nil {
			log.Fatal(err)
		}
		return
	}
	err := run(ctx, config, func(url string) { fmt.Println("try curl -i", url+"/demo") })
	if err != nil {
		log.Print(err)
	}
}

// run serves until ctx is done, and says where once it does.
func run(ctx context.Context, config settings.Config, serving func(url string)) error {
	// New reads and checks everything that can be wrong; nothing runs so far.
	service, err := app.New(config)
	if err != nil {
		return err
	}
	// Start returns once calls are accepted. A program that only serves says
	// service.Run(ctx) in place of all that follows; Run also ends if a listener fails.
	if err := service.Start(ctx); err != nil {
		return err
	}
	serving("http://" + service.Addr("http"))
	<-ctx.Done()

	// Stop lets calls in flight finish; its context could cut that short.
	service.Stop(context.WithoutCancel(ctx))
	return nil
}
