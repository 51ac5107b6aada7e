package httpapi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stint/internal/testkit"
)

// serveInBubble runs do against a server of the traffic endpoints, in fake time.
func serveInBubble(t *testing.T, do func(t *testing.T, dial func() net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLimiter(t)
		server := NewServer(NewTraffic(l, TrafficOptions{}).Handler(), Limits{})
		listener := testkit.NewPipes()
		go func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		}()
		do(t, func() net.Conn { return listener.Dial(t) })
		server.Close()
		time.Sleep(time.Minute) // fake time: the server keeps a connection for a while if a client still sends
	})
}

// checkOverWire is a request without the empty line and the body.
const checkOverWire = "POST /v1/check HTTP/1.1\r\nHost: stint\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"

func TestOverWire(t *testing.T) {
	serveInBubble(t, func(t *testing.T, dial func() net.Conn) {
		conn := dial()
		defer conn.Close()
		in := bufio.NewReader(conn)
		body := fmt.Sprintf(short, "user", "42", 1)
		for i := range 6 { // all requests on one connection
			fmt.Fprintf(conn, checkOverWire+"\r\n%s", len(body), body)
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, _ := io.ReadAll(resp.Body)
			want := fmt.Sprintf(`{"allowed":%v,"rule":"api/user","limit":5,"remaining":%d,`, i < 5, max(4-i, 0))
			if resp.StatusCode != 200 || !strings.HasPrefix(string(answer), want) {
				t.Errorf("status %d, %s want %s...", resp.StatusCode, answer, want)
			}
			if got := resp.Header.Get("Content-Type"); got != "application/json" {
				t.Errorf("content type %q", got)
			}
			if resp.ContentLength != int64(len(answer)) {
				t.Errorf("content length %d of %d", resp.ContentLength, len(answer))
			}
		}
	})
}

