package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"stint/app"
	"stint/app/settings"
)

// restart shows that counts survive a restart: the service keeps them in a file, as `stint serve
// --state FILE` does, and reads them when it starts again.
func restart(ctx context.Context, out io.Writer) (err error) {
	folder, err := os.MkdirTemp("", "stint")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	for _, life := range []string{"first", "second"} {
		if err := live(ctx, out, life, filepath.Join(folder, "counts")); err != nil {
			return err
		}
	}
	return nil
}

// live runs the service once and sends two logins.
func live(ctx context.Context, out io.Writer, life, file string) error {
	config := settings.Default()
	config.State = file // read at the start; saved every 30 s and at the end
	config.Output = io.Discard
	config.HTTP, config.GRPC, config.Admin, config.RESP = "127.0.0.1:0", "", "", ""
	service, err := app.New(config)
	if err != nil {
		return err
	}
	if err := service.Start(ctx); err != nil {
		return err
	}
	defer service.Stop(ctx)
	for range 2 {
		allowed, err := login(ctx, service.Addr("http"))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s life: allowed %t\n", life, allowed)
	}
	return nil
}

// login checks whether one more login may pass. The limit, three an hour, is in the request.
func login(ctx context.Context, address string) (allowed bool, err error) {
	const question = `{"key": "login of ann", "limit": {"algorithm": "token_bucket", "requests": 3, "per": "1h"}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/check", strings.NewReader(question))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Close = true // the service stops soon
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	var verdict struct{ Allowed bool }
	err = json.NewDecoder(answer.Body).Decode(&verdict)
	return verdict.Allowed, err
}
