package programs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"stint/internal/testkit"
)

// Browser is a running Chromium, which a test drives by the DevTools protocol.
type Browser struct {
	t   testing.TB
	out io.Writer

	mu      sync.Mutex // guards the fields below, and writes to out
	last    int
	waiting map[int]chan reply
	tabs    map[string]*Tab // by session
	ended   bool
}

// Tab is a page in a Browser, with cookies of its own.
type Tab struct {
	browser *Browser
	session string

	mu      sync.Mutex
	console []string
}

// reply is an answer or an event of the browser.
type reply struct {
	ID      int             `json:"id"`
	Session string          `json:"sessionId"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// StartBrowser starts Chromium, which ends with the test. more are further flags.
func StartBrowser(t testing.TB, more ...string) *Browser {
	t.Helper()
	toChild, in, err := os.Pipe()
	testkit.Must(t, err)
	fromChild, out, err := os.Pipe()
	testkit.Must(t, err)
	cmd := exec.Command(chromiumPath(t), append(append(chromiumFlags(t), more...), "--remote-debugging-pipe", "about:blank")...)
	cmd.ExtraFiles = []*os.File{toChild, out} // descriptors 3 and 4
	testkit.OwnGroup(cmd)
	testkit.Must(t, cmd.Start())
	_, _ = toChild.Close(), out.Close()
	b := &Browser{t: t, out: in, waiting: map[int]chan reply{}, tabs: map[string]*Tab{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(fromChild)
	}()
	t.Cleanup(func() {
		_ = testkit.KillGroup(cmd.Process)
		_ = cmd.Wait()
		_, _ = in.Close(), fromChild.Close()
		<-read
	})
	return b
}

// read passes on what the browser sends: messages that end with a zero byte.
func (b *Browser) read(from io.Reader) {
	messages := bufio.NewScanner(from)
	messages.Buffer(nil, 64<<20)
	messages.Split(func(data []byte, _ bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, 0); i >= 0 {
			return i + 1, data[:i], nil
		}
		return 0, nil, nil
	})
	for messages.Scan() {
		var r reply
		if json.Unmarshal(messages.Bytes(), &r) != nil {
			continue
		}
		b.mu.Lock()
		answer, tab := b.waiting[r.ID], b.tabs[r.Session]
		delete(b.waiting, r.ID)
		b.mu.Unlock()
		switch {
		case answer != nil:
			answer <- r
		case tab != nil:
			tab.note(r)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	for _, answer := range b.waiting {
		close(answer)
	}
	clear(b.waiting)
}

// call sends a command and decodes its result.
func (b *Browser) call(session, method string, params, result any) error {
	answer := make(chan reply, 1)
	b.mu.Lock()
	if b.ended {
		b.mu.Unlock()
		return errors.New("the browser has ended")
	}
	b.last++
	b.waiting[b.last] = answer
	command, err := json.Marshal(map[string]any{"id": b.last, "method": method, "params": params, "sessionId": session})
	if session == "" {
		command, err = json.Marshal(map[string]any{"id": b.last, "method": method, "params": params})
	}
	if err == nil {
		_, err = b.out.Write(append(command, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case r, ok := <-answer:
		switch {
		case !ok:
			return errors.New("the browser has ended")
		case r.Error != nil:
			return fmt.Errorf("%s: %s", method, r.Error.Message)
		case result != nil:
			return json.Unmarshal(r.Result, result)
		}
		return nil
	case <-time.After(2 * patience):
		return fmt.Errorf("%s: no answer in %s", method, 2*patience)
	}
}

// Open opens a page in a tab with cookies of its own.
func (b *Browser) Open(url string) *Tab {
	b.t.Helper()
	var made struct{ BrowserContextID, TargetID, SessionID string }
	testkit.Must(b.t, b.call("", "Target.createBrowserContext", map[string]any{}, &made))
	testkit.Must(b.t, b.call("", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": made.BrowserContextID}, &made))
	testkit.Must(b.t, b.call("", "Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &made))
	tab := &Tab{browser: b, session: made.SessionID}
	b.mu.Lock()
	b.tabs[tab.session] = tab
	b.mu.Unlock()
	tab.call("Runtime.enable", nil, nil)
	tab.call("Log.enable", nil, nil)
	tab.Go(url)
	return tab
}

// call sends a command of a tab; an error ends the test.
func (t *Tab) call(method string, params, result any) {
	t.browser.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	testkit.Must(t.browser.t, t.browser.call(t.session, method, params, result))
}

// Go opens another page in the tab.
func (t *Tab) Go(url string) {
	t.browser.t.Helper()
	t.call("Page.navigate", map[string]any{"url": url}, nil)
}

// Size sets the size of the page in pixels, and whether it is dark.
func (t *Tab) Size(width, height int, dark bool) {
	t.browser.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	t.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	t.call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Key presses a key that has a character.
func (t *Tab) Key(text string) {
	t.browser.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		t.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": text, "text": text}, nil)
	}
}

// Screenshot returns a picture of the page as PNG.
func (t *Tab) Screenshot() []byte {
	t.browser.t.Helper()
	var picture struct{ Data []byte }
	t.call("Page.captureScreenshot", map[string]any{"format": "png"}, &picture)
	return picture.Data
}

// Run evaluates an expression of JavaScript and decodes its value as JSON. It waits for a promise.
func (t *Tab) Run(expression string, value any) {
	t.browser.t.Helper()
	if err := t.run(expression, value); err != nil {
		t.browser.t.Fatalf("%v\n%s", err, expression)
	}
}

func (t *Tab) run(expression string, value any) error {
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := t.browser.call(t.session, "Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &out)
	switch {
	case err != nil:
		return err
	case out.ExceptionDetails != nil:
		return errors.New(out.ExceptionDetails.Text + " " + out.ExceptionDetails.Exception.Description)
	case value != nil && out.Result.Value != nil:
		return json.Unmarshal(out.Result.Value, value)
	}
	return nil
}

// Until waits until an expression of JavaScript is true. An error counts as false, because the page
// may be loading.
func (t *Tab) Until(expression string) {
	t.browser.t.Helper()
	testkit.Until(t.browser.t, expression, func() bool {
		holds := false
		return t.run("Boolean("+expression+")", &holds) == nil && holds
	})
}

// note keeps a message of the console, an error of the page or a refused load.
func (t *Tab) note(r reply) {
	switch r.Method {
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
		t.mu.Lock()
		t.console = append(t.console, string(r.Params))
		t.mu.Unlock()
	}
}

// Console returns the messages of the console so far: those of scripts, errors, refused loads.
func (t *Tab) Console() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.console, "\n")
}