// Bodies that cannot be read are refused before the endpoints see them.
func TestUnreadable(t *testing.T) {
	for _, test := range []struct {
		name, request string
		status        int
		want          string
	}{
		{
			"says it is too large", fmt.Sprintf(checkOverWire, MaxBody+1) + "\r\n", 413,
			`{"error":{"code":"body_too_large","message":"the body is larger than 1048576 bytes; send several requests","context":{}}}`,
		},
		{
			"too large in chunks",
			"POST /v1/check HTTP/1.1\r\nHost: stint\r\nTransfer-Encoding: chunked\r\n\r\n100001\r\n" + strings.Repeat(" ", MaxBody+1), 413,
			`{"error":{"code":"body_too_large","message":"the body is larger than 1048576 bytes; send several requests","context":{}}}`,
		},
		{
			"broken chunk", "POST /v1/check HTTP/1.1\r\nHost: stint\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400,
			`{"error":{"code":"bad_request","message":"the body could not be read; send as many bytes as Content-Length says, or whole chunks","context":{}}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			serveInBubble(t, func(t *testing.T, dial func() net.Conn) {
				conn := dial()
				defer conn.Close()
				go fmt.Fprint(conn, test.request)
				in := bufio.NewReader(conn)
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != test.status || string(body) != test.want+"\n" {
					t.Errorf("status %d, %s want %d, %s", resp.StatusCode, body, test.status, test.want)
				}
				if test.status == 413 && !resp.Close {
					t.Error("the connection stays open")
				}
			})
		})
	}
}

// A client that is slow at any point is disconnected after the timeout of Limits.
func TestSlowClients(t *testing.T) {
	body := fmt.Sprintf(short, "user", "42", 1)
	request := fmt.Sprintf(checkOverWire, len(body))
	for _, test := range []struct {
		name   string
		at     time.Duration // time of the disconnection
		answer string        // answer before it; "" for none
		client func(net.Conn)
	}{
		{"says nothing", 5 * time.Second, "", func(net.Conn) {}},
		{"drips its header", 5 * time.Second, "HTTP/1.1 400 ", func(c net.Conn) { drip(c, request+strings.Repeat("X-A: b\r\n", 100)) }},
		{"never ends its header", 5 * time.Second, "", func(c net.Conn) { fmt.Fprint(c, request) }},
		{"drips its body", 10 * time.Second, "HTTP/1.1 408 ", func(c net.Conn) {
			fmt.Fprint(c, request+"\r\n")
			drip(c, body)
		}},
		{"stays after its answer", 120 * time.Second, "HTTP/1.1 200 ", func(c net.Conn) { fmt.Fprint(c, request+"\r\n"+body) }},
		{"sends an endless header", 0, "HTTP/1.1 431 ", func(c net.Conn) {
			fmt.Fprint(c, request+"X-A: "+strings.Repeat("b", 1<<20))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			serveInBubble(t, func(t *testing.T, dial func() net.Conn) {
				conn, began := dial(), time.Now()
				defer conn.Close()
				go test.client(conn)
				told, err := io.ReadAll(conn)
				if err != nil {
					t.Fatal(err)
				}
				// Before closing, a server waits half a second for a client that still sends.
				if took := time.Since(began); took < test.at || took > test.at+time.Second {
					t.Errorf("cut off after %v, want %v", took, test.at)
				}
				if !strings.HasPrefix(string(told), test.answer) || test.answer == "" && len(told) > 0 {
					t.Errorf("was told %q, want %q", told, test.answer)
				}
			})
		})
	}
}

// drip sends text at one byte per second.
func drip(conn net.Conn, text string) {
	for i := range len(text) {
		time.Sleep(time.Second) // fake time
		if _, err := conn.Write([]byte{text[i]}); err != nil {
			return
		}
	}
}

// A client that does not read its answer is disconnected.
func TestClientThatDoesNotRead(t *testing.T) {
	serveInBubble(t, func(t *testing.T, dial func() net.Conn) {
		conn, began := dial(), time.Now()
		defer conn.Close()
		body := fmt.Sprintf(short, "user", "42", 1)
		fmt.Fprintf(conn, checkOverWire+"\r\n%s", len(body), body)
		time.Sleep(20 * time.Second) // fake time
		if _, err := io.WriteString(conn, "GET"); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("after %v the connection is open: %v", time.Since(began), err)
		}
	})
}

func TestCheckAdmin(t *testing.T) {
	for _, test := range []struct {
		addr, token string
		ok          bool
	}{
		{"127.0.0.1:8082", "", true},
		{"127.1.2.3:8082", "", true},
		{"[::1]:8082", "", true},
		{"[::ffff:127.0.0.1]:8082", "", true},
		{"localhost:8082", "", true},
		{"", "", true},
		{"unix:/run/stint/admin.sock", "", true},
		{"0.0.0.0:8082", "secret", true},
		{"0.0.0.0:8082", "", false},
		{":8082", "", false},
		{"[::]:8082", "", false},
		{"10.0.0.1:8082", "", false},
		{"localhost.example.com:8082", "", false},
		{"stint.internal:8082", "", false},
		{"8082", "", false},
	} {
		err := CheckAdmin(test.addr, test.token)
		if (err == nil) != test.ok {
			t.Errorf("%q with token %q: %v", test.addr, test.token, err)
		}
		var open *AdminError
		if errors.As(err, &open) && open.Hint() == "" {
			t.Errorf("%q: no hint", test.addr)
		}
	}
}

// Header names are case-insensitive.
func TestNetHeaders(t *testing.T) {
	long := strings.Repeat("x-long-", 20) + "name"
	h := http.Header{"lower": {"5"}}
	for i, name := range []string{"x-api-key", "ETag", "x-1-a", "a", long} {
		h.Set(name, fmt.Sprint(i))
	}
	for name, want := range map[string]string{
		"x-api-key": "[0]", "X-API-KEY": "[0]", "X-Api-Key": "[0]", "etag": "[1]", "X-1-A": "[2]", "A": "[3]", "a": "[3]",
		long: "[4]", strings.ToUpper(long): "[4]", "lower": "[5]", "other": "[]", "": "[]",
	} {
		if got := fmt.Sprint(netHeaders(h).Values(name)); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// /json is passed to its handler, and is 404 without one.
func TestJSONPath(t *testing.T) {
	l, _ := newLimiter(t)
	other := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	for want, options := range map[int]TrafficOptions{http.StatusTooManyRequests: {JSON: other}, http.StatusNotFound: {}} {
		traffic := NewTraffic(l, options).Handler()
		if status, answer, _ := call(t, traffic, "POST", JSONPath, "{}"); status != want {
			t.Errorf("status %d, %s, want %d", status, answer, want)
		}
		_, answer, _ := call(t, traffic, "POST", "/v2", "{}")
		if told := strings.Contains(answer, "POST "+JSONPath); told != (options.JSON != nil) {
			t.Errorf("elsewhere: %s", answer)
		}
	}
}
