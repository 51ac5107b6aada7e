// Package app builds the service and runs it: New, Start, Reload, Stop, Run.
//
// The daemon is a library. Command stint only parses flags and signals; a program that runs the
// service itself does the same:
//
//	config := settings.Default()
//	config.Rules = []string{"rules.yaml"}
//	service, err := app.New(config)
//	if err != nil {
//		return err
//	}
//	return service.Run(ctx)
//
// Nothing in it is global: several services may run in one process.
package app
