package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"stint"
)

// Error is why the server could not decide.
type Error struct {
	Doing   string // what the store was doing
	Problem string // what is wrong
	Hint    string // what to do; "" if unknown
	Err     error  // the cause; nil if there is none
}

// Error returns Doing and Problem, without the hint.
func (e *Error) Error() string { return "redis: " + e.Doing + ": " + e.Problem }

// Unwrap returns the cause, which may wrap stint.ErrUnknown.
func (e *Error) Unwrap() error { return e.Err }

// Hint returns what to do about an error of the server, by the error's first word.
func Hint(word string) string { return hints[word] }

// hints are what to do about errors of the server, by their first word. None of these errors
// charges anything.
var hints = map[string]string{
	"NOAUTH":      "put the password into the URL: redis://:PASSWORD@HOST",
	"WRONGPASS":   "check the user and the password of the URL",
	"NOPERM":      "let the user run EVAL, EVALSHA and what lua/*.lua calls, on the keys of the namespace",
	"READONLY":    "the server is a replica: name the primary, or let Sentinels name it (redis+sentinel://)",
	"LOADING":     "the server is reading its data; it answers when it is done",
	"BUSY":        "a script of somebody else runs too long; SCRIPT KILL ends it",
	"OOM":         "the server's memory is full: raise maxmemory, with maxmemory-policy noeviction",
	"MISCONF":     "the server cannot save its data; look into its log",
	"MASTERDOWN":  "the replica has lost its primary; name the primary",
	"CLUSTERDOWN": "the Cluster has lost slots; look at CLUSTER INFO",
	"MOVED":       "the server is part of a Cluster: use redis+cluster://",
	"ASK":         "the server is part of a Cluster: use redis+cluster://",
	"CROSSSLOT":   "the server is part of a Cluster: use redis+cluster://",
	"TRYAGAIN":    "a slot of the Cluster is moving to another server",
	"NOREPLICAS":  "the server wants more replicas than it has; see min-replicas-to-write",
	"UNKILLABLE":  "a script of somebody else runs too long",
	"STINT-STATE": "somebody else writes into the namespace, or a later release did: reset or delete the key, or give this service another namespace",
	"STINT-LOST":  "durable rules follow their on_store_failure until the period of the loss ends; stint accept-loss ends that at once",
	"WRONGTYPE":   "somebody else writes into the namespace: reset or delete the key, or give this service another namespace",
	"NOPROTO":     "the server is older than Redis 6.2",
	"DENIED":      "the server runs in protected mode; let it listen for this node, with a password",
	"DB":          "the server has fewer databases than that; write a smaller number behind the last slash of the URL",
	"No":          "check what stands behind master= in the URL: SENTINEL MASTERS says which names there are",
	"unknown":     "check that the URL names a server of the right kind (a Sentinel is none), which has not renamed the commands that limits need",
	"Unknown":     "let the server have the commands that lua/*.lua calls under their own names",
}

// Explain turns an error of the client into an Error for people. It wraps stint.ErrUnknown if the
// call may have been charged.
func Explain(doing string, err error) error {
	if answer, ok := rueidis.IsRedisErr(err); ok {
		return ExplainText(doing, answer.Error())
	}
	if problem, ok := errors.AsType[*URLError](err); ok { // about what the URL names
		return &Error{Doing: doing, Problem: problem.Problem, Hint: problem.Hint, Err: err}
	}
	hint, unconnected := hintOfConnection(err)
	switch {
	case unconnected, errors.Is(err, rueidis.ErrClosing):
		return &Error{Doing: doing, Problem: err.Error(), Hint: hint, Err: err}
	case doing == "connect" && errors.Is(err, context.DeadlineExceeded):
		return &Error{Doing: doing, Problem: "no connection in time", Hint: "check the address and the network, and whether the server encrypts as the URL says (rediss) or not (redis)", Err: err}
	case doing == "connect":
		return &Error{Doing: doing, Problem: err.Error(), Hint: "the server ends connections at once: it may want encryption (rediss://) or a certificate (cert= and key=), be in protected mode or have as many clients as it lets in; its log says more", Err: err}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &Error{Doing: doing, Problem: "no answer in time", Hint: "check the server's load and the network; where both are well, allow more time (--store-timeout)", Err: errors.Join(stint.ErrUnknown, err)}
	}
	return &Error{Doing: doing, Problem: "connection lost: " + err.Error(), Hint: "check that the server runs, and its log", Err: errors.Join(stint.ErrUnknown, err)}
}

// hintOfConnection returns what to do about an error while connecting, so that nothing was sent. It
// returns false for all other errors.
func hintOfConnection(err error) (hint string, unconnected bool) {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return "check that the server runs and that the address is right", true
	}
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		return "the server refuses this node's certificate, or wants one: cert= and key=", true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "name the certificates that signed the server's with ca=, and the server as its certificate does, or add verify=chain", true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the server does not encrypt: write redis:// for rediss://", true
	}
	return "", false
}

// ExplainText turns the text of a server's error into an Error for people.
func ExplainText(doing, text string) error {
	text = strings.TrimPrefix(text, "ERR ")
	if cause, partly := strings.CutPrefix(text, "STINT-PARTLY "); partly {
		return &Error{Doing: doing, Problem: "failed half-way: " + cause, Hint: hints["NOPERM"], Err: stint.ErrUnknown}
	}
	text = Plain(text)
	word, _, _ := strings.Cut(text, " ")
	return &Error{Doing: doing, Problem: text, Hint: hints[word], Err: fmt.Errorf("redis: %s", text)}
}

// Plain moves the word that names an error to the beginning. If a command failed within a script,
// Redis 6.2 puts the script before it (...: @user_script: 26: -READONLY You can't ...), and no
// release has such a word for a missing right.
func Plain(text string) string {
	if strings.HasPrefix(text, "STINT-") {
		return text
	}
	if i := strings.LastIndex(text, ": -"); i >= 0 && strings.Contains(text[:i], "@user_script") {
		text = text[i+3:]
	}
	if strings.HasPrefix(text, "NOPERM ") {
		return text
	}
	if strings.Contains(text, "can't run this command") || strings.Contains(text, "has no permissions to run") {
		text = "NOPERM " + text
	}
	return text
}
