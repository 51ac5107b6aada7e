package web

import (
	"net"
	"runtime"
	"testing"
	"time"
)

// A connection is hung up once the other side closed it, also behind data that nobody read.
func TestHungUp(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Log("only Linux tells")
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if HungUp(server) {
		t.Error("hung up while it is open")
	}
	client.Close()
	for end := time.Now().Add(5 * time.Second); !HungUp(server); time.Sleep(time.Millisecond) { // until the system knows
		if time.Now().After(end) {
			t.Fatal("not hung up after the client closed it")
		}
	}
	server.Close()
	if !HungUp(server) {
		t.Error("not hung up after it was closed on this side")
	}
	if a, b := net.Pipe(); HungUp(a) || HungUp(b) {
		t.Error("a pipe, which no system knows")
	}
}
