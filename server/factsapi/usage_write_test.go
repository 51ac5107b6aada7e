package factsapi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stint/internal/testkit"
)

// getOver asks for a path on a connection of its own.
func getOver(t *testing.T, p *testkit.Pipes, path string) net.Conn {
	conn := p.Dial(t)
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)
	return conn
}

// Clients that read nothing, or too slowly, are disconnected, and the log says so: others have their turn. One
// that reads fast enough has the whole answer.
func TestClientsThatDoNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		for i := range 700 {
			s.take(1, "user", fmt.Sprint(i))
		}
		var log bytes.Buffer
		s.options.Log = slog.New(slog.NewTextHandler(&log, nil))
		server, listener := &http.Server{Handler: NewUsage(s.options), WriteTimeout: 15 * time.Second}, testkit.NewPipes()
		go func() { _ = server.Serve(listener) }()
		defer server.Close()

		for _, path := range []string{UsagePath, UsagePath + "?format=csv"} {
			log.Reset()
			idle, slow := getOver(t, listener, path), getOver(t, listener, path)
			synctest.Wait()
			began := time.Now()
			third := getOver(t, listener, path)
			go func() {
				for buffer := make([]byte, 4<<10); ; time.Sleep(time.Second) { // fake time, in which it reads too slowly
					if _, err := io.ReadFull(slow, buffer); err != nil {
						return
					}
				}
			}()
			steady := bufio.NewReader(third)
			answer, err := http.ReadResponse(steady, nil)
			if err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("%+v, %v", answer, err)
			}
			if waited := time.Since(began); waited < partTime || waited > 2*partTime {
				t.Errorf("waited %v for a turn", waited)
			}
			var whole bytes.Buffer
			for err == nil {
				_, err = io.CopyN(&whole, answer.Body, readPart/2)
				time.Sleep(partTime / 4) // fake time, in which it reads fast enough
			}
			if rows := strings.Count(whole.String(), "user="); rows != 700 || !errors.Is(err, io.EOF) {
				t.Errorf("%d rows, %v", rows, err)
			}
			for _, conn := range []net.Conn{idle, slow} {
				if _, err := io.Copy(io.Discard, conn); err != nil {
					t.Error(err)
				}
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
			}
			third.Close()
			synctest.Wait()
			if got := strings.Count(log.String(), "usage not sent: the client does not read it"); got != 2 {
				t.Errorf("the log has %d lines about clients: %s", got, log.String())
			}
		}
	})
}
